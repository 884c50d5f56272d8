"""Which evaluations have something in common, and which do not."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.base.errors import UsageError
from engine.config.load import load_config
from engine.measure.setup import make_setup, read_data, validation_file


@pytest.mark.parametrize(
    "override",
    [
        "data.filter_overlong_prompts=true",
        "data.apply_chat_template_kwargs.enable_thinking=true",
        "actor_rollout_ref.model.custom_chat_template=x",
        "data.max_prompt_length=64",
        "reward_config.lambda_info=0",
    ],
)
def test_what_changes_an_answer_or_its_score_is_another_evaluation(override: str) -> None:
    setups = [
        make_setup(Path("val.parquet"), [], load_config("grpo_tiny", overrides, {}), 1, 1)
        for overrides in ((), (override,))
    ]
    assert setups[0].id != setups[1].id


def test_training_values_do_not_change_the_evaluation() -> None:
    setups = [
        make_setup(Path("val.parquet"), [], load_config("grpo_tiny", overrides, {}), 1, 1)
        for overrides in ((), ("actor_rollout_ref.actor.optim.lr=1e-3",))
    ]
    assert setups[0].id == setups[1].id


@pytest.mark.parametrize("changed", ["rw.py", "grading.py", "words.json"])
def test_another_file_of_the_reward_function_is_another_evaluation(
    changed: str, tmp_path: Path
) -> None:
    (tmp_path / "rw.py").write_text("import grading\nWORDS = 'words.json'\n")
    (tmp_path / "grading.py").write_text("")
    (tmp_path / "words.json").write_text("[]")
    override = f"reward.custom_reward_function.path={tmp_path / 'rw.py'}"
    config = load_config("grpo_tiny", (override,), {})
    before = make_setup(Path("val.parquet"), [], config, 1, 1)
    with (tmp_path / changed).open("a") as file:
        file.write("\n")
    assert make_setup(Path("val.parquet"), [], config, 1, 1).id != before.id


def test_a_config_without_rollouts_needs_another_one() -> None:
    with pytest.raises(UsageError, match="--config"):
        validation_file(load_config("sft_tiny", (), {}))


def test_an_sft_config_is_measured_by_its_loss_on_held_out_conversations() -> None:
    config = load_config("sft_tiny", ("data.val_file=held_out.jsonl",), {})
    assert validation_file(config) == Path("held_out.jsonl")
    setup = make_setup(Path("held_out.jsonl"), [], config, 1, 1)
    assert setup.sampling is None
    assert setup.scoring["loss"]["max_length"] == 256


def test_prompts_are_no_data_of_an_sft_config(tmp_path: Path) -> None:
    file = tmp_path / "val.parquet"
    pq.write_table(pa.table({"prompt": ["What is 3 + 4?"]}), file)
    with pytest.raises(UsageError, match=r"holds no conversations.*--config CONFIG"):
        read_data(file, None, load_config("sft_tiny", (), {}))


def test_a_loss_has_no_samples() -> None:
    with pytest.raises(UsageError, match="--samples 4"):
        make_setup(Path("held_out.jsonl"), [], load_config("sft_tiny", (), {}), 4, 1)


def test_one_of_several_validation_files_must_be_named() -> None:
    config = load_config("grpo_tiny", ("data.val_files=[a.parquet,b.parquet]",), {})
    with pytest.raises(UsageError, match="names 2 files; name one with --data"):
        validation_file(config)
