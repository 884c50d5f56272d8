"""The processes of a reward function, seen from outside: they can be asked, and they can be ended.

A thread that hangs cannot be ended, and one that hangs in C code (a regular expression that
backtracks forever) stops all others, too; so the function runs in its own processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError
from engine.reward.own.child import STACK_SIGNAL
from engine.reward.own.files import kept_copies
from engine.reward.own.function import KEY, RewardFunction, is_by_name, missing_reward
from engine.reward.own.loading import Source, own_line
from engine.reward.own.wire import (
    HEADER,
    IDLE,
    PAGE,
    Busy,
    Ready,
    Refused,
    Reply,
    length_of,
    pack,
    receive,
    unpack,
)
from engine.run.host.programs import own_module
from engine.run.processes import carriers, send

_FRAME = re.compile(r'^ +File "(.*)", line (\d+)', re.MULTILINE)
MARK_VARIABLE = "GRUBRICS_REWARD_PROCESS"
"""Marks the environment of a function's process, and of all processes that it starts."""
_ROUNDS = 5
_STACK_PATIENCE_S = 0.5
_LOOKS = 20
_MARGIN = 1.2
"""An asynchronous call is cut inside its process at the limit; only one that blocks continues."""
START_LIMIT_S = 600.0
"""A file may load a model when it is imported."""
MOST = 4
"""Processes of a plain function in one reward worker."""
GROW_AFTER_S = 0.5
"""A call that has waited so long for a free process gets another one."""


NoteTime = Callable[[float], None]
"""Gets the seconds of each call that ends by itself, without waiting for other programs."""


class RewardCallError(Exception):
    """The function gave no score for one call; one line with file and line says why."""


class RewardTimeoutError(RewardCallError):
    """A call took longer than it may."""


class ProcessLostError(Exception):
    """The process ended because of another call; this one can be repeated."""


