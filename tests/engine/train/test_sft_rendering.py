"""The preflight checks join SFT conversations as verl's own data set does."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.checks.chat_template import ChatTemplate, RefusedError, SftRenderer, read_encoder
from engine.train.sft_inputs import write_parquet
from tests.engine.train.conftest import CHAT_TEMPLATE, make_tokenizer

TALK = [
    {"role": "user", "content": "What is 1 + 2?"},
    {"role": "assistant", "content": "3"},
    {"role": "user", "content": "And twice that?"},
    {"role": "assistant", "content": "6"},
]
WITH_SYSTEM = [{"role": "system", "content": "Add numbers."}, *TALK[:2]]
OWN_SYSTEM = (
    "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nHelp.<|im_end|>\n{% endif %}"
)
NEEDS_A_QUESTION = (
    "{% if messages | selectattr('role', 'equalto', 'user') | list | length == 0 %}"
    "{{ raise_exception('No user query found in messages.') }}{% endif %}"
)
ALTERNATING = (
    "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate') }}{% endif %}{% endfor %}"
)
LAST_TURN = CHAT_TEMPLATE.replace(
    "{{ m['content'] }}",
    "{% if loop.last and loop.index0 > 0 %}<think></think>{% endif %}{{ m['content'] }}",
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    make_tokenizer(["What is 1 + 2?", "And twice that?"]).save_pretrained(folder)
    return folder


def renderer(model: Path, source: str) -> SftRenderer:
    encode = read_encoder(model)
    assert encode is not None
    return SftRenderer(ChatTemplate(source, {"eos_token": "<|im_end|>"}), encode)


def verl_lengths(model: Path, source: str, conversation: list[dict[str, str]]) -> tuple[int, int]:
    """Tokens of a row, and those of them that verl learns from."""
    from transformers import AutoTokenizer
    from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset

    tokenizer = AutoTokenizer.from_pretrained(model)
    tokenizer.chat_template = source
    file = write_parquet([conversation], model / "rows.parquet")
    config = {"pad_mode": "no_padding", "max_length": 1000, "truncation": "right"}
    row = MultiTurnSFTDataset(str(file), tokenizer, config)[0]
    return len(row["input_ids"]), int(row["loss_mask"].sum())


@pytest.mark.parametrize("conversation", [TALK, WITH_SYSTEM], ids=["plain", "system"])
@pytest.mark.parametrize(
    "source",
    [CHAT_TEMPLATE, OWN_SYSTEM + CHAT_TEMPLATE, NEEDS_A_QUESTION + CHAT_TEMPLATE],
    ids=["plain", "own system", "needs a question"],
)
def test_a_row_has_as_many_tokens_as_in_verls_data_set(
    source: str, conversation: list[dict[str, str]], model: Path
) -> None:
    (rendered,) = renderer(model, source).render([conversation])
    assert rendered.differs is None
    assert rendered.tokens == verl_lengths(model, source, conversation)[0]


def test_turns_that_render_differently_alone_are_reported(model: Path) -> None:
    with pytest.raises(AssertionError, match="ignore_input_ids_mismatch"):
        verl_lengths(model, LAST_TURN, TALK)
    (rendered,) = renderer(model, LAST_TURN).render([TALK])
    assert rendered.differs is not None and "<think>" in rendered.differs


def test_conversations_that_verl_cannot_render_are_refused(model: Path) -> None:
    with pytest.raises(Exception, match="Conversation roles must alternate"):
        verl_lengths(model, ALTERNATING + CHAT_TEMPLATE, TALK)
    with pytest.raises(RefusedError, match="Conversation roles must alternate"):
        renderer(model, ALTERNATING + CHAT_TEMPLATE)
