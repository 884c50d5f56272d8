"""Do the quick tests pass? Only asked for, never part of a launch."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from engine.preflight.check import Check, Subject, fail, ok, skip

ID = "tests"
ARGUMENTS = ("-q", "-x", "tests", "-m", "not slow")
_PATIENCE_S = 900
_NO_TESTS = 5  # pytest's exit code when it collected none
_COUNT = re.compile(r"\b(\d+) (passed|failed|errors?|skipped)\b")


def not_asked(_: Subject) -> Check:
    return skip(ID, "not asked for; grubrics-tui check CONFIG --tests runs the quick ones")


def check(subject: Subject) -> Check:
    """Run pytest in the project's root and report its counts."""
    if not Path("tests").is_dir():
        return skip(ID, "there is no tests/ here")
    command = [sys.executable, "-m", "pytest", *ARGUMENTS]
    try:
        done = subprocess.run(
            command,
            env=dict(subject.env),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return fail(ID, f"the tests did not end within {_PATIENCE_S} s", _shown())
    return _verdict(done.returncode, done.stdout or done.stderr)


def _verdict(code: int, output: str) -> Check:
    counts = ", ".join(f"{count} {what}" for count, what in _COUNT.findall(_last_line(output)))
    if code == 0:
        return ok(ID, counts)
    if code == _NO_TESTS:
        return skip(ID, "tests/ holds no quick tests")
    return fail(ID, f"{counts or _last_line(output)}{_first_failure(output)}", _shown())


def _first_failure(output: str) -> str:
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    return f"; first: {failed.group(1)}" if failed else ""


def _last_line(output: str) -> str:
    lines = output.strip().splitlines()
    return lines[-1] if lines else "pytest said nothing"


def _shown() -> str:
    return " ".join(["python -m pytest", *ARGUMENTS[:4], '"not slow"'])
