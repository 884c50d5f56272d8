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

from engine.checks.check import Check, Subject, fail, ok, skip

ID = "tests"
CHECKOUT = Path(__file__).resolve().parents[2]
"""Where this program's tests are, unless it was installed without them."""
ARGUMENTS = ("-x", "tests", "-m", "not slow")
_PATIENCE_S = 900
_NO_TESTS = 5  # pytest's exit code when it collected none
_COUNT = re.compile(r"\b(\d+) (passed|failed|errors?|skipped)\b")
_LETTERS = re.compile(r"(?P<letters>[.sxX]+)\s*(?:\[\s*(?P<share>\d+)%\])?")
_SOURCE_FOLDERS = ("engine", "grubrics_tui", "tests", "configs", "docs", "benchmarks")
"""The folders of the program. The others hold runs, data, checkpoints and environments."""
_TEST_VARIABLES = re.compile(
    r"(?:PATH|LANG|LANGUAGE|LC_.*|TERM|COLORTERM|TZ|TMPDIR|SHELL|USER|LOGNAME|CI|VIRTUAL_ENV"
    r"|LD_.*|PYTHON.*|PYTEST_(?!ADDOPTS).*|COV.*|HYPOTHESIS_.*|UPDATE_SNAPSHOTS|SYSTEMROOT"
    r"|OMP_.*|MKL_.*|OPENBLAS_.*|CUDA_HOME|CUDA_VISIBLE_DEVICES|XDG_RUNTIME_DIR)"
)
"""Variables about programs and hardware. The others may hold a key, a token, the address of a
service or the folder of the user's runs."""


def skip_tests(_: Subject) -> Check:
    return skip(ID, "not run (optional): press t, or grubrics-tui check CONFIG --tests")


def check(subject: Subject, checkout: Path = CHECKOUT, patience_s: float = _PATIENCE_S) -> Check:
    """Run this program's tests on a copy of it and report their counts.

    They see neither the user's variables nor runs, data, checkpoints or home.
    """
    if not (checkout / "tests").is_dir():
        return skip(ID, f"{checkout} has no tests/: only a checkout of the source has them")
    quoted = f'{" ".join(ARGUMENTS[:3])} "{ARGUMENTS[3]}"'
    command_line = f"cd {checkout} && python -m pytest {quoted}"
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
            # The whole process group: the folder that the tests use is removed next.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            message = f"the tests did not end within {patience_s:g} s{_progress(error.output)}"
            return fail(ID, message, command_line)
    # ``1 failed, 40 passed, 2 skipped``; empty if pytest did not get that far.
    lines = output.strip().splitlines()
    counts = next(filter(None, (_COUNT.findall(line) for line in reversed(lines))), [])
    result = ", ".join(f"{count} {outcome}" for count, outcome in counts)
    if process.returncode == 0:
        return ok(ID, result)
    if process.returncode == _NO_TESTS:
        return skip(ID, "tests/ contains no quick tests")
    result = result or (lines[-1] if lines else "pytest printed no output")
    if failed := re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE):
        result += f"; stopped at the first failure, {failed[1]}"
    return fail(ID, result, command_line)


def environment_of_tests(env: Mapping[str, str], home: Path) -> dict[str, str]:
    """Return the variables of ``env`` that tests may see, with the new folder ``home`` as HOME."""
    home.mkdir(parents=True, exist_ok=True)
    variables = {name: value for name, value in env.items() if _TEST_VARIABLES.fullmatch(name)}
    return {**variables, "HOME": str(home)}


def _copy(checkout: Path, folder: Path) -> Path:
    """Copy the program without runs and data, so that no test can write into them."""
    copy = folder / "checkout"
    copy.mkdir()
    for name in _SOURCE_FOLDERS:
        if (checkout / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", ".env*")
            shutil.copytree(checkout / name, copy / name, ignore=ignored)
    for file in checkout.iterdir():
        if file.is_file() and not file.name.startswith("."):
            shutil.copy(file, copy)
    return copy


def _progress(output: bytes | None) -> str:
    """Describe how far the tests came: pytest prints a letter for each, and a percentage."""
    lines = (output or b"").decode(errors="replace").splitlines()
    rows = [row for line in lines if (row := _LETTERS.fullmatch(line))]
    if not rows:
        return ""
    shares = [row["share"] for row in rows if row["share"]]
    count = sum(len(row["letters"]) for row in rows)
    return f"; {count:,} had passed or been skipped" + (f" ({shares[-1]}%)" if shares else "")
