"""The process of a reward function: ``python -m engine.reward.own.child SOCKET PAGE TRACE``.

Arguments are inherited file descriptors. A plain function is called in the main thread, one call
after the other; an asynchronous one on one event loop, all calls side by side.
"""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import inspect
import json
import os
import signal
import socket
import sys
import time
import traceback
import types
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from engine.reward.own.loading import (
    RECORD,
    LoadError,
    Source,
    defined_at,
    load,
    one_line,
    own_line,
    own_modules,
    where_raised,
)
from engine.reward.own.wire import (
    HEADER,
    IDLE,
    Busy,
    Ready,
    Refused,
    Reply,
    length_of,
    pack,
    receive,
    unpack,
)

STACK_SIGNAL = signal.SIGUSR1
"""Asks for the stack of the main thread, which also a process that hangs in C code gives."""

_TICK_S = 0.1
_PR_SET_PDEATHSIG = 1


def main(arguments: Sequence[str]) -> None:
    channel, page, trace = map(int, arguments)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    faulthandler.register(STACK_SIGNAL, file=trace, all_threads=False)
    for descriptor in (channel, page, trace):
        os.set_inheritable(descriptor, False)
    # What the function prints must not be lost with its process.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    sock, busy = socket.socket(fileno=channel), Busy(page)
    try:
        source, limit_s = receive(sock)
        busy.note(IDLE)
        try:
            function = load(source)
        except LoadError as error:
            sock.sendall(pack(Refused(str(error))))
            os._exit(0)
        scorer = Scorer(function, source, busy, limit_s)
        folder = source.folder
        ready = Ready(scorer.together, defined_at(function, folder), own_modules(folder))
        sock.sendall(pack(ready))
        if scorer.together:
            asyncio.run(scorer.serve_together(sock))
        else:
            scorer.serve_in_turn(sock)
    except (EOFError, ConnectionError, KeyboardInterrupt):
        pass
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)  # Threads that the function started must not keep the process.


@dataclass(frozen=True)
class Times:
    """``clock_s`` is the time; of it, this thread has waited ``queued_s`` for a processor."""

    clock_s: float
    queued_s: float

    @classmethod
    def now(cls) -> Times:
        """Linux counts in nanoseconds how long a thread waits, if it is built to."""
        try:
            queued = int(Path("/proc/thread-self/schedstat").read_bytes().split()[1]) / 1e9
        except (OSError, ValueError, IndexError):
            queued = 0.0
        return cls(time.monotonic(), queued)


class Scorer:
    """Calls the function and turns its result, or its failure, into a reply."""

    def __init__(
        self,
        function: Callable[..., Any],
        source: Source,
        busy: Busy,
        limit_s: float,
        now: Callable[[], Times] = Times.now,
    ) -> None:
        self._function = function
        self._limit_s = limit_s
        self._now = now
        self._source = source
        self._busy = busy
        self._plain = plain_record if source.contract == RECORD else plain
        self._loop: asyncio.AbstractEventLoop | None = None
        called = function.func if isinstance(function, partial) else function
        self.together = inspect.iscoroutinefunction(called) or inspect.iscoroutinefunction(
            getattr(called, "__call__", None)  # noqa: B004 - its kind is asked for
        )

    def serve_in_turn(self, sock: socket.socket) -> None:
        while True:
            number, arguments = receive(sock)
            self._busy.note(number)
            reply = self.reply(number, arguments)
            self._busy.note(IDLE)
            sock.sendall(pack(reply))

    async def serve_together(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=sock)
        calls = {asyncio.create_task(self._tick())}
        while True:
            body = await reader.readexactly(length_of(await reader.readexactly(HEADER)))
            number, arguments = unpack(body)
            calls.add(task := asyncio.create_task(self._answer(writer, number, arguments)))
            task.add_done_callback(calls.discard)

    async def _answer(
        self, writer: asyncio.StreamWriter, number: int, arguments: Mapping[str, Any]
    ) -> None:
        start = self._now()
        coroutine = self._function(**{**arguments, **self._source.kwargs})
        task = asyncio.create_task(self._awaited(number, coroutine))
        done, _ = await asyncio.wait({task}, timeout=self._limit_s)
        if done:
            reply = self._timed(task.result(), start)
        else:
            reply = Reply(number, "timeout", place=_suspended_at(coroutine, self._source.folder))
            task.cancel()  # Not waited for: the function may catch it.
        writer.write(pack(reply))

    async def _awaited(self, number: int, coroutine: Coroutine[Any, Any, Any]) -> Reply:
        enter, leave = partial(self._busy.note, number), partial(self._busy.note, IDLE)
        try:
            return Reply(number, "ok", self._plain(await _noted(coroutine, enter, leave)))
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            return self._failure(number, error)

    async def _tick(self) -> None:
        """Say that the loop runs; it does not while a call blocks it."""
        while True:
            self._busy.note(IDLE)
            await asyncio.sleep(_TICK_S)

    def _call(self, arguments: Mapping[str, Any]) -> Any:
        result = self._function(**{**arguments, **self._source.kwargs})
        if inspect.isawaitable(result):
            self._loop = self._loop or asyncio.new_event_loop()
            result = self._loop.run_until_complete(_value_of(result))
        return self._plain(result)

    def reply(self, number: int, arguments: Mapping[str, Any]) -> Reply:
        """The reply to a call of a plain function."""
        start = self._now()
        try:
            reply = Reply(number, "ok", self._call(arguments))
        except BaseException as error:  # sys.exit() too ends the call, not the process
            reply = self._failure(number, error)
        return self._timed(reply, start)

    def _timed(self, reply: Reply, start: Times) -> Reply:
        """The reply with its time; a result after the limit does not count.

        The owner looks only now and then how long a call has taken.
        """
        end = self._now()
        elapsed = end.clock_s - start.clock_s
        own_s = max(0.0, elapsed - (end.queued_s - start.queued_s))
        if reply.outcome == "ok" and elapsed > self._limit_s:
            place = defined_at(self._function, self._source.folder)
            reply = Reply(reply.number, "timeout", place=place)
        return replace(reply, own_s=own_s)

    def _failure(self, number: int, error: BaseException) -> Reply:
        folder = self._source.folder
        place = where_raised(error, folder) or defined_at(self._function, folder)
        return Reply(number, "error", one_line(error), place)


