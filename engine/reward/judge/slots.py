"""A limit on concurrent calls that holds across processes.

Each slot is an empty file under an exclusive ``flock``. The kernel frees the lock when its
process ends in any way, so a crash never leaves a slot occupied.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

from engine.base import files

_POLL_S = 0.02


class Slots(Protocol):
    """Bounds how many bodies run at once."""

    def held(self) -> AbstractAsyncContextManager[None]: ...


class LocalSlots:
    """A limit for one process."""

    def __init__(self, limit: int) -> None:
        self._semaphore = asyncio.Semaphore(limit)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        async with self._semaphore:
            yield


class SharedSlots:
    """A limit for all processes that name the same ``directory``."""

    def __init__(self, directory: Path, limit: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._paths = [directory / f"slot_{number}" for number in range(limit)]
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        # One task per process polls, so a long queue costs no more than a short one.
        async with self._turn:
            while (descriptor := self._try_all()) is None:
                await asyncio.sleep(_POLL_S * random.uniform(0.5, 1.5))
        try:
            yield
        finally:
            os.close(descriptor)

    def _try_all(self) -> int | None:
        for path in random.sample(self._paths, len(self._paths)):
            # A fresh open file per attempt: flock then excludes tasks of this process as well.
            descriptor = files.open_lock(path)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return descriptor
            except BlockingIOError:
                os.close(descriptor)
        return None


def make_slots(directory: Path | None, limit: int) -> Slots:
    """Slots shared by all processes that name ``directory``; None bounds this process alone."""
    return LocalSlots(limit) if directory is None else SharedSlots(directory, limit)
