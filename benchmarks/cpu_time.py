"""CPU seconds of everything that a block starts, also of processes that detach themselves."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from types import TracebackType

import psutil

from engine.run.processes import become_subreaper

EVERY_S = 0.5


class CpuTime:
    """Adds up user and system seconds of all processes that start inside of ``with CpuTime()``.

    Reads each process twice a second, because the parent of a detached process does not wait for
    it. The last half second of a process is therefore missing.
    """

    def __init__(self) -> None:
        self._used: dict[tuple[int, float], float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @property
    def seconds(self) -> float:
        return sum(self._used.values())

    def __enter__(self) -> CpuTime:
        become_subreaper()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        earlier = {process.pid for process in _descendants()}
        while not self._ended.wait(EVERY_S):
            for process in _descendants():
                if process.pid in earlier:
                    continue
                with suppress(psutil.Error), process.oneshot():
                    times = process.cpu_times()
                    self._used[process.pid, process.create_time()] = times.user + times.system


def _descendants() -> list[psutil.Process]:
    return psutil.Process(os.getpid()).children(recursive=True)