class RewardProcess:
    """All calls are made on one event loop."""

    def __init__(
        self,
        source: Source,
        limit_s: float,
        start_limit_s: float,
        *,
        quiet: bool,
        env: Mapping[str, str],
        note_time: NoteTime,
    ) -> None:
        """Start a process and wait until it has loaded the function.

        UsageError, in one line with file and line, when it cannot. ``quiet`` drops what the
        function prints; ``env`` are variables besides those of this process.
        """
        self.source, self.limit_s, self._note_time = source, limit_s, note_time
        self._numbers = itertools.count(IDLE + 1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._attaching = asyncio.Lock()
        self._writer: asyncio.StreamWriter | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._guilty: tuple[int, RewardCallError] | None = None
        self.is_alive = True
        self._mark = secrets.token_hex(16)
        self._trace = tempfile.TemporaryFile()  # noqa: SIM115
        self._sock, theirs = socket.socketpair()
        with theirs, tempfile.TemporaryFile() as page:
            page.truncate(PAGE)
            self._busy = Busy(page.fileno())
            descriptors = (theirs.fileno(), page.fileno(), self._trace.fileno())
            out = subprocess.DEVNULL if quiet else None
            self._popen = subprocess.Popen(
                own_module("engine.reward.own.child", *map(str, descriptors)),
                pass_fds=descriptors,
                env={**os.environ, **env, MARK_VARIABLE: self._mark},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                # Its own group, which is ended with everything that the function starts in it.
                start_new_session=True,
            )
        try:
            self.ready = self._greet(start_limit_s)
        except BaseException:
            self.end()
            raise

    def _greet(self, start_limit_s: float) -> Ready:
        file = Path(self.source.file).name
        self._sock.settimeout(start_limit_s)
        try:
            self._sock.sendall(pack((self.source, self.limit_s)))
            answer = receive(self._sock)
        except TimeoutError:
            place = self._find_line() or file
            raise UsageError(f"{place}: not imported within {start_limit_s:g} s") from None
        except (EOFError, ConnectionError):
            how = _format_exit(self._kill())
            raise UsageError(f"{file} ended its process with {how} while it was imported") from None
        if isinstance(answer, Refused):
            raise UsageError(answer.message)
        return answer  # type: ignore[no-any-return]

    async def call(self, arguments: Mapping[str, Any]) -> Any:
        """What the function returns for ``arguments``, in Python's own types.

        RewardCallError where it gives no score, ProcessLostError where the call should be made
        again in another process.
        """
        writer = await self._attached()
        if not self.is_alive:
            raise ProcessLostError
        number = next(self._numbers)
        if not self._waiting:
            self._busy.note(IDLE)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        writer.write(pack((number, dict(arguments))))
        try:
            return await self._waiting[number]
        finally:
            self._waiting.pop(number, None)

    def end(self) -> None:
        """End the process and everything it started."""
        self.is_alive = False
        for task in self._tasks:
            task.cancel()
        self._kill()
        self._close()

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._sock.close()
        self._trace.close()

    async def _attached(self) -> asyncio.StreamWriter:
        """Hand the socket to the event loop of the calls, once."""
        async with self._attaching:
            if self._writer is None:
                self._sock.setblocking(False)
                reader, self._writer = await asyncio.open_connection(sock=self._sock)
                self._tasks = [
                    asyncio.create_task(self._read(reader)),
                    asyncio.create_task(self._watch()),
                ]
            return self._writer

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                body = await reader.readexactly(length_of(await reader.readexactly(HEADER)))
                reply: Reply = unpack(body)
                future = self._waiting.get(reply.number)
                if future is not None and not future.done():
                    self._settle(future, reply)
        await self._conclude()

    def _settle(self, future: asyncio.Future[Any], reply: Reply) -> None:
        if reply.outcome != "timeout":
            self._note_time(reply.own_s)
        if reply.outcome == "ok":
            future.set_result(reply.value)
        elif reply.outcome == "timeout":
            future.set_exception(self._too_slow(reply.place))
        else:
            place = f" ({reply.place})" if reply.place else ""
            future.set_exception(RewardCallError(f"{reply.value}{place}"))

    async def _watch(self) -> None:
        """End the process when one call has kept it for longer than the limit."""
        limit_s = self.limit_s * _MARGIN if self.ready.together else self.limit_s
        while self.is_alive:
            await asyncio.sleep(min(1.0, limit_s / _LOOKS))
            number, since_s = self._busy.read()
            if not self._waiting or since_s < limit_s:
                continue
            place = await asyncio.to_thread(self._find_line)
            culprit = number if number in self._waiting else min(self._waiting)
            self._guilty = (culprit, self._too_slow(place or self.ready.defined_at))
            await asyncio.to_thread(self._kill)
            return

    def _too_slow(self, place: str | None) -> RewardTimeoutError:
        where = f" ({place})" if place else ""
        return RewardTimeoutError(
            f"{self.source.name} gave no {self.source.contract.returns} within {self.limit_s:g} s"
            f"{where}"
        )

    async def _conclude(self) -> None:
        """The process is gone: one call is to blame, the others can be made again."""
        self.is_alive = False
        code = await asyncio.to_thread(self._kill)
        number = self._busy.read()[0]
        if self._guilty is None and (number in self._waiting or len(self._waiting) == 1):
            culprit = number if number in self._waiting else next(iter(self._waiting))
            self._guilty = (culprit, self._died(code))
        for number, future in list(self._waiting.items()):
            if future.done():
                continue
            if self._guilty is None:
                future.set_exception(self._died(code))
            elif number == self._guilty[0]:
                future.set_exception(self._guilty[1])
            else:
                future.set_exception(ProcessLostError())
        await asyncio.wait(self._tasks[1:])  # the watcher may be reading the trace
        self._close()

    def _died(self, code: int) -> RewardCallError:
        place = f" ({self.ready.defined_at})" if self.ready.defined_at else ""
        how = _format_exit(code)
        return RewardCallError(f"{self.source.name} ended its process with {how}{place}")

    def _find_line(self) -> str | None:
        """The innermost line of the function's own code that its process is in."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._popen.pid, STACK_SIGNAL)
        deadline = time.monotonic() + _STACK_PATIENCE_S
        text = ""
        while time.monotonic() < deadline and "\n  File" not in text:
            time.sleep(0.02)
            text = os.pread(self._trace.fileno(), 1 << 16, 0).decode(errors="replace")
        frames = _FRAME.findall(text)
        lines = (own_line(path, int(number), self.source.folder) for path, number in frames)
        return next(filter(None, lines), None)

    def _kill(self) -> int:
        """Kill the process, unless it has ended by itself, with all it started; its exit code."""
        code = None
        # A process whose socket is closed may take a moment to be over.
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._popen.wait(timeout=0.05)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        code = self._popen.wait() if code is None else code
        # What the function started in another process group, e.g. a daemon, which may start more.
        for _ in range(_ROUNDS):
            marked = carriers(MARK_VARIABLE, self._mark)
            for process in marked:
                send(process, signal.SIGKILL)
            if not marked:
                break
        return code


def _format_exit(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"signal {signal.Signals(-code).name}"
    return f"signal {-code}"


def source_of(function: RewardFunction, copies: Path | None = None) -> Source:
    """What a process of ``function`` must know. UsageError where its file does not exist.

    ``copies`` is the folder with a run's copies of the files it was launched with; if it has the
    function's file, the original may be missing.
    """
    file = function.find_file()
    former = function.former_file()
    if file is None and copies is not None and former and (copies / former.name).is_file():
        file = former
    if file is None:
        problem = missing_reward(function.path) if is_by_name(function.path) else "does not exist"
        raise UsageError(f"{KEY}.path={function.path} {problem}")
    search = dict.fromkeys([str(Path.cwd()), *filter(None, sys.path)])
    return Source(
        file=str(file.absolute()),
        module=function.module,
        name=function.name,
        kwargs=dict(function.kwargs),
        search=tuple(search),
        copies=kept_copies(file, copies) if copies is not None else {},
    )


class RewardProcesses:
    """Calls a reward function in processes that are ended when a call hangs.

    A plain function has one process, which is asked for one score after the other; others are
    added, up to ``MOST``, while calls wait. An asynchronous one has one process for all calls.
    Each process imports the file by itself: what the function keeps in memory is kept per process.
    """

    def __init__(
        self,
        source: Source,
        limit_s: float,
        start_limit_s: float = START_LIMIT_S,
        *,
        quiet: bool = False,
        env: Mapping[str, str] | None = None,
        note_time: NoteTime = lambda seconds: None,
    ) -> None:
        """Starts the first process. UsageError when the function cannot be loaded."""
        start = partial(RewardProcess, source, limit_s, start_limit_s)
        self._start = partial(start, quiet=quiet, env=env or {}, note_time=note_time)
        first = self._start()
        self.ready = first.ready
        self._processes = [first]
        self._idle = [first]
        self._freed = asyncio.Event()
        self._growing: asyncio.Task[None] | None = None

    async def score(self, **arguments: Any) -> Any:
        """What the function returns for ``arguments``. Raises RewardCallError."""
        while True:
            process = await self._take()
            try:
                return await process.call(arguments)
            except ProcessLostError:
                continue
            finally:
                if process.is_alive and process not in self._idle:
                    self._idle.append(process)
                self._freed.set()

    def end(self) -> None:
        """End every process."""
        for process in self._processes:
            process.end()

    async def _take(self) -> RewardProcess:
        patience_ends = time.monotonic() + GROW_AFTER_S
        while True:
            # One that ended by itself may still be telling its calls so: it is left alone.
            self._processes = [process for process in self._processes if process.is_alive]
            self._idle = [process for process in self._idle if process.is_alive]
            if self._idle:
                return self._idle[0] if self.ready.together else self._idle.pop(0)
            is_late = time.monotonic() >= patience_ends and len(self._processes) < MOST
            if is_late or not self._processes:
                await self._grow()
                continue
            self._freed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._freed.wait(), GROW_AFTER_S)

    async def _grow(self) -> None:
        """Add a process; of all calls that want one, one starts it and the others wait for it."""
        if self._growing is None or self._growing.done():
            self._growing = asyncio.create_task(self._add())
        await asyncio.shield(self._growing)

    async def _add(self) -> None:
        try:
            process = await asyncio.to_thread(self._start)
        except UsageError as error:
            raise RewardCallError(str(error)) from error
        self._processes.append(process)
        self._idle.append(process)
        self._freed.set()
