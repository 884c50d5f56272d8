"""Updates without a finite gradient are skipped and counted; too many in a row end the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.base import jsonl
from engine.run.history import metrics
from engine.run.history.train_log import read_steps
from engine.run.run import Run
from tests.e2e.project import Project

pytestmark = pytest.mark.slow

ROWS, STEPS = 12, 12
POISON = "~"
"""A token without a use in the tiny world, of which the model's input embedding is NaN."""
DIGITS = """
def compute_score(solution_str, **_):
    return sum(c.isdigit() for c in solution_str) / max(1, len(solution_str))
"""


@pytest.fixture(scope="module")
def project(tiny_world: Project) -> Project:
    script = """
import sys
from torch.nn import Parameter
from transformers import AutoModelForCausalLM, AutoTokenizer
source, target, text = sys.argv[1:]
model = AutoModelForCausalLM.from_pretrained(source)
tokenizer = AutoTokenizer.from_pretrained(source)
model.get_output_embeddings().weight = Parameter(model.lm_head.weight.detach().clone())
model.config.tie_word_embeddings = False
model.get_input_embeddings().weight.data[tokenizer.encode(text)] = float("nan")
model.save_pretrained(target)
tokenizer.save_pretrained(target)
"""
    made = tiny_world.python("-c", script, "data/tiny/model", "poisoned", POISON)
    assert made.returncode == 0, made.stderr
    (tiny_world.path / "digits.py").write_text(DIGITS)
    return tiny_world


def write_rows(project: Project, name: str, poisoned: set[int]) -> Path:
    """The first conversations of the tiny world; a question of some has the poison."""
    lines = (project.path / "data/tiny/sft/train.jsonl").read_text().splitlines()[:ROWS]
    rows = [json.loads(line) for line in lines]
    for index in poisoned:
        rows[index]["messages"][1]["content"] += POISON
    path = project.path / name
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def launch_sft(project: Project, name: str, poisoned: set[int]) -> tuple[dict[str, Any], Run]:
    settings = (
        "model.path=poisoned",
        f"data.train_file={write_rows(project, f'{name}.jsonl', poisoned)}",
        "training.per_device_train_batch_size=1",
        f"training.max_steps={STEPS}",
        f"training.output_dir=checkpoints/{name}",
    )
    arguments = ("launch", "sft_tiny", *settings, "--name", name, "--wait")
    return project.json(*arguments, expect=(0, 1)), Run(project.path / "runs" / name)


def skipped(run: Run) -> list[int]:
    """The steps that the log of the run names, which are those of the metrics."""
    events = [e["step"] for e in jsonl.read(run.events) if e["event"] == "skipped_updates"]
    steps = [s.step for s in read_steps(run.train_log) if s.metrics.get(metrics.SKIPPED_SHARE)]
    assert events == steps
    return events


def findings(project: Project, run: str) -> set[str]:
    """What the doctor finds, with the consequences of each."""
    found = project.json("diagnose", run, expect=(0, 1))["findings"]
    return {each["id"] for finding in found for each in (finding, *finding["followed_by"])}


@pytest.mark.thorough
@pytest.mark.row("H20")
def test_sft_continues_after_a_skipped_update(project: Project) -> None:
    answer, run = launch_sft(project, "two", {2, 7})
    assert (answer["state"], len(skipped(run))) == ("finished", 2)


@pytest.mark.row("H20")
def test_sft_fails_after_three_in_a_row(project: Project) -> None:
    answer, run = launch_sft(project, "all", set(range(ROWS)))
    assert answer["state"] == "failed"
    assert "SkippedUpdatesError: step 3: 3 updates in a row" in answer["reason"]
    assert skipped(run) == [1, 2, 3]
    assert "loss_nan.updates_skipped" in findings(project, "all")


@pytest.mark.thorough
@pytest.mark.row("H20")
def test_grpo_fails_after_the_step_with_the_third_in_a_row(project: Project) -> None:
    """An entropy coefficient near the largest float32: every gradient overflows."""
    name, policy = "grpo", "actor_rollout_ref"
    settings = (
        f"{policy}.model.path=data/tiny/model",
        "data.max_response_length=8",
        "reward.custom_reward_function.path=digits.py",
        f"{policy}.actor.entropy_coeff=1e38",
        f"{policy}.actor.ppo_mini_batch_size=2",
        f"{policy}.actor.ppo_micro_batch_size_per_gpu=4",
        f"{policy}.rollout.log_prob_micro_batch_size_per_gpu=4",
        f"{policy}.rollout.n=2",
        "trainer.total_training_steps=4",
        "trainer.test_freq=-1",
        "trainer.val_before_train=false",
        f"trainer.experiment_name={name}",
    )
    arguments = ("launch", "grpo_tiny", *settings, "--name", name, "--wait")
    answer = project.json(*arguments, expect=(0, 1))
    assert answer["state"] == "failed"
    assert "SkippedUpdatesError: step 2: 4 updates in a row" in answer["reason"]
    assert skipped(Run(project.path / "runs" / name)) == [1, 2]
    assert "loss_nan.updates_skipped" in findings(project, name)
