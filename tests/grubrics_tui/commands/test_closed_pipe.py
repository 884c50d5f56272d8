"""A command ends quietly if the reader of its output closes the pipe."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.base.errors import guarded

pytestmark = pytest.mark.long


def run_unread(*words: str, folder: Path) -> tuple[int, str]:
    """Run the program with a stdout that nobody reads; return its exit code and stderr."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "grubrics_tui", *words],
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            check=False,
        )
    finally:
        os.close(writer)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "words",
    [("--help",), ("--version",), ("metrics", "--help"), ("settings",), ("runs", "--json")],
    ids=" ".join,
)
def test_a_short_answer_that_nobody_reads(words: tuple[str, ...], tmp_path: Path) -> None:
    assert run_unread(*words, folder=tmp_path) == (0, "")


def test_an_answer_longer_than_the_pipe(tmp_path: Path) -> None:
    lines = (json.dumps({"step": step, "data": {"actor/loss": 0.5}}) for step in range(20_000))
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    command = f"{sys.executable} -m grubrics_tui metrics metrics.jsonl actor/loss"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} | head -n 1"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split("\t")[0] == "actor/loss"


def test_a_wrong_command_line_is_still_reported(tmp_path: Path) -> None:
    code, error = run_unread("metrics", "absent", folder=tmp_path)
    assert code == 2
    assert error.startswith("error: run 'absent' does not exist")


def test_a_broken_pipe_that_is_not_the_output_is_an_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def main() -> int:
        raise BrokenPipeError(32, "Broken pipe")

    assert guarded(main) == 2
    assert capsys.readouterr().err == "error: Broken pipe\n"
