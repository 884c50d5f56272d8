"""Run a program for its tests, shut in as far as the machine allows: ``python -I guard.py``.

Reads a job as JSON from standard input and writes how the tests ended as JSON to standard output.
The job holds the program, but nothing that it is compared with: what a program prints goes to a
file of the caller, and a test that is code is read by a process of its own (calls.py). For every
test, programs run in forked processes, which are ended with all of their descendants. Only the
standard library is imported: what is imported here is in the memory of every program.
"""

import ctypes
import errno
import json
import os
import platform
import resource
import select
import signal
import socket
import struct
import sys
import tempfile
import time
import types
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

if TYPE_CHECKING:
    from engine.tasks.code import calls
else:
    sys.path.insert(0, str(Path(__file__).parent))
    import calls

    del sys.path[0]

_NEW_USER, _NEW_PID, _NEW_NET, _NEW_IPC = 0x10000000, 0x20000000, 0x40000000, 0x08000000
_NEW_NAMESPACES = 0x7E020000
_DIE_WITH_PARENT, _BE_SUBREAPER, _NO_NEW_PRIVILEGES = 1, 36, 38
_DUMPABLE, _SECCOMP, _DROP_CAPABILITY, _SECURE_BITS = 4, 22, 24, 28
_NO_POWER_OF_ROOT, _THIRD_VERSION = 0b11, 0x20080522
_MOST_PROCESSES = 32
_MOST_FILES = 64
_LARGEST_FILE = 4 << 20
_READABLE = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/localtime")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
_ENDED = {
    calls.PASSED: "passed",
    calls.FAILED: "failed",
    calls.SYNTAX_ERROR: "syntax error",
}

# landlock(7): system calls and access rights.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_EXECUTE, _WRITE, _READ_FILE, _READ_FOLDER = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_OF_FIRST_ABI, _REFER, _TRUNCATE = (1 << 13) - 1, 1 << 13, 1 << 14
_TCP, _SOCKETS_AND_SIGNALS = 0b11, 0b11

# seccomp(2). Landlock does not know modes, owners, times and attributes of files, nor Unix sockets.
# A filter's instructions: load a word of the call, compare it, and return.
_LOAD, _IS, _IS_AT_LEAST, _HAS, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_EVERYWHERE = (
    *range(425, 434),  # io_uring, which makes other calls, and mounts
    *(438, 442),  # pidfd_getfd, mount_setattr
    *(452, 463, 466, 469),  # fchmodat2, setxattrat, removexattrat, file_setattr
)
_OTHER_PROCESSES = (424, 440)  # pidfd_send_signal, process_madvise
_CLONE3 = 435


class _System(NamedTuple):
    """The numbers of one architecture."""

    mark: int
    clone: int
    pair: int
    limits: int
    # chmod, chown and utime in all forms; attributes.
    files: tuple[int, ...]
    # socket, connect; ptrace, process_vm_*; unshare, setns, mounts, chroot; open_by_handle_at, bpf,
    # perf_event_open, userfaultfd; keys.
    powers: tuple[int, ...]
    # kill in all forms; priorities, CPUs and pages of a process.
    others: tuple[int, ...]


