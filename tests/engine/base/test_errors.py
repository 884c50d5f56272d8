"""What a person caused is one line, whatever the terminal can show."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.base import files
from engine.base.errors import UsageError, guarded

PROGRAM = """
from engine.base.errors import UsageError, guarded
def main():
    print("15 \\u2013 20 \\u2026")
    raise UsageError("no \\u2013 file")
raise SystemExit(guarded(main))
"""


def test_characters_that_the_terminal_lacks_are_replaced() -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**os.environ, **ascii_only}, capture_output=True
    )
    assert done.stdout == b"15 ? 20 ?\n"
    assert done.stderr == b"error: no ? file\n"
    assert done.returncode == 2


def test_an_error_does_not_repeat_a_secret() -> None:
    assert str(UsageError("unknown sk-proj-Q7w8E9r0T1y2U3i4")) == "unknown …U3i4"


def test_a_link_that_is_not_followed_is_called_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "real.jsonl").write_text("{}\n")
    link = tmp_path / "link.jsonl"
    link.symlink_to("real.jsonl")
    assert guarded(lambda: files.open_to_append(link)) == 2
    assert "link.jsonl: is a symbolic link; name the file it leads to" in capsys.readouterr().err
