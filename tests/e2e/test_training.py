"""SFT, then GRPO from its checkpoint: verl on this CPU, through the command line.

Two runs of the same config serve most tests: one undisturbed, one that lost all its processes and
was resumed. Their project is in a folder with an odd name, and their description is odd text.
"""

from __future__ import annotations

import ast
import json
import math
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.base import jsonl
from engine.config.keys import flatten
from engine.run.history.metrics import TRACKED, canonical
from engine.run.history.sweep import read_sweep
from engine.run.history.train_log import read_steps
from engine.run.manifest import Setting, values_of
from engine.run.processes import members, send
from engine.run.run import Run
from engine.run.state import RunState, observed_state, recorded_state
from engine.supervise import private_ray
from grubrics_tui.drawing.console_text import console_text
from tests.e2e.guide import guide_commands
from tests.e2e.project import (
    CLI,
    GROUPS_OF_4,
    ODD_FOLDER,
    ODD_TEXT,
    Project,
    copied,
    files_of_executed_names,
)
from tests.waiting import PATIENCE_S, TRAINING_PATIENCE_S, wait_for

pytestmark = pytest.mark.slow

STEPS = 4
KILLED_AFTER = 3
"""A step past the checkpoint of step 2 and before the next."""
MEASURING = ("evaluate", "sweep")
"""Commands of docs/evaluation.md that are run here; the others are run in test_ablate.py."""


def arguments(name: str) -> list[str]:
    return [
        "grpo_tiny",
        f"grubrics.description={ODD_TEXT}",
        f"trainer.total_training_steps={STEPS}",
        "trainer.save_freq=2",
        "trainer.test_freq=4",
        f"trainer.experiment_name={name}",
        "trainer.val_before_train=false",
        *GROUPS_OF_4,
        "--name",
        name,
    ]


