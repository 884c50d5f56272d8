"""Find, identify and signal the processes of a run. Linux only (/proc)."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from engine.base import files
from engine.run.identity import Identity
from engine.run.marks import Mark, names, read_environment, read_mark
from engine.run.run import SUPERVISES_VARIABLE, Run

_PR_SET_CHILD_SUBREAPER = 36
_DYING_S = 2.0
_ROUNDS = 5
_STATE, _PARENT, _START = 0, 1, 19  # fields of /proc/<pid>/stat after the command name


def boot_id() -> str:
    """The ID of this boot of this machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def identify(pid: int) -> Identity | None:
    """The identity of a live process, or None."""
    fields = stat_of(pid)
    if fields is None or fields[_STATE] == "Z":
        return None
    return Identity(pid, int(fields[_START]), boot_id())


def alive(identity: Identity) -> bool:
    """Whether this very process still runs (a zombie does not)."""
    return identify(identity.pid) == identity


def become_subreaper() -> None:
    """Make orphaned descendants children of this process, so none can escape by re-parenting."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def members(run: Run, roots: Iterable[int] = ()) -> list[Identity]:
    """Every live process of a run: carriers of its mark, and descendants of them or of ``roots``.

    The processes in ``roots`` are not included: the caller is one of them. Neither is another run
    that a process of this one launched: its supervisor looks after it.
    """
    ancestors, parents = set(roots), dict(every_parent())
    candidates = parents.keys() - ancestors - {os.getpid()}
    marks = {pid: mark for pid in candidates if (mark := read_mark(pid)) is not None}
    of_run = {mark for mark in set(marks.values()) if mark.is_of(run)}
    carriers = {pid for pid, mark in marks.items() if mark in of_run}
    ancestors |= carriers
    related = [pid for pid in candidates if pid in carriers or _descends(pid, parents, ancestors)]
    marked = marks.keys() - carriers
    others = {pid for pid in related if pid in marked or _supervises_other(pid, run)} - carriers
    apart = {pid for pid in related if pid in others or _descends(pid, parents, others)} - carriers
    pids = [pid for pid in related if pid not in apart]
    return [identity for pid in pids if (identity := identify(pid)) is not None]


def _supervises_other(pid: int, run: Run) -> bool:
    """Whether a process supervises another run than ``run``."""
    supervised = read_environment(pid, SUPERVISES_VARIABLE).get(SUPERVISES_VARIABLE)
    return supervised is not None and not names(supervised, run)


def tree(root: Identity) -> list[Identity]:
    """A process and its descendants; empty if it has ended, whoever has its pid now."""
    parents = dict(every_parent())
    pids = [root.pid, *(pid for pid in parents if _descends(pid, parents, {root.pid}))]
    found = [identity for pid in pids if (identity := identify(pid)) is not None]
    return found if alive(root) else []


def ancestors(pid: int) -> list[int]:
    """The pids of the parent of a process, of its parent, and so on."""
    parents, found = dict(every_parent()), list[int]()
    while (parent := parents.get(pid, 0)) > 0 and parent not in found:
        found.append(parent)
        pid = parent
    return found


def ignores(identity: Identity, number: signal.Signals) -> bool:
    """Whether a process ignores a signal; False where that is not known."""
    try:
        text = Path(f"/proc/{identity.pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    masks = [line.split()[1] for line in text.splitlines() if line.startswith("SigIgn:")]
    return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)


def send(identity: Identity, number: signal.Signals) -> bool:
    """Signal exactly this process; False if it is gone or belongs to another user (sudo)."""
    with _pinned(identity.pid) as handle:
        if not alive(identity):
            return False
        try:
            if handle is None:
                os.kill(identity.pid, number)
            else:
                signal.pidfd_send_signal(handle, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True


@contextmanager
def _pinned(pid: int) -> Iterator[int | None]:
    """A handle on a process, which a later process with the same pid does not match.

    None if there is no such process, or on kernels before 5.3.
    """
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        yield None
        return
    try:
        yield handle
    finally:
        os.close(handle)


def reap_children() -> Iterator[tuple[int, int]]:
    """``(pid, wait status)`` of every child that has ended, without blocking."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, status


def end(processes: Sequence[Identity], patience_s: float) -> list[Identity]:
    """SIGTERM, wait up to ``patience_s``, SIGKILL. Returns the processes that were signalled.

    They must not be children of this process, unless the caller reaps them later.
    """
    signalled = [process for process in processes if send(process, signal.SIGTERM)]
    deadline = time.monotonic() + patience_s
    while any(alive(process) for process in signalled) and time.monotonic() < deadline:
        time.sleep(0.05)
    for process in signalled:
        send(process, signal.SIGKILL)
    # A killed process takes a moment to disappear; the next reader should not find it.
    deadline = time.monotonic() + _DYING_S
    while any(alive(process) for process in signalled) and time.monotonic() < deadline:
        time.sleep(0.02)
    return signalled


def end_members(run: Run, patience_s: float, roots: Sequence[int] = ()) -> list[Identity]:
    """End every process of a run, also those that it starts meanwhile. Returns those signalled."""
    ended: list[Identity] = []
    for _ in range(_ROUNDS):
        if not (processes := members(run, roots)):
            break
        ended += end(processes, patience_s)
    return ended


def stat_of(pid: int) -> list[str] | None:
    """The fields of ``/proc/PID/stat`` after the name, the state first; None for a process that is
    gone. OSError when that is not known."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        if files.is_trouble(error):
            raise
        return None
    return text[text.rfind(")") + 2 :].split()


def every_parent() -> Iterator[tuple[int, int]]:
    """``(pid, pid of its parent)`` of every process."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := stat_of(int(entry.name))) is not None:
            yield int(entry.name), int(fields[_PARENT])


def marked() -> Iterator[tuple[Identity, Mark]]:
    """Every live process of any run, with its mark."""
    for pid, _ in every_parent():
        mark = read_mark(pid)
        if mark is not None and (identity := identify(pid)) is not None:
            yield identity, mark


def carriers(variable: str, value: str) -> list[Identity]:
    """Every live process that was started with ``variable=value`` in its environment."""
    identities = (
        identify(pid)
        for pid, _ in every_parent()
        if read_environment(pid, variable).get(variable) == value
    )
    return [identity for identity in identities if identity is not None]


def run_of(pid: int) -> str | None:
    """The ID of the run that a process was started for; None for any other process."""
    mark = read_mark(pid)
    return None if mark is None else mark.directory.name


def _descends(pid: int, parents: dict[int, int], roots: set[int]) -> bool:
    visited: set[int] = set()
    while pid in parents and pid not in visited:
        visited.add(pid)
        pid = parents[pid]
        if pid in roots:
            return True
    return False
