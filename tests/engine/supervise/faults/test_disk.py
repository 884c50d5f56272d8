"""The disk is full, read-only, or the directory is gone."""

from __future__ import annotations

import signal
import subprocess
import threading
from pathlib import Path

import psutil
import pytest

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.config.load import load_config
from engine.launch import launcher
from engine.launch.launcher import start_supervisor
from engine.run.history.live import RunWatch
from engine.run.processes import alive, members, send
from engine.run.registry import list_runs
from engine.run.run import Attempt, Run
from engine.run.state import observed_state, recorded_state
from engine.supervise.stopping import Stopped, stop_run
from tests.engine.supervise.faults.stage import (
    Stage,
    deleted,
    events,
    logged,
    supervisor_of,
    trainer_of,
)
from tests.waiting import ended, wait_for

pytestmark = pytest.mark.waits

PAGE = 4096


def fill(disk: Path, leave: int = 0) -> Path:
    """Take all the room of a disk but ``leave`` bytes."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as handle:
        written = 0
        try:
            while count := handle.write(b"x" * PAGE):
                written += count
        except OSError:
            pass
        handle.truncate(max(0, written - leave))
    return ballast


def complains(run: Run) -> bool:
    return "No space left on device" in (observed_state(run).reason or "")


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_disk: Path) -> launcher.LaunchPlan:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(launcher.__file__).parents[2]))
    (tmp_path / "try.yaml").write_text(
        "grubrics: {kind: grpo, device: cpu}\n"
        "data: {train_files: train.jsonl, train_batch_size: 4}\n"
        "trainer: {default_local_dir: checkpoints, total_training_steps: 3}\n"
    )
    monkeypatch.setattr(launcher, "pinned_argv", lambda *_: ["true"])
    return launcher.plan(load_config("try.yaml", env={}), "new", small_disk / "runs")


def elsewhere(attempt: Attempt, disk: Path) -> Path:
    """Put what the trainer reads and writes on another disk; the sign that lets it go on."""
    for path in (attempt.metrics, attempt.reward, attempt.console):
        for place in (path, disk / path.name):
            place.touch()
        # A link would not be followed.
        subprocess.run(["mount", "--bind", str(disk / path.name), str(path)], check=True)
    (attempt.path / "go").symlink_to(disk / "go")
    return disk / "go"


def test_a_full_disk_is_reported_and_loses_no_step(
    small_disk: Path, on_small_disk: Stage, tmp_path: Path
) -> None:
    run = on_small_disk.prepare("--sleep", "0.05", "--hang-at", "4", steps=40)
    go = elsewhere(run.attempt(1), tmp_path)
    start_supervisor(run)
    wait_for(lambda: logged(run) == [1, 2, 3])
    ballast = fill(small_disk)
    go.touch()
    wait_for(lambda: complains(run))
    assert observed_state(run).state in ("running", "stopping")
    ballast.unlink()
    final = ended(run)
    assert (final.state, final.reason) == ("finished", None)
    assert logged(run) == list(range(1, 41))


def test_a_trainer_that_a_full_disk_killed_is_not_running_while_that_cannot_be_written(
    small_disk: Path, on_small_disk: Stage
) -> None:
    run = on_small_disk.long()
    ballast = fill(small_disk)
    wait_for(lambda: observed_state(run).state in ("stopping", "failed"))
    assert members(run) == []
    ballast.unlink()
    state = ended(run)
    assert state.state == "failed"
    assert (state.reason or "").startswith("exit code 1 at step ")
    assert logged(run) == [record["step"] for record in jsonl.read(run.attempt(1).metrics)]
    assert len(events(run, "end")) == 1


def test_a_run_takes_a_stop_on_a_full_disk(small_disk: Path, on_small_disk: Stage) -> None:
    run = on_small_disk.long("--patient")
    supervisor = supervisor_of(run)
    # Whatever it writes meanwhile could make room for the request, which has to find none.
    send(supervisor, signal.SIGSTOP)
    wait_for(lambda: psutil.Process(supervisor.pid).status() == psutil.STATUS_STOPPED)
    ballast = fill(small_disk)
    done: list[Stopped] = []
    stopping = threading.Thread(target=lambda: done.append(stop_run(run)))
    stopping.start()
    wait_for(lambda: members(run) == [])
    ballast.unlink()
    stopping.join()
    assert done[0].ended
    assert (done[0].reason or "").startswith("stopped by SIGTERM to its supervisor at step ")


@pytest.mark.parametrize("pages", range(2, 40, 9))
def test_a_launch_on_a_nearly_full_disk_is_whole_or_nothing(
    small_disk: Path, plan: launcher.LaunchPlan, pages: int
) -> None:
    fill(small_disk, leave=pages * PAGE)
    refusal = ""
    try:
        launcher.launch(plan)
    except UsageError as error:
        refusal = str(error)
    (small_disk / "ballast").unlink()
    left = [path for path in plan.directory.parent.glob("*") if path.name != ".gitignore"]
    if "nothing was launched" in refusal:
        assert left == []
    else:
        assert left == [plan.directory]
        assert Run(plan.directory).read_manifest().id == "new"
        assert ended(Run(plan.directory)).state in ("failed", "finished")


def test_a_launch_on_a_full_disk_leaves_nothing(
    small_disk: Path, plan: launcher.LaunchPlan
) -> None:
    fill(small_disk)
    with pytest.raises(UsageError, match="No space left on device; nothing was launched"):
        launcher.launch(plan)
    assert list(plan.directory.parent.glob("*")) == []


def test_a_read_only_runs_folder_can_be_read_and_refuses_launches_in_one_line(
    small_disk: Path, on_small_disk: Stage, plan: launcher.LaunchPlan
) -> None:
    run = on_small_disk.start()
    ended(run)
    wait_for(lambda: not alive(supervisor_of(run)))
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert [info.state.state for info in list_runs(on_small_disk.root)] == ["finished"]
    assert RunWatch(run).poll().batch.steps.tolist() == [1, 2, 3]
    assert stop_run(run).ended
    with pytest.raises(UsageError, match="Read-only file system; nothing was launched"):
        launcher.launch(plan)
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)


def test_a_deleted_run_directory_ends_the_run_and_its_supervisor(stage: Stage) -> None:
    run = stage.long("--patient", "--ignore-signals")
    supervisor, trainer = supervisor_of(run), trainer_of(run)
    wait_for(lambda: deleted(run.path))
    wait_for(lambda: not alive(supervisor))
    assert not alive(trainer)
    assert not run.path.exists()


def test_a_run_whose_folder_is_away_goes_on_in_it_and_says_so(stage: Stage, tmp_path: Path) -> None:
    run = stage.long("--patient")
    away = Run(tmp_path / "away")
    run.path.rename(away.path)
    wait_for(lambda: "cannot find its folder" in (observed_state(away).reason or ""))
    assert observed_state(away).state == "running"
    assert alive(trainer_of(away))
    away.path.rename(run.path)
    wait_for(lambda: observed_state(run).reason is None)
    assert stop_run(run).ended


def test_a_moved_run_is_stopped_where_it_is_and_another_of_its_name_is_not_touched(
    stage: Stage, tmp_path: Path
) -> None:
    run = stage.long("--patient", name="same")
    moved = Run(tmp_path / "moved")
    run.path.rename(moved.path)
    other = stage.prepare(name="same")
    wait_for(lambda: "is another folder" in str(events(moved, "warning")))
    assert (stop_run(moved).reason or "").startswith("stopped by user at step ")
    assert members(moved) == []
    state = recorded_state(other)
    assert state is not None
    assert (state.state, state.supervisor) == ("starting", None)
    assert logged(other) == []
