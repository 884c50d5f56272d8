"""SFT, then GRPO from its checkpoint: verl on this CPU, through the command line."""

from __future__ import annotations

import ast
import json
import math
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.base import jsonl
from engine.history.train_log import read_steps
from engine.recipe.keys import flatten
from engine.runs.processes import members, send
from engine.runs.rundir import RunDir
from engine.runs.state import observed_state, recorded_state
from engine.supervise import private_ray
from grubrics_tui.drawing.console_text import console_text
from tests.e2e.project import CLI, Project
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

STEPS = 4


@pytest.fixture(scope="module")
def grpo(tiny_world: Project, trained_sft: dict[str, Any]) -> dict[str, Any]:
    assert trained_sft["state"] == "finished", trained_sft
    answer: dict[str, Any] = tiny_world.json(
        "launch",
        "grpo_tiny",
        f"trainer.total_training_steps={STEPS}",
        "--name",
        "grpo",
        "--wait",
        expect=(0, 1),
    )
    return answer


@pytest.fixture(scope="module")
def run(tiny_world: Project, grpo: dict[str, Any]) -> RunDir:
    return RunDir(tiny_world.path / "runs" / "grpo")


def test_sft_leaves_a_loadable_hugging_face_folder(
    tiny_world: Project, trained_sft: dict[str, Any]
) -> None:
    final = tiny_world.path / "checkpoints/grubrics-transfer/sft-tiny/final"
    code = (
        "from transformers import AutoModelForCausalLM, AutoTokenizer;"
        f"model = AutoModelForCausalLM.from_pretrained({str(final)!r});"
        f"tokenizer = AutoTokenizer.from_pretrained({str(final)!r});"
        "assert model.get_input_embeddings().num_embeddings >= len(tokenizer)"
    )
    done = tiny_world.python("-c", code)
    assert done.returncode == 0, done.stderr


def test_grpo_reaches_its_last_step(grpo: dict[str, Any]) -> None:
    assert (grpo["state"], grpo["reason"]) == ("finished", None)


def test_every_step_has_reward_judge_and_timing(tiny_world: Project, run: RunDir) -> None:
    names = ["reward/mean", "reward/std", "judge_api_latency_s", "semaphore_wait_s", "step_time"]
    found = tiny_world.json("series", run.id, *names)["series"]
    for name in names:
        steps = [step for step, value in found[name] if step >= 1]
        assert steps == list(range(1, STEPS + 1)), name
        assert all(value is not None and math.isfinite(value) for _, value in found[name]), name


def test_there_is_one_reward_record_per_rollout(run: RunDir) -> None:
    config = run.read_manifest()["config"]
    rollouts = (
        config["data.train_batch_size"]["value"] * (config["actor_rollout_ref.rollout.n"]["value"])
    )
    records = list(jsonl.read(run.attempt(1).reward))
    for step in range(1, STEPS + 1):
        mine = [r for r in records if r["split"] == "train" and r["step"] == step]
        assert len(mine) == rollouts
        assert len({r["group"] for r in mine}) == config["data.train_batch_size"]["value"]


def test_the_logged_reward_is_the_one_that_verl_trained_on(run: RunDir) -> None:
    ours = {record["step"]: record["metrics"] for record in jsonl.read(run.train_log)}
    theirs = {record["step"]: record["data"] for record in jsonl.read(run.attempt(1).metrics)}
    for step in range(1, STEPS + 1):
        assert ours[step]["reward/mean"] == pytest.approx(
            theirs[step]["critic/score/mean"], abs=1e-6
        )


def test_prompts_are_real_conversations(run: RunDir) -> None:
    for record in jsonl.read(run.attempt(1).metrics):
        if record["step"] >= 1:
            assert record["data"]["prompt_length/min"] > 20


def test_the_manifest_was_written_before_the_first_step(run: RunDir) -> None:
    first = next(iter(jsonl.read(run.train_log)))
    assert run.manifest.stat().st_mtime < first["t"]


def test_the_manifest_knows_what_was_changed(run: RunDir) -> None:
    manifest = run.read_manifest()
    assert manifest["config"]["trainer.total_training_steps"] == {"value": STEPS, "origin": "cli"}
    assert all("sha256" in data for data in manifest["data"].values())


