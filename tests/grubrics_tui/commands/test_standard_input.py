"""``-`` in place of a path, and several logs in one command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.logs.formats.samples import write
from tests.paths import ROOT

pytestmark = pytest.mark.long

LINES = "step=1 loss=0.5\nstep=2 loss=0.25\n"


def pipe(text: str, *argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "grubrics_tui", *argv]
    return subprocess.run(
        command, input=text, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )


def test_watch_prints_the_steps_of_standard_input_as_they_come() -> None:
    command = [sys.executable, "-m", "grubrics_tui", "watch", "-"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("loading\nstep=1 loss=0.5\n")
        assert json.loads(process.stdout.readline())["step"] == 1
        process.stdin.write("step=2 loss=0.25\n")
        assert json.loads(process.stdout.readline())["step"] == 2
        process.stdin.close()
        assert process.wait(30) == 0


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("argv", "answer"),
    [
        (["metrics", "-", "loss"], "loss\t1\t0.5\nloss\t2\t0.25\n"),
        (["diagnose", "-"], "No known problems found.\n"),
    ],
)
def test_a_command_reads_standard_input_to_its_end(argv: list[str], answer: str) -> None:
    done = pipe(LINES, *argv)
    assert (done.returncode, done.stdout[: len(answer)]) == (0, answer)


def test_standard_input_is_compared_with_a_file(tmp_path: Path) -> None:
    table = write(tmp_path / "b.csv", "step,loss", "1,0.125")
    done = pipe(LINES, "compare", "-", str(table), "--metric", "loss", "--json")
    assert json.loads(done.stdout)["series"]["loss"]["values"]["b.csv"] == [0.125]


@pytest.mark.parametrize(
    ("text", "argv", "words"),
    [
        ("hello\n", ["watch", "-"], "stdin: it has no known format"),
        ("", ["metrics", "-"], "stdin: is empty"),
        (LINES, ["metrics", "-", "-"], "'-' is given twice"),
    ],
)
def test_what_cannot_be_read_is_one_line(text: str, argv: list[str], words: str) -> None:
    done = pipe(text, *argv)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert words in done.stderr and "/tmp" not in done.stderr


@pytest.mark.thorough
def test_several_logs_are_printed_with_their_names(tmp_path: Path) -> None:
    log = write(tmp_path / "a.log", *LINES.splitlines())
    table = write(tmp_path / "b.csv", "step,loss", "1,0.125")
    printed = pipe("", "watch", str(log), str(table), "--json").stdout.splitlines()
    assert [(step["run"], step["step"]) for step in map(json.loads, printed)] == [
        ("a.log", 1),
        ("a.log", 2),
        ("b.csv", 1),
    ]
    assert [json.loads(line)["t"] for line in printed] == [None] * 3, "no log has times"
    assert pipe("", "metrics", str(log), str(table), "loss").stdout.splitlines()[-1] == (
        f"{table}\tloss\t1\t0.125"
    )
