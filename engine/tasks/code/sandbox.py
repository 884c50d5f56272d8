"""Run programs of models: limited in time, memory, files and, where the machine can, network."""

from __future__ import annotations

import ast
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, Literal

Outcome = Literal["passed", "failed", "error", "syntax error", "timeout", "not run"]
Test = Mapping[str, str]
"""``code`` that runs after the program, in its module; or the ``input`` and the ``output``."""

_GUARD = Path(__file__).with_name("guard.py")
_GRACE_S = 10.0
_MOST_PROCESSES = 40  # Those of a program, 32, and the sandbox's own.
_SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime")


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
    """``walls``: what shut the programs in: ``bubblewrap``, ``namespaces``, ``Landlock``,
    ``seccomp``, and ``cgroup`` if it counts the processes."""

    tests: tuple[Outcome, ...]
    walls: frozenset[str]


def run_tests(program: str, tests: Sequence[Test], limits: Limits) -> Outcomes:
    """The outcome of each test, which runs in processes of its own. No process outlives the call.

    SandboxError if the sandbox fails.
    """
    return _run_tests(program, tests, limits, in_bubblewrap=_has_bubblewrap())


def _run_tests(
    program: str, tests: Sequence[Test], limits: Limits, *, in_bubblewrap: bool
) -> Outcomes:
    with ExitStack() as stack:
        folder = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="grubrics-code-", ignore_cleanup_errors=True)
        )
        opened = [stack.enter_context(tempfile.TemporaryFile()) for _ in tests]
        job = {
            "program": program,
            "tests": list(map(_without_truth, tests, opened)),
            "folder": folder,
            "is_walled": in_bubblewrap,
            "test_s": limits.test_s,
            "total_s": limits.total_s,
            "memory_bytes": limits.memory_bytes,
        }
        kept = [file.fileno() for file in opened]
        reply = _run_guard(job, kept, in_bubblewrap=in_bubblewrap)
        outcomes = map(_outcome, reply["ended"], tests, opened)
        return Outcomes(tuple(outcomes), frozenset(reply["walls"]))


def _without_truth(test: Test, file: IO[bytes]) -> dict[str, Any]:
    """What the guard knows of a test: never what a program is compared with. The code of a test is
    in a file that only the test's process reads; what a program prints goes into one."""
    if "code" not in test:
        return {"input": test.get("input", ""), "output": file.fileno()}
    given, code = _split(test["code"])
    file.write(code.encode(errors="replace"))
    file.seek(0)
    return {"given": given, "code": file.fileno()}


def _split(code: str) -> tuple[str, str]:
    """What a program may use of the code of a test (imports, and classes without an assertion), and
    what is left without these classes."""
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "", code
    given = [
        node for node in body if isinstance(node, ast.Import | ast.ImportFrom) or _is_type(node)
    ]
    left = [node for node in body if not _is_type(node)]
    return "\n".join(map(ast.unparse, given)), "\n".join(map(ast.unparse, left))


def _is_type(node: ast.stmt) -> bool:
    inside = ast.walk(node)
    return isinstance(node, ast.ClassDef) and not any(isinstance(n, ast.Assert) for n in inside)


def _outcome(ended: Outcome, test: Test, file: IO[bytes]) -> Outcome:
    """The outcome of a test; a program that ended well has passed if it printed the output."""
    if ended != "passed" or "code" in test:
        return ended
    file.seek(0)
    printed = file.read().decode(errors="replace")
    return "passed" if _lines(printed) == _lines(test["output"]) else "failed"


def _lines(text: str) -> list[str]:
    """Trailing white space of lines, and empty lines at the end, make no difference."""
    return [line.rstrip() for line in text.rstrip().splitlines()]


def format_walls() -> str:
    """What shuts programs in on this machine. SandboxError if they cannot be run."""
    holding = ", ".join(sorted(_find_walls()))
    missing = "" if _has_bubblewrap() else ", without bubblewrap, which would hide all files"
    return f"programs are shut in by {holding or 'limits of resources only'}{missing}"


