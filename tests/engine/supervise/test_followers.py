"""Runs elsewhere: what their local process writes, and to whom a job belongs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from engine.base import jsonl
from engine.base.typed import to_json
from engine.run.marks import place_of
from engine.run.processes import identify
from engine.run.run import Run
from engine.supervise.follower import Follower, Report, read_report
from engine.supervise.hosts import find_host
from engine.supervise.slurm_jobs import SlurmJob


def test_what_cannot_be_written_now_is_written_later(tmp_path: Path) -> None:
    attempt = tmp_path / "away"
    follower = Follower(attempt, Report("Slurm job 17"))
    follower.tell(waiting_for="Slurm")
    assert not follower.flush() and not follower.flush_until(lambda: True)
    attempt.mkdir()
    assert follower.flush() and read_report(attempt) == Report("Slurm job 17", "Slurm")
    attempt.rename(tmp_path / "gone")
    follower.tell(where="Slurm job 18")
    (tmp_path / "gone").rename(attempt)
    assert follower.end(3, "exited") == 3
    assert read_report(attempt) == Report("Slurm job 18", outcome="exited")


def test_a_copy_acts_on_no_job_and_no_program_of_the_original(tmp_path: Path) -> None:
    program = identify(os.getpid())
    assert program is not None
    hosts: list[dict[str, object]] = [{"adopted": {"process": to_json(program)}}, {"slurm": ["x"]}]
    for index, host in enumerate(hosts):
        run = Run(tmp_path / f"run-{index}")
        run.attempt(1).path.mkdir(parents=True)
        place = to_json(place_of(run, run.path))
        jsonl.write_json(run.manifest_file, {"v": 1, "mark": "m", "folder": place, **host})
        SlurmJob("x", ()).write(run.attempt(1).path)
        copy = Run(shutil.copytree(run.path, tmp_path / "copy"))
        assert find_host(run).may_have_left() and not find_host(copy).may_have_left()
        assert find_host(copy).left() is None
        moved = Run(run.path.rename(tmp_path / "moved"))
        shutil.copytree(moved.path, run.path)
        assert find_host(moved).may_have_left() and not find_host(run).may_have_left()
        shutil.rmtree(moved.path)
        shutil.rmtree(copy.path)
