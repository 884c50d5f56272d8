"""A fix launches a changed run beside the unhealthy one, whole and under its own name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from engine.base import files
from engine.base.errors import UsageError
from engine.config.frozen import pinned_config
from engine.launch import rerun as fixes
from engine.launch.launcher import LaunchPlan, launch, manifest, plan, start_supervisor
from engine.launch.rerun import check_rerun, launch_rerun, plan_rerun
from engine.launch.resume import resume
from engine.run.finding import Change
from engine.run.manifest import AttemptRecord, Parent
from engine.run.run import Run
from engine.run.state import RunState, observed_state, write_state
from engine.run.trust import vouch
from tests.engine.checks.project import Project, make_project
from tests.engine.supervise.faults.stage import Stage
from tests.paths import ROOT
from tests.waiting import ended, wait_for

pytestmark = pytest.mark.long

BATCH = Change("config", "data.train_batch_size", 2, 4)
BLOCKING = Change("environment", "CUDA_LAUNCH_BLOCKING", "1")
KEEP = """
import os, pathlib
kept = pathlib.Path(os.environ["GRUBRICS_ATTEMPT_DIR"], "kept")
kept.write_text(os.environ["CUDA_LAUNCH_BLOCKING"])
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return make_project(tmp_path)


def launched(project: Project, name: str = "unhealthy", **more: Any) -> Run:
    """A run as a launch leaves it, that has failed."""
    run = Run(project.root / "runs" / name)
    contents = manifest(plan(project.config(), name, project.root / "runs"))
    contents = structs.replace(contents, **more)
    run.attempt(1).path.mkdir(parents=True)
    run.write_manifest(contents)
    files.write_atomic(run.config_file, pinned_config(contents.config))
    vouch(run)
    write_state(run, RunState("failed", ended=2e9))
    return run


def values(planned: LaunchPlan, *keys: str) -> list[Any]:
    return [planned.config.get(key) for key in keys]


def test_values_that_depend_on_a_change_change_too(project: Project) -> None:
    whole = plan_rerun(launched(project), [BATCH]).changes
    assert [(one.key, one.after) for one in whole][:2] == [
        ("data.train_batch_size", 2),
        ("actor_rollout_ref.actor.ppo_mini_batch_size", 2),
    ]
    assert all(one.why for one in whole[1:])


def test_the_child_has_the_changes_its_own_name_folder_and_parent(project: Project) -> None:
    run = launched(project)
    planned = plan_rerun(run, [BATCH]).plan
    assert values(
        planned, "data.train_batch_size", "actor_rollout_ref.actor.ppo_mini_batch_size"
    ) == [2, 2]
    written = manifest(planned)
    assert written.parent == Parent("unhealthy", "fix")
    assert (written.id, written.checkpoint_dir) == (
        "unhealthy-fix",
        "checkpoints/unhealthy-fix",
    )
    assert written.config_name == run.read_manifest().config_name
    (project.root / "runs/unhealthy-fix").mkdir()
    assert plan_rerun(run, [BATCH]).plan.run_id == "unhealthy-fix-2"


def test_planning_a_child_writes_nothing(project: Project) -> None:
    run = launched(project)
    before = sorted(project.root.rglob("*"))
    plan_rerun(run, [BATCH])
    assert sorted(project.root.rglob("*")) == before


def test_the_question_before_a_child_names_the_files_edited_since_the_run(
    project: Project,
) -> None:
    run = launched(project)
    (project.root / "models/base/config.json").open("a").write(" ")
    messages = [
        warning.message for warning in check_rerun(run, [BATCH]).warnings if warning.id == "edited"
    ]
    assert len(messages) == 1
    assert messages[0].startswith(
        "models/base/config.json: changed since run 'unhealthy' was launched"
    )


def test_a_variable_of_the_environment_is_kept_and_added_to_those_of_the_parent(
    project: Project,
) -> None:
    run = launched(project, variables={"NCCL_DEBUG": "INFO"})
    planned = plan_rerun(run, [BLOCKING]).plan
    assert planned.variables == {"NCCL_DEBUG": "INFO", "CUDA_LAUNCH_BLOCKING": "1"}
    assert manifest(planned).variables == planned.variables


def test_a_variable_that_a_config_key_stands_for_is_a_change_of_the_config(
    project: Project,
) -> None:
    change = Change("environment", "JUDGE_MAX_CONCURRENT", 3, 10)
    planned = plan_rerun(launched(project), [change]).plan
    assert values(planned, "judge.max_concurrent") == [3]
    assert planned.variables == {}


def test_a_change_without_a_valid_whole_is_refused(project: Project) -> None:
    change = Change("config", "data.train_bach_size", 2)
    with pytest.raises(UsageError, match="train_batch_size"):
        plan_rerun(launched(project), [change])


def test_a_change_that_changes_nothing_is_refused(project: Project) -> None:
    with pytest.raises(UsageError, match="already has these values"):
        plan_rerun(launched(project), [Change("config", "data.train_batch_size", 4)])