_SYSTEMS = {
    "x86_64": _System(
        *(0xC000003E, 56, 53, 302),
        (90, 91, 92, 93, 94, 132, 235, 260, 261, 268, 280, 188, 189, 190, 197, 198, 199),
        (41, 42, 101, 310, 311, 272, 308, 165, 166, 155, 161, 304, 321, 298, 323, 248, 249, 250),
        (62, 200, 234, 129, 297, 141, 203, 144, 142, 314, 251, 256, 279),
    ),
    "aarch64": _System(
        *(0xC00000B7, 220, 199, 261),
        (52, 53, 54, 55, 88, 5, 6, 7, 14, 15, 16),
        (198, 203, 117, 270, 271, 97, 268, 40, 39, 41, 51, 265, 280, 241, 282, 217, 218, 219),
        (129, 130, 131, 138, 240, 140, 122, 119, 118, 274, 30, 238, 239),
    ),
}

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def main() -> None:
    _libc.prctl(_DUMPABLE, 0, 0, 0, 0)  # Programs could open what it has open.
    job = json.loads(sys.stdin.buffer.read())
    if job["is_walled"]:  # The first process of bubblewrap's namespaces: all others end with it.
        _reply(job, is_isolated=True)
    is_isolated = _libc.unshare(_NEW_USER | _NEW_PID | _NEW_NET | _NEW_IPC) == 0
    _libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    keeper = os.fork()  # The first process of the namespace.
    if keeper == 0:
        _libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        _libc.prctl(_BE_SUBREAPER, 1)
        _reply(job, is_isolated)
    _, status = os.waitpid(keeper, 0)
    os._exit(os.waitstatus_to_exitcode(status) != 0)


def _reply(job: Mapping[str, Any], is_isolated: bool) -> NoReturn:
    ended = _run_tests(job, is_isolated)
    walls = {
        "namespaces": is_isolated,
        "Landlock": _landlock_version() > 0,
        "seccomp": platform.machine() in _SYSTEMS and sys.maxsize > 1 << 32,
    }
    reply = {"ended": ended, "walls": [name for name, holds in walls.items() if holds]}
    os.write(1, json.dumps(reply).encode())
    os._exit(0)


def _run_tests(job: Mapping[str, Any], is_isolated: bool) -> list[str]:
    """How each test ended. After ``total_s``, the others are ``not run``."""
    end = time.monotonic() + job["total_s"]
    ended = []
    for test in job["tests"]:
        left = end - time.monotonic()
        if left <= 0:
            ended.append("not run")
            continue
        limit_s = min(left, job["test_s"])
        ended.append(_run_test(job, test, limit_s, is_isolated))
    return ended


def _run_test(
    job: Mapping[str, Any], test: Mapping[str, Any], limit_s: float, is_isolated: bool
) -> str:
    """``passed``, ``failed``, ``error``, ``syntax error`` or ``timeout``. A program that prints
    has passed if it ends well: its caller compares the output."""
    reached, report = os.pipe()
    ends = socket.socketpair()

    def start(role: Callable[[], int], *kept: int, given: str = "", output: int = -1) -> int:
        folder = Path(tempfile.mkdtemp(dir=job["folder"]))
        (folder / "in").write_text(given, encoding="utf-8", errors="replace")
        if child := os.fork():
            return child
        code = calls.ERROR
        try:
            _take_streams(folder / "in", output)
            _close_all_but(report, *kept)
            _enter(folder, job["memory_bytes"], limit_s, is_isolated)
            os.write(report, b".")
            os.close(report)
            code = role()
        finally:
            os._exit(code)

    if "code" in test:
        theirs, ours = ends
        start(lambda: calls.serve(job["program"], test["given"], theirs), theirs.fileno())
        child = start(lambda: _test(test["code"], ours), ours.fileno(), test["code"])
    else:
        run = lambda: _print(job["program"])  # noqa: E731
        child = start(run, given=test["input"], output=test["output"])
    for end in (*ends, report):
        os.close(end if isinstance(end, int) else end.detach())
    status = _wait(child, limit_s)
    _end_all(is_isolated)
    count = len(os.read(reached, 9))
    os.close(reached)
    if count < 1 + ("code" in test):
        raise RuntimeError(f"the test's process did not come to its program: status {status}")
    if status is None or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU):
        return "timeout"
    return _ENDED.get(os.waitstatus_to_exitcode(status), "error")


def _test(code: int, end: socket.socket) -> int:
    with open(code, encoding="utf-8", errors="replace") as file:
        return calls.run_test(file.read(), end)


def _print(program: str) -> int:
    """Run a program that reads its input and prints."""
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    try:
        code = compile(program, "<program>", "exec")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return calls.SYNTAX_ERROR
    try:
        exec(code, module.__dict__)
        sys.stdout.flush()
    except SystemExit as error:
        sys.stdout.flush()
        return calls.PASSED if error.code in (None, 0) else calls.ERROR
    return calls.PASSED


