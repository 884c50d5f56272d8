"""Run a program against tests, shut in as far as the machine allows: ``python -I guard.py``.

Reads a job as JSON from standard input and writes the outcomes as JSON to standard output. Every
test runs in a forked process of its own, which is ended with all of its descendants. Only the
standard library is imported: what is imported here is in the memory of every program.
"""

import ctypes
import json
import os
import resource
import secrets
import select
import signal
import sys
import tempfile
import time
import types
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

_NEW_USER, _NEW_PID, _NEW_NET, _NEW_IPC = 0x10000000, 0x20000000, 0x40000000, 0x08000000
_DIE_WITH_PARENT, _BE_SUBREAPER, _NO_NEW_PRIVILEGES = 1, 36, 38
_MOST_PROCESSES = 32
_MOST_FILES = 64
_LARGEST_FILE = 4 << 20
_READABLE = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/localtime")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")

# landlock(7): system calls and access rights.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_EXECUTE, _WRITE, _READ_FILE, _READ_FOLDER = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_OF_FIRST_ABI, _REFER, _TRUNCATE = (1 << 13) - 1, 1 << 13, 1 << 14
_TCP, _SOCKETS_AND_SIGNALS = 0b11, 0b11

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def main() -> None:
    job = json.loads(sys.stdin.buffer.read())
    isolated = _libc.unshare(_NEW_USER | _NEW_PID | _NEW_NET | _NEW_IPC) == 0
    _libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    keeper = os.fork()  # The first process of the namespace: all others end with it.
    if keeper == 0:
        _libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        _libc.prctl(_BE_SUBREAPER, 1)
        outcomes = _run_tests(job, isolated)
        reply = {"outcomes": outcomes, "isolated": isolated, "shut_in": _landlock_version() > 0}
        os.write(1, json.dumps(reply).encode())
        os._exit(0)
    _, status = os.waitpid(keeper, 0)
    os._exit(os.waitstatus_to_exitcode(status) != 0)


def _run_tests(job: Mapping[str, Any], isolated: bool) -> list[str]:
    """An outcome for each test. After ``total_s``, the others are ``not run``."""
    end = time.monotonic() + job["total_s"]
    outcomes = []
    for test in job["tests"]:
        left = end - time.monotonic()
        if left <= 0:
            outcomes.append("not run")
            continue
        folder = Path(tempfile.mkdtemp(dir=job["folder"]))
        outcomes.append(_run_test(job, test, folder, min(left, job["test_s"]), isolated))
    return outcomes


def _run_test(
    job: Mapping[str, Any], test: Mapping[str, str], folder: Path, limit_s: float, isolated: bool
) -> str:
    """``passed``, ``failed``, ``error``, ``syntax error`` or ``timeout``."""
    token = secrets.token_hex(16)
    for name, text in (("in", test.get("input", "")), ("out", "")):
        (folder / name).write_text(text, encoding="utf-8", errors="replace")
    results, report = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(results)
            _enter(folder, job["memory_bytes"], limit_s, isolated)
            os.write(report, token.encode())
            code = _execute(job["program"], test, report, token)
        finally:
            os._exit(code)
    os.close(report)
    status = _wait(child, limit_s)
    _end_all(isolated)
    said = os.read(results, 200).decode(errors="replace")
    os.close(results)
    if not said.startswith(token):
        raise RuntimeError(f"the test's process did not come to its program: status {status}")
    said = said.removeprefix(token)
    if status is None or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU):
        return "timeout"
    if said.startswith(token):
        return said.removeprefix(token)
    if "output" not in test or status != 0:
        return "error"
    return "passed" if _has_output(folder / "out", test["output"]) else "failed"


def _execute(program: str, test: Mapping[str, str], report: int, token: str) -> int:
    """Run the program, then the test's code. The outcome is written behind the token: a program
    that exits early has not passed."""

    def say(outcome: str) -> None:
        os.write(report, f"{token}{outcome}".encode())

    name = "program" if "code" in test else "__main__"
    module = types.ModuleType(name)
    sys.modules[name] = module
    try:
        code = compile(program, "<program>", "exec")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        say("syntax error")
        return 1
    try:
        exec(code, module.__dict__)
        if "code" in test:
            exec(compile(test["code"], "<test>", "exec"), module.__dict__)
            say("passed")
        sys.stdout.flush()
    except AssertionError:
        say("failed")
        return 1
    except SystemExit as error:
        sys.stdout.flush()
        return 0 if error.code in (None, 0) else 1
    except BaseException:
        say("error")
        return 1
    return 0


