"""What the kernel tells about a program that somebody else launched."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

import psutil

from engine.base.errors import UsageError
from engine.base.writers import user_name
from engine.run.host.system import Gpu
from engine.run.identity import Identity
from engine.run.processes import ancestors, identify, run_of, tree


@dataclass(frozen=True)
class RunningProgram:
    """A process of this user. ``argv`` is empty where it hides its command line."""

    identity: Identity
    argv: tuple[str, ...]
    cwd: Path
    started: float
    """Unix seconds."""
    logs: tuple[Path, ...]
    """The files that its stdout and stderr go to."""


def read_program(pid: int) -> RunningProgram:
    """Read the process ``pid``.

    UsageError in one line if there is none, it has ended, it belongs to another user, to a run or
    to this command, or is not a process of its own.
    """
    try:
        process = psutil.Process(pid)
        uid, state = process.uids().real, process.status()
        if uid != os.getuid():
            owner = user_name(uid)
            raise UsageError(f"process {pid} belongs to user {owner}; only your own are adopted")
        if state in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            raise UsageError(f"process {pid} has ended (zombie); there is nothing to follow")
        if (leader := _thread_group(pid)) != pid:
            raise UsageError(f"{pid} is a thread of process {leader}. Adopt that: {leader}")
        _require_free(pid)
        identity = identify(pid)
        if identity is None:
            raise psutil.NoSuchProcess(pid)
        argv, cwd, started = process.cmdline(), Path(process.cwd()), process.create_time()
        if not argv:
            raise UsageError(
                f"process {pid} has no command line: a thread of the kernel, or ending"
            )
        return RunningProgram(identity, tuple(argv), cwd, started, find_logs(pid))
    except (psutil.NoSuchProcess, OverflowError, FileNotFoundError) as error:
        raise UsageError(f"no process {pid} on this machine") from error
    except psutil.AccessDenied as error:
        raise UsageError(f"process {pid} cannot be read: access denied") from error


def _thread_group(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Tgid:"))


def _require_free(pid: int) -> None:
    """Raise UsageError for a process of a run, and for this command and what launched it."""
    for relative in (pid, *ancestors(pid)):
        if (run := run_of(relative)) is not None:
            raise UsageError(f"process {pid} belongs to run '{run}', which is in the list already")
    if pid in (os.getpid(), *ancestors(os.getpid())):
        raise UsageError(f"process {pid} is this command, or one that it was launched from")


def find_logs(pid: int) -> tuple[Path, ...]:
    """The regular files that receive what a process prints, directly or through ``tee``."""
    found: list[Path] = []
    for number in (1, 2):
        descriptor = Path(f"/proc/{pid}/fd/{number}")
        paths = [path] if (path := _regular_file(descriptor)) else _files_behind_pipe(descriptor)
        found += [path for path in paths if path not in found]
    return tuple(found)


def _regular_file(descriptor: Path) -> Path | None:
    """The file of an open descriptor, by the name that it still has."""
    try:
        opened, path = descriptor.stat(), descriptor.readlink()
        same = os.path.samestat(opened, path.stat())
    except OSError:
        return None
    return path if same and stat.S_ISREG(opened.st_mode) else None


def _files_behind_pipe(descriptor: Path) -> list[Path]:
    """The files that ``tee`` writes, if it reads the other end of a pipe."""
    try:
        pipe = str(descriptor.readlink())
    except OSError:
        return []
    if not pipe.startswith("pipe:"):
        return []
    for process in psutil.process_iter(["pid", "name"]):
        folder = Path(f"/proc/{process.pid}/fd")
        try:
            if process.info["name"] == "tee" and str((folder / "0").readlink()) == pipe:
                return [path for fd in folder.iterdir() if (path := _regular_file(fd))]
        except OSError:
            continue
    return []


def held_gpus(program: Identity, gpus: list[Gpu]) -> list[int]:
    """The indices of the GPUs on which a process or its descendants hold memory."""
    pids = {process.pid for process in tree(program)}
    return [gpu.index for gpu in gpus if pids & gpu.held().keys()]
