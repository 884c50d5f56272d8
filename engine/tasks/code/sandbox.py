"""Run programs of models: limited in time, memory, files and, where the machine can, network."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

Outcome = Literal["passed", "failed", "error", "syntax error", "timeout", "not run"]
Test = Mapping[str, str]
"""``code`` that runs after the program, in its module; or the ``input`` and the ``output``."""

_GUARD = Path(__file__).with_name("guard.py")
_GRACE_S = 10.0


class SandboxError(RuntimeError):
    """The sandbox itself failed: this says nothing about the program."""


@dataclass(frozen=True)
class Limits:
    """``test_s`` and ``total_s`` are seconds of the clock."""

    test_s: float = 3.0
    total_s: float = 30.0
    memory_bytes: int = 1 << 30


@dataclass(frozen=True)
class Outcomes:
    """``is_isolated``: the programs had no network and saw no other process. ``is_shut_in``: they
    could read no files but Python's, and write to no folder but their own."""

    tests: tuple[Outcome, ...]
    is_isolated: bool
    is_shut_in: bool


def run_tests(program: str, tests: Sequence[Test], limits: Limits) -> Outcomes:
    """The outcome of each test, which runs in a process of its own. No process outlives the call.

    SandboxError if the sandbox fails.
    """
    with tempfile.TemporaryDirectory(prefix="grubrics-code-", ignore_cleanup_errors=True) as folder:
        job = {
            "program": program,
            "tests": [dict(test) for test in tests],
            "folder": folder,
            "test_s": limits.test_s,
            "total_s": limits.total_s,
            "memory_bytes": limits.memory_bytes,
        }
        reply = _run_guard(json.dumps(job).encode(), folder, limits.total_s + _GRACE_S)
    return Outcomes(tuple(reply["outcomes"]), reply["isolated"], reply["shut_in"])


@cache
def find_gaps() -> tuple[str, ...]:
    """What programs can do on this machine although they should not, in a few words each."""
    try:
        outcomes = run_tests("", [], Limits())
    except SandboxError as error:
        return (f"programs cannot be run: {error}",)
    gaps = {
        "may have network access (the system allows no user namespaces)": outcomes.is_isolated,
        "can read and write files (the kernel has no Landlock)": outcomes.is_shut_in,
    }
    return tuple(f"programs {gap}" for gap, is_closed in gaps.items() if not is_closed)


def _run_guard(job: bytes, folder: str, limit_s: float) -> dict[str, Any]:
    # Variables may hold secrets; a thread of BLAS per core would exceed the memory.
    env = {"PATH": os.defpath, "HOME": folder, "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1"}
    try:
        guard = subprocess.Popen(
            [sys.executable, "-I", "-B", str(_GUARD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env={**env, "OPENBLAS_NUM_THREADS": "1"},
            start_new_session=True,
        )
    except OSError as error:
        raise SandboxError(f"it does not start: {error}") from error
    try:
        output, errors = guard.communicate(job, timeout=limit_s)
        reply: dict[str, Any] = json.loads(output)
    except subprocess.TimeoutExpired as error:
        raise SandboxError(f"no answer within {limit_s:g} s") from error
    except ValueError as error:
        last = errors.decode(errors="replace").strip().splitlines()[-1:]
        raise SandboxError(f"exit code {guard.returncode} {' '.join(last)[:200]}") from error
    finally:
        if guard.poll() is None:
            os.killpg(guard.pid, signal.SIGKILL)
        guard.wait()
    return reply