@cache
def find_gaps() -> tuple[str, ...]:
    """What programs can do on this machine although they should not, in a few words each."""
    try:
        walls = _find_walls()
    except SandboxError as error:
        return (f"programs cannot be run: {error}",)
    is_root = os.geteuid() == 0
    gaps = {
        "may have network access (the system allows no user namespaces)": {"namespaces", "seccomp"},
        "can read and write files (the kernel has no Landlock)": {"bubblewrap", "Landlock"},
        "can change modes and reach sockets (no bubblewrap, no seccomp)": {"bubblewrap", "seccomp"},
        "may start any number of processes": {"cgroup"} if is_root else {"cgroup", "namespaces"},
    }
    return tuple(f"programs {gap}" for gap, closed_by in gaps.items() if not walls & closed_by)


@cache
def _find_walls() -> frozenset[str]:
    return run_tests("", [], Limits()).walls


@cache
def _has_bubblewrap() -> bool:
    """Whether it is there and works: it needs user namespaces, or to be setuid."""
    try:
        _run_tests("", [], Limits(), in_bubblewrap=True)
    except SandboxError:
        return False
    return True


def _bubblewrap(folder: str) -> list[str]:
    """The command before the guard's: nothing of the host is there but Python's own files, to be
    read, and the folder. No other process, no network, no socket."""
    home = Path(sys.executable).resolve().parent.parent
    pythons = {sys.prefix, sys.base_prefix, sys.exec_prefix, str(home), str(_GUARD.parent)}
    paths = [*_SYSTEM, *sorted(pythons)]
    return [
        *("bwrap", "--unshare-all", "--as-pid-1", "--die-with-parent", "--new-session"),
        *(word for path in paths for word in ("--ro-bind-try", path, path)),
        *("--dev", "/dev", "--proc", "/proc", "--bind", folder, folder, "--chdir", folder),
    ]


@contextmanager
def _bounded() -> Iterator[list[str]]:
    """The command before all others that bounds the number of processes by a cgroup; empty where
    there can be none. The limit of resources that does so otherwise does not hold for root."""
    group = _make_group()
    if group is None:
        yield []
        return
    try:
        yield ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs")]
    finally:
        with suppress(OSError):
            group.rmdir()


def _make_group() -> Path | None:
    with suppress(OSError, ValueError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            number, names, path = line.split(":", 2)
            if number != "0" and names != "pids":
                continue
            group = Path(f"/sys/fs/cgroup/{names}{path}/grubrics-{secrets.token_hex(8)}")
            group.mkdir()
            if (group / "pids.max").exists():
                (group / "pids.max").write_text(str(_MOST_PROCESSES))
                return group
            group.rmdir()
    return None


def _run_guard(job: dict[str, Any], files: Sequence[int], *, in_bubblewrap: bool) -> dict[str, Any]:
    folder, limit_s = job["folder"], job["total_s"] + _GRACE_S
    # Variables may hold secrets; a thread of BLAS per core would exceed the memory.
    env = {"PATH": os.defpath, "HOME": folder, "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1"}
    with _bounded() as bound:
        wall = _bubblewrap(folder) if in_bubblewrap else []
        try:
            guard = subprocess.Popen(
                [*bound, *wall, sys.executable, "-I", "-B", str(_GUARD)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=folder,
                env={**env, "OPENBLAS_NUM_THREADS": "1"},
                pass_fds=files,
                start_new_session=True,
            )
        except OSError as error:
            raise SandboxError(f"it does not start: {error}") from error
        try:
            output, errors = guard.communicate(json.dumps(job).encode(), timeout=limit_s)
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
    walls = {"bubblewrap": in_bubblewrap, "cgroup": bool(bound)}
    reply["walls"] += [name for name, holds in walls.items() if holds]
    return reply
