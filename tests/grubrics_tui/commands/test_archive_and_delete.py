"""The commands archive and delete, as typed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from engine.run.processes import identify
from tests.grubrics_tui.sample_run import SampleRun
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.waits

PROGRAM = [sys.executable, "-m", "grubrics_tui"]


@pytest.fixture
def old(runs: Path) -> SampleRun:
    sample = SampleRun.create(runs, "old-run")
    sample.say("failed", reason="exit code 1")
    return sample


def command(runs: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GRUBRICS_RUNS": str(runs)}
    return subprocess.run(
        [*PROGRAM, *words], env=environment, capture_output=True, text=True, check=False
    )


def ids(runs: Path, *options: str) -> list[str]:
    return [
        info["id"] for info in json.loads(command(runs, "runs", "--json", *options).stdout)["runs"]
    ]


def test_archive_and_undo(old: SampleRun, runs: Path) -> None:
    assert command(runs, "archive", "old").returncode == 0
    assert (ids(runs), ids(runs, "--archived")) == ([], ["old-run"])
    assert command(runs, "archive", "--undo", "old").returncode == 0
    assert (ids(runs), ids(runs, "--archived")) == (["old-run"], [])


def test_undoing_what_is_not_archived_says_where_the_run_is(old: SampleRun, runs: Path) -> None:
    refused = command(runs, "archive", "--undo", "old")
    assert refused.returncode == 2
    assert refused.stderr.strip() == "error: run 'old-run' is not archived"
    refused = command(runs, "archive", "--undo", "new")
    assert refused.stderr.strip() == "error: run 'new' is not archived: the archive is empty"


def test_without_a_terminal_and_a_yes_nothing_is_deleted(old: SampleRun, runs: Path) -> None:
    done = command(runs, "delete", "old-run")
    assert done.returncode == 1
    assert "files" in done.stdout and "nothing was deleted" in done.stdout
    assert ids(runs) == ["old-run"]


def test_yes_deletes_and_says_what_was_freed(old: SampleRun, runs: Path) -> None:
    done = command(runs, "delete", "old-run", "--yes", "--json")
    answer = json.loads(done.stdout)
    assert answer["deleted"] == ["old-run"]
    assert answer["freed_bytes"] == answer["deletions"][0]["files_bytes"] > 0
    assert ids(runs) == []


@pytest.mark.parametrize(("said", "left"), [("y", []), ("", ["old-run"])])
def test_in_a_terminal_it_asks(old: SampleRun, runs: Path, said: str, left: list[str]) -> None:
    words = [*PROGRAM[1:], "delete", "old-run", "--runs", str(runs)]
    with pexpect.spawn(PROGRAM[0], words, encoding="utf-8", timeout=PATIENCE_S) as terminal:
        terminal.expect_exact("Permanently delete this run? [y/N]")
        terminal.sendline(said)
        terminal.expect(pexpect.EOF)
    assert ids(runs) == left


@pytest.mark.thorough
def test_one_run_that_goes_on_keeps_all_of_them(old: SampleRun, runs: Path) -> None:
    SampleRun.create(runs, "busy").say("running", supervisor=identify(os.getpid()))
    done = command(runs, "delete", "old-run", "busy", "--yes")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: run 'busy' has not ended (running); stop it first\n"
    assert sorted(ids(runs)) == ["busy", "old-run"]


@pytest.mark.parametrize("verb", ["archive", "delete"])
def test_a_name_that_leads_elsewhere_is_refused_in_one_line(
    old: SampleRun, runs: Path, verb: str
) -> None:
    done = command(runs, verb, "../runs/old-run")
    assert done.returncode == 2
    assert done.stderr.startswith("error: run ") and done.stderr.count("\n") == 1
