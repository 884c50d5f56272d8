"""Archiving and deleting runs: only what is over goes, and only what is its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.run.identity import Identity
from engine.run.processes import identify
from engine.run.registry import list_runs
from engine.run.run import Run, archive_root
from engine.run.state import RunState, write_state
from engine.run.trust import vouch
from engine.supervise.finalize import hold_run
from engine.supervise.housekeeping import (
    archive,
    delete,
    exact_run,
    finish_deletions,
    plan_deletion,
    unarchive,
)
from engine.supervise.ray_jobs import RayJob
from tests.engine.supervise.kept_runs import CONSOLE, make_run


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def listed(root: Path) -> list[str]:
    return [info.id for info in list_runs(root)]


@pytest.fixture
def straggler(root: Path) -> Iterator[Run]:
    """A lost run of which a process is left."""
    gone = Identity(2**22 + 1, 1, "another boot")
    run = make_run(root, "lost", RunState("running", supervisor=gone))
    marks = {"GRUBRICS_RUN_ID": run.id, "GRUBRICS_ATTEMPT_DIR": str(run.attempt(1).path)}
    process = subprocess.Popen(
        [sys.executable, "-c", "print('up', flush=True); import time; time.sleep(60)"],
        env={**os.environ, **marks},
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield run
    process.kill()
    process.wait()


# Archiving


def test_an_archived_run_leaves_the_list_and_keeps_its_files(root: Path) -> None:
    kept = archive(make_run(root))
    assert listed(root) == []
    assert listed(archive_root(root)) == ["old"]
    assert kept.attempt(1).console.read_bytes() == CONSOLE


def test_an_archived_run_comes_back(root: Path) -> None:
    assert unarchive(archive(make_run(root))).path == root / "old"
    assert listed(root) == ["old"]


def test_a_run_comes_back_into_a_runs_folder_with_a_relative_path(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root.parent)
    make_run(root)
    here = Path(root.name)
    assert unarchive(archive(Run(here / "old"))).path == here / "old"


def test_a_run_is_never_archived_over_another_of_its_name(root: Path) -> None:
    archive(make_run(root))
    with pytest.raises(UsageError, match="already exists; nothing was moved"):
        archive(make_run(root))
    assert listed(root) == ["old"]


# What must not be touched


def test_an_active_run_is_refused(root: Path) -> None:
    run = make_run(root, state=RunState("running", supervisor=identify(os.getpid())))
    with pytest.raises(UsageError, match=r"has not ended .*; stop it first"):
        plan_deletion(run, root)


def test_a_queued_run_is_refused(root: Path) -> None:
    run = make_run(root, state=RunState("queued", supervisor=identify(os.getpid())))
    with pytest.raises(UsageError, match="has not ended"):
        archive(run)


def test_a_lost_run_with_processes_left_is_refused(straggler: Run, root: Path) -> None:
    for deed in (archive, lambda run: plan_deletion(run, root)):
        with pytest.raises(UsageError, match=r"still has processes .* reap"):
            deed(straggler)


def test_a_lost_run_whose_machine_was_heard_of_is_refused(root: Path) -> None:
    elsewhere = Identity(1, 1, "another boot")
    lately = time.time() - 100
    state = RunState("running", supervisor=elsewhere, host="another-host", heartbeat=lately)
    with pytest.raises(UsageError, match="active on another machine"):
        archive(make_run(root, state=state))


def test_a_run_whose_job_may_be_on_a_cluster_is_refused(root: Path) -> None:
    nobody_listens = "http://127.0.0.1:9"
    run = make_run(root, ray=nobody_listens)
    vouch(run)
    RayJob(nobody_listens, "job-1", "/", ("python",), {}).write(run.attempt(1).path)
    with pytest.raises(UsageError, match=r"job-1 .* may still run.*; stop it first"):
        archive(run)


def test_a_run_that_somebody_is_resuming_is_refused(root: Path) -> None:
    run = make_run(root)
    with hold_run(run), pytest.raises(UsageError, match="by another process"):
        delete(plan_deletion(run, root))
    assert run.manifest_file.exists()


def test_a_symbolic_link_is_refused_and_its_target_stays(root: Path, tmp_path: Path) -> None:
    target = make_run(tmp_path / "elsewhere", "real")
    root.mkdir()
    (root / "link").symlink_to(target.path)
    with pytest.raises(UsageError, match="is a symbolic link"):
        plan_deletion(exact_run(root, "link"), root)
    assert target.manifest_file.exists()


@pytest.mark.parametrize("name", ["../x", "", ".", ".archive", "a/b", "a\x1b[2J", "-rf"])
def test_a_name_of_no_run_is_refused(root: Path, name: str) -> None:
    make_run(root)
    with pytest.raises(UsageError):
        exact_run(root, name)


def test_deleting_takes_no_abbreviation(root: Path) -> None:
    make_run(root, "grpo-night")
    with pytest.raises(UsageError, match="did you mean 'grpo-night'"):
        exact_run(root, "grpo-nigh")


# Deleting


def test_the_bytes_that_a_deletion_frees_are_known_before_it(root: Path) -> None:
    run = make_run(root)
    files = [path for path in run.path.rglob("*") if path.is_file()]
    assert plan_deletion(run, root).files_bytes == sum(path.stat().st_size for path in files)


def test_a_deletion_removes_only_that_run(root: Path) -> None:
    run = make_run(root)
    make_run(root, "other")
    plan = plan_deletion(run, root)
    assert delete(plan) == plan.files_bytes
    assert [path.name for path in root.iterdir()] == ["other"]


def test_links_in_a_run_are_deleted_and_their_targets_stay(root: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "model.pt").write_bytes(b"x" * 10_000)
    run = make_run(root)
    (run.path / "link").symlink_to(precious)
    plan = plan_deletion(run, root)
    assert plan.files_bytes < 10_000
    delete(plan)
    assert (precious / "model.pt").exists()


def test_an_interrupted_deletion_is_not_listed_and_is_finished_later(root: Path) -> None:
    run = make_run(root)
    run.path.rename(root / ".trash-old-1")
    assert listed(root) == []
    finish_deletions(root)
    assert list(root.iterdir()) == []


def test_remains_of_a_killed_launch_are_removed_when_they_are_old(root: Path) -> None:
    names = {"abc": ".launch-abc", "dead": f".launch-{2**22 + 1}-abc"}
    kept = {"young": ".launch-young", "alive": f".launch-{os.getpid()}-abc", "other": ".launch.d"}
    for key, name in (names | kept).items():
        (root / name).mkdir(parents=True)
        if key != "young":
            os.utime(root / name, (1e9, 1e9))
    finish_deletions(root)
    assert {path.name for path in root.iterdir()} == set(kept.values())


def test_finishing_deletions_follows_no_link(root: Path, tmp_path: Path) -> None:
    target = make_run(tmp_path / "elsewhere", "real")
    root.mkdir()
    (root / ".trash-x").symlink_to(target.path)
    finish_deletions(root)
    assert target.manifest_file.exists()


def test_an_archived_run_can_be_deleted(root: Path) -> None:
    kept = archive(make_run(root))
    delete(plan_deletion(kept, root))
    assert listed(archive_root(root)) == []


def test_a_run_that_started_again_since_it_was_shown_stays(root: Path) -> None:
    run = make_run(root)
    plan = plan_deletion(run, root)
    write_state(run, RunState("running", supervisor=identify(os.getpid())))
    with pytest.raises(UsageError, match="has not ended"):
        delete(plan)
    assert run.manifest_file.exists()


def test_a_run_that_was_resumed_in_the_archive_is_not_moved(root: Path) -> None:
    kept = archive(make_run(root))
    write_state(kept, RunState("running", supervisor=identify(os.getpid())))
    with pytest.raises(UsageError, match="has not ended"):
        unarchive(kept)
    assert kept.manifest_file.exists()


def test_a_mistyped_run_is_answered_with_whole_sentences(tmp_path: Path) -> None:
    make_run(tmp_path, "lower-lr")
    with pytest.raises(UsageError, match=r"mean 'lower-lr'\? A full run ID is needed"):
        exact_run(tmp_path, "lower-l")
