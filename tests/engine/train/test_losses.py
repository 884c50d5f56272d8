"""The loss of conversations is that of verl's SFT trainer."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.base import jsonl
from engine.data.conversations import Conversation, read_conversations
from engine.train.backends import load_target
from engine.train.losses import conversation_losses
from tests.engine.train.conftest import SmallWorld, write_conversations
from tests.paths import CONFIGS

QUESTION: Conversation = [
    {"role": "user", "content": "What is 1 + 2?"},
    {"role": "assistant", "content": "3"},
]


def job_of(max_length: int = 256) -> dict[str, Any]:
    loss = {"max_length": max_length, "ignore_input_ids_mismatch": False}
    machine = {"device": "cpu", "dtype": "float32", "chat_template": None}
    return {**machine, "template_key": "model.custom_chat_template", "loss": loss}


def measure(
    form: str, source: Path, conversations: Sequence[Conversation], max_length: int = 256
) -> list[dict[str, Any]]:
    """The lines of the conversations, in their order."""
    job = job_of(max_length)
    model, tokenizer = load_target(form, str(source), job)
    requests = [
        {"row": {"uid": str(number)}, "messages": messages}
        for number, messages in enumerate(conversations)
    ]
    lines = [line for b in conversation_losses(model, tokenizer, requests, job) for line in b]
    return sorted(lines, key=lambda line: int(line["uid"]))


@pytest.mark.sample(1)
@pytest.mark.slow
@pytest.mark.parametrize("shape", [[], ["lora.r=4", "lora.alpha=8"]], ids=["full", "lora"])
def test_the_mean_over_all_tokens_is_verls_validation_loss(
    world: SmallWorld, tmp_path: Path, shape: list[str]
) -> None:
    rows = [
        (f"What is {x} + {y}?", f"{x + y}, because {x} and {y}" * x)
        for x in (1, 2)
        for y in range(4)
    ]
    held_out = write_conversations(tmp_path / "held_out.jsonl", rows)
    settings = [
        f"model.path={world.model}",
        f"data.train_file={world.conversations}",
        f"data.val_file={held_out}",
        f"training.output_dir={tmp_path / 'out'}",
        "training.max_steps=3",
        "training.learning_rate=0.01",
    ]
    command = [sys.executable, "-m", "engine.train.sft", "--config", str(CONFIGS / "sft_tiny.yaml")]
    attempt = tmp_path / "attempt"
    env = {**os.environ, "GRUBRICS_ATTEMPT_DIR": str(attempt)}
    done = subprocess.run(
        [*command, *settings, *shape], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    logged = [line["data"] for line in jsonl.read(attempt / "metrics.jsonl")]
    [*_, expected] = [data["val/loss"] for data in logged if "val/loss" in data]
    lines = measure("checkpoint", tmp_path / "out" / "global_step_3", read_conversations(held_out))
    tokens = sum(line["tokens"] for line in lines)
    mean = sum(line["tokens"] * line["loss"] for line in lines) / tokens
    assert mean == pytest.approx(expected, abs=1e-5)


def test_a_conversation_has_the_same_loss_beside_longer_ones(world: SmallWorld) -> None:
    longer = [*QUESTION, {"role": "user", "content": "And 2 + 2?" * 5}, QUESTION[1]]
    [alone] = measure("model", world.model, [QUESTION])
    beside, _ = measure("model", world.model, [QUESTION, longer])
    assert beside["loss"] == pytest.approx(alone["loss"], abs=1e-5)


def test_every_response_of_a_conversation_counts_and_no_question_does(world: SmallWorld) -> None:
    other = [{"role": "user", "content": "What is 3 + 3?"}, QUESTION[1]]
    one, both = measure("model", world.model, [QUESTION, [*QUESTION, *other]])
    assert both["tokens"] == 2 * one["tokens"]


def test_a_conversation_without_a_response_in_the_limit_has_no_loss(world: SmallWorld) -> None:
    [line] = measure("model", world.model, [QUESTION], max_length=8)
    assert line["loss"] is None
    assert line["error"] == "no response token in data.max_seq_length=8"