@pytest.fixture(scope="module")
def tiny_world(pristine_world: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    return copied(pristine_world, tmp_path_factory.mktemp("world") / ODD_FOLDER)


@pytest.fixture(scope="module")
def grpo(tiny_world: Project, trained_sft: dict[str, Any]) -> dict[str, Any]:
    """How the undisturbed run ended, launched by a program of its own."""
    assert trained_sft["state"] == "finished", trained_sft
    done = tiny_world.run_program("launch", *arguments("straight"), "--wait", "--json")
    assert done.returncode in (0, 1), done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.fixture(scope="module")
def run(tiny_world: Project, grpo: dict[str, Any]) -> Run:
    assert grpo["state"] == "finished", grpo
    return Run(tiny_world.path / "runs" / "straight")


@dataclass(frozen=True)
class PowerCut:
    """A run that lost all its processes: its state then, and what ``reap`` left of it."""

    run: Run
    state: RunState
    left_running: bool
    left_of_ray: list[Path]


@pytest.fixture(scope="module")
def power_cut(tiny_world: Project, run: Run) -> PowerCut:
    killed = killed_run(tiny_world)
    state = observed_state(killed)
    tiny_world.json("reap", "--yes")
    folders = [private_ray.directory(attempt.path) for attempt in killed.attempts()]
    return PowerCut(killed, state, bool(members(killed)), [folder for folder in folders if folder])


def killed_run(project: Project) -> Run:
    """A run killed in its course; one that ends first is replaced by another one."""
    for name in ("resumed", "resumed-2", "resumed-3"):
        project.json("launch", *arguments(name))
        run = Run(project.path / "runs" / name)
        wait_for_step(run, KILLED_AFTER)
        kill_everything(run)
        folder = project.path / str(run.read_manifest().checkpoint_dir)
        if observed_state(run).state == "lost" and not (folder / f"global_step_{STEPS}").exists():
            return run
    raise AssertionError("every run came to its end before it was killed")


def wait_for_step(run: Run, number: int) -> None:
    wait_for(
        lambda: any(step.step == number for step in read_steps(run.train_log)), TRAINING_PATIENCE_S
    )


def kill_everything(run: Run) -> None:
    """As when the machine stops: the supervisor first, so that it cannot write a verdict."""
    supervisor = recorded_state(run).supervisor  # type: ignore[union-attr]
    assert supervisor is not None
    send(supervisor, signal.SIGKILL)
    for process in members(run):
        send(process, signal.SIGKILL)
    wait_for(lambda: not members(run))


@pytest.fixture(scope="module")
def resumed(tiny_world: Project, power_cut: PowerCut) -> Run:
    answer = tiny_world.json("resume", power_cut.run.id, "--wait", expect=(0, 1))
    assert (answer["from_step"], answer["state"]) == (2, "finished"), answer
    return power_cut.run


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


def test_no_shell_executes_the_odd_names(tiny_world: Project, run: Run) -> None:
    assert tiny_world.path.name == ODD_FOLDER
    assert tiny_world.json("show", run.id)["step"] == STEPS
    assert files_of_executed_names(tiny_world.path.parent) == []


def test_every_step_has_reward_judge_and_timing(tiny_world: Project, run: Run) -> None:
    names = ["reward/mean", "reward/std", "judge_api_latency_s", "semaphore_wait_s", "step_time"]
    series = tiny_world.json("metrics", run.id, *names)["series"]
    for name in names:
        steps = [step for step, value in series[name] if step >= 1]
        assert steps == list(range(1, STEPS + 1)), name
        assert all(value is not None and math.isfinite(value) for _, value in series[name]), name


@pytest.mark.row("V15", "A14")
def test_validation_points_are_at_the_steps_asked_for(run: Run) -> None:
    validated = [step.step for step in read_steps(run.train_log) if "val/reward" in step.metrics]
    assert validated == [4]  # trainer.test_freq=4, and none before the first step


@pytest.mark.row("V27")
def test_every_metric_of_a_dashboard_has_values_or_a_reason(tiny_world: Project, run: Run) -> None:
    names = [
        *("train/policy_loss", "train/value_loss", "train/kl_loss", "train/reward"),
        *("train/advantage", "train/entropy", "train/learning_rate", "train/global_step"),
        *("rollout/throughput", "system/gpu_utilization"),
    ]
    answer = tiny_world.json("metrics", run.id, *names)
    absent = {"train/value_loss", "train/kl_loss", "system/gpu_utilization"}
    assert set(answer["unavailable"]) == absent
    assert set(answer["series"]) == {*names} - absent
    for points in answer["series"].values():
        assert [step for step, _ in points] == list(range(1, STEPS + 1))


def test_there_is_one_reward_record_per_rollout(run: Run) -> None:
    config = run.read_config()
    batch = config["data.train_batch_size"].value
    group = config["actor_rollout_ref.rollout.n"].value
    assert isinstance(batch, int) and isinstance(group, int)
    rollouts = batch * group
    records = list(jsonl.read(run.attempt(1).reward))
    for step in range(1, STEPS + 1):
        mine = [r for r in records if r["split"] == "train" and r["step"] == step]
        assert len(mine) == rollouts
        assert len({r["group"] for r in mine}) == batch


def test_the_logged_reward_is_the_one_that_verl_trained_on(run: Run) -> None:
    ours = {record["step"]: record["metrics"] for record in jsonl.read(run.train_log)}
    theirs = {record["step"]: record["data"] for record in jsonl.read(run.attempt(1).metrics)}
    for step in range(1, STEPS + 1):
        assert ours[step]["reward/mean"] == pytest.approx(
            theirs[step]["critic/score/mean"], abs=1e-6
        )


@pytest.mark.row("G47", "G58")
def test_the_trainers_loggers_have_the_rewards_and_the_judges_times(run: Run) -> None:
    ours = {record["step"]: record["metrics"] for record in jsonl.read(run.train_log)}
    theirs = {record["step"]: record["data"] for record in jsonl.read(run.attempt(1).metrics)}
    for step in range(1, STEPS + 1):
        tracked = [name for name in TRACKED if name in theirs[step]]
        assert tracked == list(TRACKED)
        assert [theirs[step][name] for name in tracked] == [
            ours[step][canonical(name)] for name in tracked
        ]
    assert run.attempt(1).console.read_text().count("timing/semaphore_wait_s:") == STEPS


def test_prompts_are_real_conversations(run: Run) -> None:
    for record in jsonl.read(run.attempt(1).metrics):
        if record["step"] >= 1:
            assert record["data"]["prompt_length/min"] > 20


@pytest.mark.row("H12")
def test_the_manifest_was_written_before_the_first_step(run: Run) -> None:
    first = next(iter(jsonl.read(run.train_log)))
    assert run.manifest_file.stat().st_mtime < first["t"]


def test_the_manifest_records_the_overrides(run: Run) -> None:
    manifest = run.read_full_manifest()
    assert manifest.config["grubrics.description"] == Setting(ODD_TEXT, "cli")
    assert manifest.config["trainer.total_training_steps"] == Setting(STEPS, "cli")
    assert all(facts.sha256 for facts in manifest.data.values())


def test_the_manifest_is_the_configuration_that_verl_printed(run: Run) -> None:
    printed = printed_config(run.attempt(1).console)
    assert values_of(run.read_config()) == printed


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


def test_no_process_remains(tiny_world: Project, run: Run) -> None:
    assert members(run) == []
    assert tiny_world.json("show", run.id)["pids"] == []


def test_the_log_entry_is_written_from_the_files(tiny_world: Project, run: Run) -> None:
    answer = tiny_world.json("entry", run.id, "--append", "--question", "Does it run?")
    text = (tiny_world.path / "docs/experiment-log.md").read_text()
    assert f"### [{answer['id']}]" in text
    assert "Does it run?" in text
    assert run.id in text


# A run that lost all its processes repeats, once resumed, what it would have done.


def test_after_a_power_cut_the_run_is_lost(power_cut: PowerCut) -> None:
    assert power_cut.state.state == "lost"
    assert not power_cut.left_running
    assert power_cut.left_of_ray == []


def metrics(run: Run) -> dict[int, dict[str, float | None]]:
    """What counts of each step: the last attempt that did it."""
    return {step.step: dict(step.metrics) for step in read_steps(run.train_log)}


def rollouts(run: Run, step: int) -> list[tuple[str, str, float]]:
    """Prompt, completion and reward of each; verl dumps them in the order of their random ids."""
    last = max(
        (attempt.rollouts / f"{step}.jsonl" for attempt in run.attempts()),
        key=lambda path: path.stat().st_mtime if path.exists() else 0.0,
    )
    return sorted((line["input"], line["output"], line["score"]) for line in jsonl.read(last))


def test_the_rollouts_are_the_same(run: Run, resumed: Run) -> None:
    for step in range(1, STEPS + 1):
        assert rollouts(resumed, step) == rollouts(run, step), f"step {step}"


@pytest.mark.parametrize(
    "name",
    [
        "actor/loss",
        "actor/pg_loss",
        "actor/grad_norm",
        "actor/lr",
        "actor/entropy",
        "reward/mean",
        "reward/std",
        "response_length/mean",
    ],
)
def test_the_numbers_are_the_same_bit_by_bit(run: Run, resumed: Run, name: str) -> None:
    expected = {step: values[name] for step, values in metrics(run).items()}
    assert sorted(expected) == list(range(1, STEPS + 1))
    assert {step: values[name] for step, values in metrics(resumed).items()} == expected


def test_validation_is_the_same(run: Run, resumed: Run) -> None:
    assert metrics(resumed)[4]["val/reward"] == metrics(run)[4]["val/reward"]


def test_the_repeated_step_is_marked(resumed: Run) -> None:
    lines = [json.loads(line) for line in resumed.train_log.read_text().splitlines()]
    redone = [(line["step"], line["attempt"]) for line in lines if line.get("redone")]
    assert (KILLED_AFTER, 2) in redone


def test_no_attempt_leaves_a_folder_of_ray(run: Run, resumed: Run) -> None:
    assert "Traceback" not in run.attempt(1).console.read_text(errors="replace")
    for attempt in (*run.attempts(), *resumed.attempts()):
        recorded = (attempt.path / private_ray.RECORD).read_text().strip()
        assert not Path(recorded).exists()


# Runs of one test each


@pytest.fixture
def foreground(tiny_world: Project, trained_sft: dict[str, Any]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [
            *CLI,
            "launch",
            "sft_tiny",
            "training.max_steps=5000",
            "training.output_dir=checkpoints/interrupted",
            "--name=interrupted",
            "--wait",
        ],
        cwd=tiny_world.path,
        env={**os.environ, **tiny_world.env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Tests that are run in the background inherit that SIGINT is ignored.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    yield process
    process.kill()
    process.wait()


@pytest.mark.thorough
def test_ctrl_c_stops_the_run_and_leaves_nothing(
    tiny_world: Project, foreground: subprocess.Popen[str]
) -> None:
    assert foreground.stdout is not None
    for line in foreground.stdout:
        if re.match("step [1-9]", line):
            break
    os.killpg(foreground.pid, signal.SIGINT)
    rest = foreground.stdout.read()
    assert foreground.wait(PATIENCE_S) == 1
    assert "stopped by user at step" in rest
    run = Run(tiny_world.path / "runs" / "interrupted")
    state = json.loads(run.state_file.read_text())
    assert state["reason"].startswith("stopped by user")
    assert members(run) == []


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
    run = Run(tiny_world.path / "runs" / "killed-driver")
    wait_for_step(run, 2)
    trainer = recorded_state(run).trainer  # type: ignore[union-attr]
    assert trainer is not None
    send(trainer, signal.SIGKILL)
    wait_for(lambda: observed_state(run).has_ended)
    assert observed_state(run).reason.startswith("killed by SIGKILL")  # type: ignore[union-attr]

    answer = tiny_world.json("resume", run.id, "--wait")
    assert answer["from_step"] in (2, 4, 6)  # However far it came before the signal.
    assert (answer["attempt"], answer["state"]) == (2, "finished")
    result = tiny_world.json("metrics", run.id, "reward/mean")["series"]["reward/mean"]
    assert [step for step, _ in result] == list(range(1, 9))
    assert members(run) == []


@pytest.mark.thorough
@pytest.mark.row("H26")
def test_a_sweep_measures_every_checkpoint_as_validation_did(tiny_world: Project, run: Run) -> None:
    answer = tiny_world.json("sweep", run.id, "--follow")
    means = {r["target"]: r["mean"] for r in answer["results"] if r["metric"] == "reward"}
    assert list(means) == [f"{run.id}:{step}" for step in (0, 2, STEPS)]
    [validated] = [v for s in read_steps(run.train_log) if (v := s.metrics.get("val/reward"))]
    assert means[f"{run.id}:{STEPS}"] == pytest.approx(validated, abs=1e-6)
    assert means[answer["best"]["target"]] == max(means.values())
    sweep = read_sweep(run)
    assert sweep is not None
    assert [point.mean for point in sweep.points] == list(means.values())


@pytest.mark.parametrize(
    "command", [line for line in guide_commands(*MEASURING) if "RUN" in line], ids=" ".join
)
def test_the_commands_of_the_guide_measure_a_run(
    tiny_world: Project, run: Run, command: list[str]
) -> None:
    """As they are written; RUN is the undisturbed run."""
    result = tiny_world.run(*(run.id if word == "RUN" else word for word in command))
    assert result.returncode == 0, result.stderr
    assert f"{run.id}:{STEPS}" in result.stdout
