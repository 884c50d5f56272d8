"""As many processes of a reward function as its calls need, and no call that waits for ever."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError
from engine.own_reward.code import kept_copies
from engine.own_reward.function import KEY, PLUGIN, RewardFunction, missing_reward
from engine.own_reward.loading import Source
from engine.own_reward.process import ProcessLostError, RewardCallError, RewardProcess

START_LIMIT_S = 600.0
"""A file may load a model when it is imported."""
MOST = 4
"""Processes of a plain function in one reward worker."""
GROW_AFTER_S = 0.5
"""A call that has waited so long for a free process gets another one."""


def source_of(function: RewardFunction, copies: Path | None = None) -> Source:
    """What a process of ``function`` must know. UsageError where its file does not exist.

    ``copies`` is the folder in which a run kept the files it was launched with; where it has the
    function's file, the original may be gone.
    """
    file = function.find_file()
    former = function.former_file()
    if file is None and copies is not None and former and (copies / former.name).is_file():
        file = former
    if file is None:
        is_plugin = function.path.startswith(PLUGIN)
        problem = missing_reward(function.path) if is_plugin else "does not exist"
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
    ) -> None:
        """Starts the first process. UsageError when the function cannot be loaded."""
        self._source = source
        self._limit_s = limit_s
        self._start_limit_s = start_limit_s
        self._quiet = quiet
        self._env = env
        first = self._start()
        self._together = first.ready.together
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
            self._forget_dead()
            if self._idle:
                return self._idle[0] if self._together else self._idle.pop(0)
            if not self._processes:
                await self._grow()
                continue
            if time.monotonic() >= patience_ends and len(self._processes) < MOST:
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

    def _forget_dead(self) -> None:
        """A process that ended by itself may still be telling its calls so: it is left alone."""
        self._processes = [each for each in self._processes if each.is_alive]
        self._idle = [each for each in self._idle if each.is_alive]

    def _start(self) -> RewardProcess:
        return RewardProcess.start(
            self._source, self._limit_s, self._start_limit_s, quiet=self._quiet, env=self._env
        )


def as_arguments(
    text: str, data_source: str, ground_truth: Any, extra_info: Mapping[str, Any]
) -> dict[str, Any]:
    """One call, as verl makes it."""
    return {
        "data_source": data_source,
        "solution_str": text,
        "ground_truth": ground_truth,
        "extra_info": dict(extra_info),
    }
