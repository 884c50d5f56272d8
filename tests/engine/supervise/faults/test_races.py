"""Two of everything at the same moment."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import UsageError
from engine.config.load import load_config
from engine.launch import launcher
from engine.launch.resume import resume
from engine.run.history.live import RunWatch
from engine.run.run import Run
from engine.run.state import RunState, write_state
from engine.supervise.stopping import stop_run
from tests.engine.supervise.faults.stage import STANDIN, Stage, events, logged
from tests.waiting import ended

pytestmark = pytest.mark.waits

CONFIG = """
grubrics: {kind: grpo, device: cpu}
data: {train_files: train.jsonl, train_batch_size: 4}
trainer: {default_local_dir: checkpoints, resume_mode: disable, total_training_steps: 3}
"""
CONTENDERS = 8


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose trainer is the stand-in; it hangs until it is told to go on."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(launcher.__file__).parents[2]))
    (tmp_path / "try.yaml").write_text(CONFIG)
    (tmp_path / "train.jsonl").write_text("{}\n")
    argv = [sys.executable, str(STANDIN), "3", "--hang-at", "1"]
    monkeypatch.setattr(launcher, "pinned_argv", lambda *_: argv)
    return tmp_path


def go_on(run: Run, attempt: int = 1) -> None:
    (run.attempt(attempt).path / "go").touch()


def race(act: Callable[[], object]) -> list[str]:
    """What became of each of eight processes that act at once: "" or its one line."""
    context = multiprocessing.get_context("fork")
    barrier, answers = context.Barrier(CONTENDERS), context.SimpleQueue()

    def contend() -> None:
        barrier.wait()
        try:
            act()
        except UsageError as error:
            answers.put(str(error))
        else:
            answers.put("")

    contenders: list[Any] = [context.Process(target=contend) for _ in range(CONTENDERS)]
    for contender in contenders:
        contender.start()
    for contender in contenders:
        contender.join()
    return [answers.get() for _ in contenders]


def test_exactly_one_of_simultaneous_launches_with_the_same_id_succeeds(
    project: Path, stage: Stage
) -> None:
    plan = launcher.plan(load_config("try.yaml", env={}), "same", stage.root)
    answers = race(lambda: launcher.launch(plan))
    refusal = f"run 'same' already exists in {stage.root}. Choose another name with --name"
    assert sorted(answers) == ["", *[refusal] * (CONTENDERS - 1)]
    go_on(Run(plan.directory))
    assert ended(Run(plan.directory)).state == "finished"
    assert [path.name for path in stage.root.iterdir() if path.name.startswith(".launch")] == []


@pytest.mark.thorough
def test_exactly_one_of_simultaneous_resumes_succeeds(project: Path, stage: Stage) -> None:
    plan = launcher.plan(load_config("try.yaml", env={}), "one", stage.root)
    run = Run(plan.directory)
    launcher.launch(plan)
    stop_run(run)
    for attempt in run.attempts():
        attempt.console.unlink()
    run.train_log.unlink(missing_ok=True)
    write_state(run, RunState("failed", total_steps=3))
    answers = race(lambda: resume(run))
    assert answers.count("") == 1
    assert all(
        answer == "" or "another process" in answer or "still active (" in answer
        for answer in answers
    )
    go_on(run, attempt=2)
    assert ended(run).attempt == 2
    assert [attempt.number for attempt in run.read_manifest().attempts] == [1, 2]
    assert len(events(run, "resume")) == 1


@pytest.mark.thorough
def test_two_pipes_and_a_screen_on_one_run_see_the_same_steps(stage: Stage) -> None:
    run = stage.start("--sleep", "0.1", steps=10)
    command = [sys.executable, "-m", "grubrics_tui", "watch", run.id, "--runs", str(stage.root)]
    pipes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    screen, seen = RunWatch(run), []
    while not (update := screen.poll()).state.has_ended:
        seen += update.batch.steps.tolist()
        time.sleep(0.02)
    seen += update.batch.steps.tolist()
    printed = [pipe.communicate()[0].splitlines() for pipe in pipes]
    assert [pipe.returncode for pipe in pipes] == [0, 0]
    assert seen == logged(run) == list(range(1, 11))
    assert [[json.loads(line)["step"] for line in lines] for lines in printed] == [seen, seen]