def test_a_run_without_its_config_has_no_child(project: Project) -> None:
    run = launched(project)
    run.config_file.unlink()
    with pytest.raises(UsageError, match="the run's config is missing"):
        plan_rerun(run, [BATCH])


def test_a_run_of_another_folder_is_changed_there(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = launched(project)
    (project.root / "elsewhere").mkdir()
    monkeypatch.chdir(project.root / "elsewhere")
    with pytest.raises(UsageError, match="another working directory"):
        plan_rerun(run, [BATCH])


def made(run: Run, *changes: Change) -> Run:
    """A derived run as a launch leaves it."""
    planned = plan_rerun(run, changes).plan
    planned.directory.mkdir()
    Run(planned.directory).write_manifest(manifest(planned))
    return Run(planned.directory)


@pytest.mark.long
def test_a_fix_that_was_applied_before_names_the_runs_that_have_it(project: Project) -> None:
    run = launched(project)
    assert check_rerun(run, [BATCH]).before == ()
    first, second = made(run, BATCH), made(run, BATCH)
    assert check_rerun(run, [BATCH]).before == (first, second)
    assert check_rerun(run, [BATCH]).plan.run_id == "unhealthy-fix-3"


@pytest.mark.long
def test_another_fix_or_the_same_one_of_another_run_was_not_applied_before(
    project: Project,
) -> None:
    run, other = launched(project), launched(project, "worse")
    made(run, Change("config", "data.train_batch_size", 1, 4))
    made(run, BATCH, BLOCKING)
    made(other, BATCH)
    assert check_rerun(run, [BATCH]).before == ()


def test_a_launch_with_failed_preflight_checks_is_refused(project: Project) -> None:
    run = launched(project)
    (project.root / "data/train.parquet").unlink()
    with pytest.raises(UsageError, match="parquet"):
        launch_rerun(check_rerun(run, [BATCH]))
    assert [path.name for path in (project.root / "runs").iterdir()] == ["unhealthy"]


def test_a_rerun_completes_its_changes_once(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    complete: Any = vars(fixes)["complete"]
    monkeypatch.setattr(
        fixes, "complete", lambda *given: (asked.append(given), complete(*given))[1]
    )
    check_rerun(launched(project), [BATCH])
    assert len(asked) == 1


def test_a_run_that_was_resumed_after_the_question_is_not_doubled(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = check_rerun(launched(project), [BATCH])
    monkeypatch.setattr(fixes, "observed_state", lambda run: RunState("running"))
    with pytest.raises(UsageError, match="resumed meanwhile"):
        launch_rerun(planned)
    assert not planned.plan.directory.exists()


def going_on(project: Project) -> tuple[Stage, Run]:
    """A run that goes on for minutes, with a config whose batch can be changed."""
    stage = Stage(project.root / "runs")
    run = stage.prepare("--sleep", "0.1", steps=1000, name="unhealthy")
    contents = structs.replace(
        manifest(plan(project.config(), "other", stage.root)),
        id=run.id,
        attempts=run.read_manifest().attempts,
        total_steps=1000,
    )
    run.write_manifest(contents)
    files.write_atomic(run.config_file, pinned_config(contents.config))
    vouch(run)
    return stage, run


@pytest.mark.waits
def test_an_active_run_is_stopped_and_its_derived_run_is_queued(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, run = going_on(project)
    seen: list[tuple[str, bool]] = []

    def watched_launch(planned: LaunchPlan) -> Run:
        made = launch(planned)
        seen.append((observed_state(made).state, observed_state(run).has_ended))
        return made

    monkeypatch.setattr(fixes, "launch", watched_launch)
    try:
        start_supervisor(run)
        wait_for(lambda: observed_state(run).step)
        made = launch_rerun(check_rerun(run, [BATCH]))
        assert seen == [("queued", False)]
        assert "stopped by its fix" in (ended(run).reason or "")
        wait_for(lambda: observed_state(made).state != "queued")
    finally:
        stage.clear_away()


@pytest.mark.waits
def test_the_trainer_of_every_attempt_gets_the_variables(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_LAUNCH_BLOCKING", raising=False)
    planned = plan_rerun(launched(project), [BLOCKING]).plan
    run = Run(planned.directory)
    run.attempt(1).path.mkdir(parents=True)
    keeping = AttemptRecord(number=1, argv=(sys.executable, "-c", KEEP))
    contents = structs.replace(manifest(planned), attempts=[keeping])
    run.write_manifest(contents)
    files.write_atomic(run.config_file, pinned_config(contents.config))
    vouch(run)
    write_state(run, RunState("starting", heartbeat=2e9))
    start_supervisor(run)
    ended(run)
    run.attempt(1).console.unlink()  # A run that never got to train is resumed from its beginning.
    resume(run)
    ended(run)
    assert [(attempt.path / "kept").read_text() for attempt in run.attempts()] == ["1", "1"]