def _take_streams(given: Path, output: int) -> None:
    os.dup2(os.open(given, os.O_RDONLY), 0)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(output if output >= 0 else nowhere, 1)
    os.dup2(nowhere, 2)
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        stream = os.fdopen(number, mode, encoding="utf-8", errors="replace", closefd=False)
        setattr(sys, name, stream)


def _close_all_but(*kept: int) -> None:
    last = 2
    for number in (*sorted(kept), resource.getrlimit(resource.RLIMIT_NOFILE)[0]):
        os.closerange(last + 1, number)
        last = number


def _enter(folder: Path, memory_bytes: int, limit_s: float, is_isolated: bool) -> None:
    """Leave everything behind but the folder, before the program runs."""
    os.setsid()
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
    if is_isolated:
        # Elsewhere this would count the other processes of the user, too.
        limits[resource.RLIMIT_NPROC] = _MOST_PROCESSES
    for kind, most in limits.items():
        resource.setrlimit(kind, (most, most))
    _libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    _drop_capabilities()
    _shut_in(folder / "work")
    _refuse_calls(is_isolated)


def _drop_capabilities() -> None:
    """Those of root, and of the first process of a user namespace; also for what they execute."""
    _libc.prctl(_SECURE_BITS, _NO_POWER_OF_ROOT, 0, 0, 0)
    for number in range(64):
        _libc.prctl(_DROP_CAPABILITY, number, 0, 0, 0)
    _libc.capset((ctypes.c_uint32 * 2)(_THIRD_VERSION, 0), (ctypes.c_uint32 * 6)())


def _refuse_calls(is_isolated: bool) -> None:
    """Refuse what Landlock does not know. Elsewhere than in a namespace, other processes, too."""
    system = _SYSTEMS.get(platform.machine())
    if system is None or sys.maxsize <= 1 << 32:
        return
    refuse, permission = _RETURN, _REFUSE | errno.EPERM
    code = [
        *((_LOAD, 0, 0, _ARCHITECTURE), (_IS, 1, 0, system.mark), (refuse, 0, 0, permission)),
        *((_LOAD, 0, 0, _NUMBER), (_IS_AT_LEAST, 0, 1, 1 << 30), (refuse, 0, 0, permission)),
        # The C library then uses clone, whose flags can be seen.
        *((_IS, 0, 1, _CLONE3), (refuse, 0, 0, _REFUSE | errno.ENOSYS)),
    ]
    others = () if is_isolated else (*_OTHER_PROCESSES, *system.others)
    for number in (*_EVERYWHERE, *system.files, *system.powers, *others):
        code += [(_IS, 0, 1, number), (refuse, 0, 0, permission)]
    # A namespace; a pair that is no stream, and so can send to any socket; limits of a process.
    for number, word, test in (
        (system.clone, 0, [(_HAS, 0, 1, _NEW_NAMESPACES)]),
        (system.pair, 1, [(_AND, 0, 0, 0xF), (_IS, 1, 0, socket.SOCK_STREAM)]),
        (system.limits, 0, [(_IS, 1, 0, 0)]),
    ):
        inner = [(_LOAD, 0, 0, _ARGUMENTS + 8 * word), *test, (refuse, 0, 0, permission)]
        code += [(_IS, 0, len(inner), number), *inner, (_LOAD, 0, 0, _NUMBER)]
    code.append((_RETURN, 0, 0, _ALLOW))
    text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
    filtered = struct.pack("HP", len(code), ctypes.addressof(text))
    if _libc.prctl(_SECCOMP, 2, ctypes.create_string_buffer(filtered), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


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
        children = Path(f"/proc/self/task/{os.getpid()}/children")
        for process in (-1,) if isolated else map(int, children.read_text().split()):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.001)


if __name__ == "__main__":
    main()
