"""What the process that generates the answers of an evaluation does with each target and prompt."""

from __future__ import annotations

import io
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.measure.evaluate import _request
from engine.measure.items import Item
from engine.train import evaluate
from engine.train.backends import load_target
from tests.engine.train.conftest import SmallWorld

ROW = {"uid": "q", "sample": 0, "item_sha256": "i", "prompt_sha256": "p"}


class Tokenizer:
    """One token per character."""

    def apply_chat_template(self, messages: list[dict[str, str]], **_: Any) -> dict[str, list[int]]:
        return {"input_ids": [ord(char) for char in messages[0]["content"]]}


def job_of(**changes: Any) -> dict[str, Any]:
    limits = {"max_prompt_tokens": 3, "filter_long_prompts": False, "template_arguments": {}}
    base: dict[str, Any] = {
        "parent": os.getppid(),
        "niceness": 0,
        "threads": None,
        "seed": 1,
        "targets": [],
        "vllm": None,
        "backend": None,
        "batch": 32,
    }
    return {**base, **limits, **changes}


def prompt(text: str, **changes: Any) -> str:
    request = {"row": ROW, "messages": [{"role": "user", "content": text}]}
    return "".join(map(chr, evaluate._prompt(Tokenizer(), request, job_of(**changes)).tokens))


def test_of_a_long_prompt_the_last_tokens_stay_as_in_a_rollout() -> None:
    assert prompt("abcde") == "cde"
    assert prompt("abc", filter_long_prompts=True) == "abc"
    with pytest.raises(UsageError, match="5 tokens"):
        prompt("abcde", filter_long_prompts=True)


def test_a_prompt_has_what_its_row_says_of_tools() -> None:
    extra = {"tool_selection": ["price"], "tools_kwargs": None, "question_id": "q"}
    message = {"role": "user", "content": "abc"}
    item = Item("q", (message,), {"prompt": [message], "extra_info": extra}, "p", "i")
    request = json.loads(json.dumps(_request(item, 0)))
    made = evaluate._prompt(Tokenizer(), request, job_of())
    assert made.extra_info == {"tool_selection": ["price"]}


@pytest.fixture
def targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Two targets, of which the first cannot be loaded."""

    def load(form: str, source: str, job: object) -> tuple[str, str]:
        if source == "torn":
            raise RuntimeError("invalid header")
        return source, source

    monkeypatch.setattr(evaluate, "load_target", load)
    monkeypatch.setattr(evaluate, "_answers", lambda *_: iter([[ROW]]))
    return [
        {"name": f"run:{source}", "form": "checkpoint", "source": source, "requests": []}
        | {"answers": str(tmp_path / f"{source}.jsonl")}
        for source in ("torn", "whole")
    ]


def run(job: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(job)))
    return evaluate.main()


def test_a_target_that_cannot_be_loaded_does_not_stop_the_next_one(
    targets: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(job_of(targets=targets), monkeypatch) == 1
    assert list(jsonl.read(Path(targets[1]["answers"]))) == [ROW]
    assert capsys.readouterr().err.splitlines()[-1] == "run:torn: invalid header"


def test_answers_of_another_backend_are_not_mixed_with_this_ones(
    targets: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(job_of(targets=targets[1:], backend="vllm"), monkeypatch) == 1
    assert not Path(targets[1]["answers"]).exists()
    assert "transformers would generate here, and vllm generated" in capsys.readouterr().err


def test_nothing_is_generated_for_a_process_that_is_gone(
    targets: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(job_of(targets=targets, parent=os.getppid() + 1), monkeypatch) == 1
    assert not Path(targets[1]["answers"]).exists()


def test_a_model_without_chat_template_is_refused_with_the_key_that_helps(
    world: SmallWorld, tmp_path: Path
) -> None:
    model = shutil.copytree(world.model, tmp_path / "model")
    (model / "chat_template.jinja").unlink()
    job = {"dtype": "float32", "device": "cpu", "chat_template": None, "template_key": "the.key"}
    with pytest.raises(UsageError, match=r"no chat template. Set the\.key"):
        load_target("model", str(model), job)
    own = "{{ messages[0]['content'] }}"
    _, tokenizer = load_target("model", str(model), {**job, "chat_template": own})
    assert tokenizer.chat_template == own