def test_the_manifest_is_the_configuration_that_verl_printed(run: RunDir) -> None:
    config = run.read_manifest()["config"]
    printed = printed_config(run.attempt(1).console)
    assert {key: entry["value"] for key, entry in config.items()} == printed


def printed_config(console: Path) -> dict[str, Any]:
    """The dict that verl's driver prints before it trains, by dotted key."""
    lines = [console_text(raw) for raw in console.read_bytes().splitlines()]
    start = next(n for n, line in enumerate(lines) if line.text.startswith("{'actor_rollout_ref'"))
    source = lines[start].source
    text = "\n".join(line.text for line in lines[start:] if line.source == source)
    depth = 0
    for end, char in enumerate(text, start=1):
        depth += {"{": 1, "}": -1}.get(char, 0)
        if depth == 0:
            return dict(flatten(ast.literal_eval(text[:end])))
    raise AssertionError("the console ends inside the configuration")


def test_nothing_is_left_running(tiny_world: Project, run: RunDir) -> None:
    assert members(run) == []
    assert tiny_world.json("show", run.id)["pids"] == []


def test_the_log_entry_is_written_from_the_files(tiny_world: Project, run: RunDir) -> None:
    answer = tiny_world.json("log", run.id, "--append", "--question", "Does it run?")
    text = (tiny_world.path / "docs/experiment-log.md").read_text()
    assert f"### [{answer['id']}]" in text
    assert "Does it run?" in text
    assert run.id in text


@pytest.fixture
def foreground(tiny_world: Project, trained_sft: dict[str, Any]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [
            *CLI,
            "launch",
            "grpo_tiny",
            "trainer.experiment_name=interrupted",
            "--name",
            "interrupted",
            "--wait",
        ],
        cwd=tiny_world.path,
        env={**os.environ, **tiny_world.env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    yield process
    process.kill()
    process.wait()


def test_ctrl_c_stops_the_run_and_leaves_nothing(
    tiny_world: Project, foreground: subprocess.Popen[str]
) -> None:
    assert foreground.stdout is not None
    for line in foreground.stdout:
        if line.startswith("step 1/"):
            break
    os.killpg(foreground.pid, signal.SIGINT)
    rest = foreground.stdout.read()
    assert foreground.wait(180) == 1
    assert "stopped by user at step" in rest
    run = RunDir(tiny_world.path / "runs" / "interrupted")
    state = json.loads(run.state.read_text())
    assert state["reason"].startswith("stopped by user")
    assert members(run) == []


def test_ray_leaves_no_folder_behind(run: RunDir) -> None:
    console = run.attempt(1).console.read_text(errors="replace")
    assert "Traceback" not in console
    recorded = (run.attempt(1).path / private_ray.RECORD).read_text().strip()
    assert not Path(recorded).exists()


@pytest.mark.thorough
def test_a_killed_run_is_resumed_as_one_history(
    tiny_world: Project, trained_sft: dict[str, Any]
) -> None:
    tiny_world.json(
        "launch",
        "grpo_tiny",
        "trainer.total_training_steps=8",
        "trainer.save_freq=2",
        "trainer.experiment_name=killed-driver",
        "trainer.val_before_train=false",
        "--name",
        "killed-driver",
    )
    run = RunDir(tiny_world.path / "runs" / "killed-driver")
    wait_for(lambda: any(step.step == 2 for step in read_steps(run.train_log)))
    trainer = recorded_state(run).trainer  # type: ignore[union-attr]
    assert trainer is not None
    send(trainer, signal.SIGKILL)
    wait_for(lambda: observed_state(run).has_ended)
    assert observed_state(run).reason.startswith("killed by SIGKILL")  # type: ignore[union-attr]

    answer = tiny_world.json("resume", run.id, "--wait")
    assert answer["from_step"] in (2, 4, 6)  # However far it came before the signal.
    assert (answer["attempt"], answer["state"]) == (2, "finished")
    found = tiny_world.json("series", run.id, "reward/mean")["series"]["reward/mean"]
    assert [step for step, _ in found] == list(range(1, 9))
    assert members(run) == []