def _enter(folder: Path, memory_bytes: int, limit_s: float, isolated: bool) -> None:
    """Leave everything behind but the folder, before the program runs."""
    os.setsid()
    for file, flags, number in (("in", os.O_RDONLY, 0), ("out", os.O_WRONLY, 1)):
        os.dup2(os.open(folder / file, flags), number)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        stream = os.fdopen(number, mode, encoding="utf-8", errors="replace", closefd=False)
        setattr(sys, name, stream)
    (folder / "work").mkdir()
    os.chdir(folder / "work")
    cpu = int(limit_s) + 1
    limits = {
        resource.RLIMIT_AS: memory_bytes,
        resource.RLIMIT_CPU: cpu,
        resource.RLIMIT_FSIZE: _LARGEST_FILE,
        resource.RLIMIT_NOFILE: _MOST_FILES,
        resource.RLIMIT_CORE: 0,
    }
    if isolated:
        # Elsewhere this would count the other processes of the user, too.
        limits[resource.RLIMIT_NPROC] = _MOST_PROCESSES
    for kind, most in limits.items():
        resource.setrlimit(kind, (most, most))
    _shut_in(folder / "work")


def _shut_in(folder: Path) -> None:
    """Only Python's own files can be read, and only the folder can be written."""
    version = _landlock_version()
    if version < 1:
        return
    access = _OF_FIRST_ABI | (_REFER if version > 1 else 0) | (_TRUNCATE if version > 2 else 0)
    handled = (ctypes.c_uint64 * 3)(access, _TCP, _SOCKETS_AND_SIGNALS)
    size = 8 * (1 + (version > 3) + (version > 5))
    ruleset = _libc.syscall(_CREATE_RULESET, ctypes.byref(handled), size, 0)
    read = _EXECUTE | _READ_FILE | _READ_FOLDER
    for path in {*_READABLE, sys.prefix, sys.base_prefix, sys.exec_prefix}:
        _allow(ruleset, path, read)
    for path in _DEVICES:
        _allow(ruleset, path, _WRITE | _READ_FILE)
    _allow(ruleset, str(folder), access)
    _libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if _libc.syscall(_RESTRICT_SELF, ruleset, 0) != 0:
        raise OSError(ctypes.get_errno(), "landlock_restrict_self")
    os.close(ruleset)


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not Path(path).is_dir():
        access &= _EXECUTE | _WRITE | _READ_FILE | _TRUNCATE
    rule = (ctypes.c_uint32 * 3)(access & 0xFFFFFFFF, access >> 32, opened)
    _libc.syscall(_ADD_RULE, ruleset, 1, ctypes.byref(rule), 0)
    os.close(opened)


def _landlock_version() -> int:
    return int(_libc.syscall(_CREATE_RULESET, None, 0, 1))


def _wait(child: int, limit_s: float) -> int | None:
    """The status of a child that ended within the limit; None for one that did not."""
    handle = os.pidfd_open(child)
    ended, _, _ = select.select([handle], [], [], limit_s)
    os.close(handle)
    return os.waitpid(child, 0)[1] if ended else None


def _end_all(isolated: bool) -> None:
    """End every descendant, also those that left the session.

    The first process of a namespace may signal all others of it. Elsewhere this one adopts every
    orphan, and ends its children until there are none.
    """
    while True:
        for process in (-1,) if isolated else _children():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.001)


def _children() -> list[int]:
    return [
        int(text) for text in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    ]


def _has_output(path: Path, expected: str) -> bool:
    """Trailing white space of lines, and empty lines at the end, make no difference."""
    printed = path.read_text(encoding="utf-8", errors="replace")
    return _lines(printed) == _lines(expected)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().splitlines()]


if __name__ == "__main__":
    main()