def plain(result: Any) -> Any:
    """A result of Python's own types: the owner has no torch and unpickles no external code.

    TypeError for what is neither a number nor a mapping with ``score``.
    """
    if not isinstance(result, Mapping):
        return number_of(result)
    if "score" not in result:
        raise TypeError(
            f"returned a mapping without 'score' (it has {', '.join(map(str, result))})"
        )
    named = {str(name): value for name, value in result.items() if name != "score"}
    beside = {name: _beside(value) for name, value in named.items()}
    numbers = {name: value for name, value in beside.items() if value is not ...}
    return {"score": number_of(result["score"]), **numbers}


def plain_record(result: Any) -> Any:
    """A record of JSON's own types; TypeError for what is no mapping or holds other values."""
    if not isinstance(result, Mapping):
        raise TypeError(f"returned {type(result).__name__} {str(result)[:40]!r}, not a mapping")
    return json.loads(json.dumps({**result}, default=_python_value))


def _python_value(value: Any) -> Any:
    """The value of a scalar or an array of numpy or torch."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"returned a record with a {type(value).__name__}, which JSON does not have")


def number_of(result: Any) -> float:
    """A score as a float; torch's and numpy's scalars are numbers too."""
    if result is None or isinstance(result, str | bytes | list | tuple | dict | set):
        raise TypeError(f"returned {type(result).__name__} {str(result)[:40]!r}, not a number")
    return float(result)


def _beside(value: Any) -> Any:
    """A number or text beside the score; ``...`` for what is neither."""
    if value is None or isinstance(value, str):
        return value
    try:
        return number_of(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return ...


async def _value_of(awaitable: Any) -> Any:
    return await awaitable


@types.coroutine
def _noted(
    coroutine: Coroutine[Any, Any, Any], enter: Callable[[], None], leave: Callable[[], None]
) -> Generator[Any, Any, Any]:
    """Await ``coroutine``, with ``enter`` and ``leave`` around every stretch in which it runs."""
    step: Callable[[], Any] = partial(coroutine.send, None)
    while True:
        enter()
        try:
            awaited = step()
        except StopIteration as end:
            return end.value
        finally:
            leave()
        try:
            sent = yield awaited
        except GeneratorExit:
            coroutine.close()
            raise
        except BaseException as error:
            step = partial(coroutine.throw, error)
        else:
            step = partial(coroutine.send, sent)


def _suspended_at(coroutine: Any, folder: Path) -> str | None:
    """The innermost line of the function's own code that ``coroutine`` waits in."""
    place = None
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        place = own_line(frame.f_code.co_filename, frame.f_lineno, folder) or place
        coroutine = coroutine.cr_await
    return place


if __name__ == "__main__":
    main(sys.argv[1:])
