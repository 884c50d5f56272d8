"""Who may look into the runs of a launch."""

from __future__ import annotations

import grp
import os
from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.run.staging import GROUP_VARIABLE, new_staging, remove_abandoned
from engine.supervise.housekeeping import archive
from tests.engine.supervise.kept_runs import make_run

OWN = grp.getgrgid(os.getegid()).gr_name


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_a_run_is_private_with_any_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        assert new_staging(tmp_path).stat().st_mode & 0o7777 == 0o700
    finally:
        os.umask(before)


def test_a_group_that_is_named_may_read_it_and_not_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(GROUP_VARIABLE, OWN)
    folder = new_staging(tmp_path)
    assert folder.stat().st_mode & 0o7777 == 0o2750
    assert folder.stat().st_gid == os.getegid()


def test_an_unknown_group_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(GROUP_VARIABLE, "no-such-group")
    with pytest.raises(UsageError, match="GRUBRICS_RUNS_GROUP=no-such-group"):
        new_staging(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_archive_of_a_shared_folder_is_shared(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    run = make_run(root)
    root.chmod(0o3770)
    assert archive(run).path.parent.stat().st_mode & 0o7777 == 0o3770


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_no_run_is_moved_into_an_archive_of_a_stranger(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs")
    (tmp_path / "runs" / ".archive").mkdir()
    os.chown(tmp_path / "runs" / ".archive", 54_321, -1)
    with pytest.raises(UsageError, match="belongs to another user"):
        archive(run)
    assert run.path.is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_another_users_folder_named_like_a_launch_is_not_touched(tmp_path: Path) -> None:
    planted = tmp_path / ".launch-1-planted"
    planted.mkdir()
    os.utime(planted, (0, 0))
    os.chown(planted, 54_321, -1)
    remove_abandoned(tmp_path)
    assert planted.exists()
