"""Run the project's quick tests. Only on request, never as part of a launch."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import engine
from engine.preflight.check import Check, Subject, fail, ok, skip

ID = "tests"
CHECKOUT = Path(engine.__file__).resolve().parents[1]
"""Where this program's tests are, unless it was installed without them."""
ARGUMENTS = ("-x", "tests", "-m", "not slow")
_PATIENCE_S = 900
_NO_TESTS = 5  # pytest's exit code when it collected none
_COUNT = re.compile(r"\b(\d+) (passed|failed|errors?|skipped)\b")
_LETTERS = re.compile(r"(?P<letters>[.sxX]+)\s*(?:\[\s*(?P<share>\d+)%\])?")
_SOURCE = ("engine", "grubrics_tui", "tests", "configs", "docs", "benchmarks")
"""What of a checkout is the program. Other folders hold runs, data, checkpoints, environments."""
_KEPT = re.compile(
    r"(?:PATH|LANG|LANGUAGE|LC_.*|TERM|COLORTERM|TZ|TMPDIR|SHELL|USER|LOGNAME|CI|VIRTUAL_ENV"
    r"|LD_.*|PYTHON.*|PYTEST_(?!ADDOPTS).*|COV.*|HYPOTHESIS_.*|UPDATE_SNAPSHOTS|SYSTEMROOT"
    r"|OMP_.*|MKL_.*|OPENBLAS_.*|CUDA_HOME|CUDA_VISIBLE_DEVICES|XDG_RUNTIME_DIR)"
)
"""Variables that say where programs are and what the machine has. Others may hold a key, a token,
the address of a service or of the user's runs."""


def skip_tests(_: Subject) -> Check:
    return skip(ID, "not run (optional): press t, or grubrics-tui check CONFIG --tests")


def check(subject: Subject, checkout: Path = CHECKOUT, patience_s: float = _PATIENCE_S) -> Check:
    """Run this program's tests on a copy of it and report their counts.

    They see neither the user's variables nor runs, data, checkpoints or home.
    """
    if not (checkout / "tests").is_dir():
        return skip(ID, f"{checkout} has no tests/: only a checkout of the source has them")
    with tempfile.TemporaryDirectory(prefix="grubrics-tests-") as folder:
        copy = _copy(checkout, Path(folder))
        environment = environment_of_tests(subject.env, Path(folder) / "home")
        command = [sys.executable, "-u", "-m", "pytest", *ARGUMENTS, f"--basetemp={folder}/tmp"]
        process = subprocess.Popen(
            command,
            cwd=copy,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=patience_s)
        except subprocess.TimeoutExpired as error:
            # With what the tests have started: the folder goes, too.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            ended = f"the tests did not end within {patience_s:g} s{_progress(error.output)}"
            return fail(ID, ended, _shown(checkout))
    return _verdict(process.returncode, output, checkout)


def environment_of_tests(env: Mapping[str, str], home: Path) -> dict[str, str]:
    """What tests get of ``env``, and a new folder ``home`` as their home."""
    home.mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in env.items() if _KEPT.fullmatch(name)}
    return {**kept, "HOME": str(home)}


def _copy(checkout: Path, folder: Path) -> Path:
    """The program without what it was used for: no test can write into the user's runs."""
    copy = folder / "checkout"
    copy.mkdir()
    for name in _SOURCE:
        if (checkout / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", ".env*")
            shutil.copytree(checkout / name, copy / name, ignore=ignored)
    for file in checkout.iterdir():
        if file.is_file() and not file.name.startswith("."):
            shutil.copy(file, copy)
    return copy


def _verdict(code: int, output: str, checkout: Path) -> Check:
    counts = _counts(output)
    if code == 0:
        return ok(ID, counts)
    if code == _NO_TESTS:
        return skip(ID, "tests/ holds no quick tests")
    return fail(ID, f"{counts or _last_line(output)}{_first_failure(output)}", _shown(checkout))


def _progress(output: bytes | None) -> str:
    """How far the tests came: pytest prints a letter for each, and the share at a line's end."""
    lines = (output or b"").decode(errors="replace").splitlines()
    rows = [row for line in lines if (row := _LETTERS.fullmatch(line))]
    if not rows:
        return ""
    shares = [row["share"] for row in rows if row["share"]]
    count = sum(len(row["letters"]) for row in rows)
    return f"; {count:,} had passed or been skipped" + (f" ({shares[-1]}%)" if shares else "")


def _counts(output: str) -> str:
    """``1 failed, 40 passed, 2 skipped``; empty where pytest did not get that far."""
    lines = (_COUNT.findall(line) for line in reversed(output.splitlines()))
    return ", ".join(f"{count} {what}" for count, what in next(filter(None, lines), []))


def _first_failure(output: str) -> str:
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    return f"; stopped at the first failure, {failed.group(1)}" if failed else ""


def _last_line(output: str) -> str:
    lines = output.strip().splitlines()
    return lines[-1] if lines else "pytest printed no output"


def _shown(checkout: Path) -> str:
    return f'cd {checkout} && python -m pytest {" ".join(ARGUMENTS[:3])} "{ARGUMENTS[3]}"'
