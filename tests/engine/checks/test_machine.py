"""The runs that a launch would share the machine with."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from engine.base import jsonl
from engine.checks import machine
from engine.checks.check import Check, Subject
from engine.checks.complete_change import parse_fix
from engine.run.identity import Identity
from engine.run.marks import Mark
from engine.run.processes import identify, marked
from engine.run.run import ATTEMPT_DIR_VARIABLE, RUN_ID_VARIABLE, Run
from engine.run.state import RunState, StateName, this_host, write_state
from tests.engine.checks.project import Project
from tests.waiting import wait_for


def active(
    project: Project,
    name: str = "other",
    state: StateName = "running",
    folder: str = "runs",
    **more: str,
) -> Run:
    run = Run(project.root / folder / name)
    run.path.mkdir(parents=True)
    known: dict[str, Any] = {"host": this_host(), **more}
    mine = identify(os.getpid())
    write_state(run, RunState(state, supervisor=mine, step=3, total_steps=40, **known))
    return run


@pytest.fixture
def elsewhere(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """A run of another runs directory, with a live process."""
    run = active(project, "night", folder="elsewhere")
    jsonl.write_json(run.manifest_file, {"v": 1})
    mark = {ATTEMPT_DIR_VARIABLE: str(run.attempt(1).path), RUN_ID_VARIABLE: run.id}
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, env={**os.environ, **mark})
    identity = identify(process.pid)
    # A process that has just begun may not show its environment yet.
    wait_for(lambda: _marked_as(identity))
    monkeypatch.setattr(machine, "marked", lambda: iter(_marked_as(identity)))
    yield run
    process.communicate()


def _marked_as(identity: Identity | None) -> list[tuple[Identity, Mark]]:
    """The process of a test alone: other runs may be active on this machine."""
    return [(found, mark) for found, mark in marked() if found == identity]


def answer(
    project: Project, *overrides: str, ahead: str = "", waits: bool = False, **env: str
) -> Check:
    config, before = project.config("grpo", *overrides), frozenset(ahead.split())
    return machine.check_machine(Subject(config, env, project.root / "runs", before, waits))


def test_an_active_run_is_named_with_its_step_and_the_queue(project: Project) -> None:
    active(project)
    result = answer(project)
    assert result.status == "warn"
    assert result.message == (
        "run 'other' is running at step 3 of 40 and shares the CPU and the memory"
    )
    assert result.fix is not None and result.fix.endswith("--queue")


def test_the_command_that_queues_the_launch_has_its_overrides(project: Project) -> None:
    active(project)
    overrides = ("trainer.total_training_steps=7", "data.train_files=[a.parquet, b.parquet]")
    fix = answer(project, *overrides).fix
    assert fix is not None
    assert shlex.split(fix)[3:] == [*overrides, "--queue"]
    parsed = parse_fix(fix, project.config("grpo", *overrides))
    assert parsed is not None and parsed.queues and not parsed.overrides


@pytest.mark.parametrize(
    ("theirs", "mine", "shared"),
    [
        ("all", "all", "every GPU"),
        ("0,1", "1,2", "GPU 1"),
        ("all", "3", "GPU 3"),
        ("0", "all", "GPU 0"),
        ("0", "1", "the CPU and the memory, but no GPU"),
    ],
)
def test_the_gpus_that_both_would_use_are_named(
    project: Project, theirs: str, mine: str, shared: str
) -> None:
    active(project, gpus=theirs)
    result = answer(project, "grubrics.device=cuda", CUDA_VISIBLE_DEVICES=mine)
    assert result.message.endswith(f"shares {shared}")


def test_a_run_that_waits_for_its_turn_is_not_warned(project: Project) -> None:
    active(project)
    result = answer(project, waits=True)
    assert (result.status, "other" in result.message) == ("ok", True)


def test_a_run_that_ends_before_is_named_and_shares_nothing(project: Project) -> None:
    active(project)
    result = answer(project, ahead="other earlier")
    assert result.status == "ok"
    assert result.message.endswith("on this host than other, for which this one waits")


def test_the_run_that_launches_this_one_only_waits_for_it(project: Project) -> None:
    active(project, "pipeline")
    assert answer(project, GRUBRICS_RUN_ID="pipeline").status == "ok"


def test_a_run_that_only_follows_files_shares_nothing(project: Project) -> None:
    run = active(project)
    jsonl.write_json(run.manifest_file, {"v": 1, "kind": "command", "adopted": {"path": "/a.log"}})
    assert answer(project).status == "ok"


@pytest.mark.parametrize("state", ["queued", "finished"])
def test_queued_and_ended_runs_use_nothing(project: Project, state: StateName) -> None:
    active(project, state=state)
    assert answer(project).message == "no other active run of yours on this host"


def test_a_run_of_another_runs_directory_is_named_with_it(project: Project, elsewhere: Run) -> None:
    result = answer(project)
    folder = elsewhere.path.parent
    assert result.status == "warn" and result.fix is None
    assert f"run 'night' of {folder} is running at step 3 of 40" in result.message


def test_a_queue_does_not_wait_for_it(project: Project, elsewhere: Run) -> None:
    active(project)
    assert "'other'" in answer(project).message
    waiting = answer(project, waits=True)
    assert (waiting.status, waiting.fix, "'other'" in waiting.message) == ("warn", None, False)


def test_an_ended_run_of_another_directory_uses_nothing(project: Project, elsewhere: Run) -> None:
    write_state(elsewhere, RunState("finished"))
    assert answer(project).status == "ok"


def test_a_run_on_another_machine_shares_nothing(project: Project) -> None:
    active(project, host="elsewhere")
    assert answer(project).status == "ok"


def test_a_cluster_has_other_machines(project: Project) -> None:
    active(project)
    assert answer(project, RAY_ADDRESS="http://10.0.0.1:8265").status == "ok"
