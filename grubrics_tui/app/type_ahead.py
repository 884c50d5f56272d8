"""Keys that arrive together act one after the other, as if they were typed slowly."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

from textual.app import App
from textual.events import Event
from textual.message_pump import MessagePump

_ROUNDS = 20
"""A screen that changes its focus with each round would keep the next key for ever."""
_PATIENCE_S = 1.0


class TypeAhead:
    """Holds a key back until the one before it was handled: it may open what the next is for.

    Textual gives each key at once to what has the focus. Of ``/abc`` in one packet, as a paste or
    a slow line delivers it, ``abc`` would be commands of the screen that ``/`` leaves.
    """

    def __init__(self, app: App[None]) -> None:
        self._app = app
        self._waiting: deque[Event] = deque()
        self._next: Event | None = None
        self.is_busy = False

    def admits(self, event: Event) -> bool:
        """Whether the key acts now; else it is kept, and posted to the app again."""
        if event is self._next:
            return True
        if self.is_busy:
            self._waiting.append(event)
            return False
        self.is_busy = True
        self._app.run_worker(self._pass_on(), group="keys")
        return True

    async def _pass_on(self) -> None:
        try:
            await self._settle()
            while self._waiting:
                self._next = self._waiting.popleft()
                self._app.post_message(self._next)
                await self._settle()
        finally:
            self.is_busy = False

    async def _settle(self) -> None:
        """Return when all that the key caused was handled on its way from the focus to the app,
        and the focus stays where it is."""
        before: list[MessagePump] = []
        for _ in range(_ROUNDS):
            path = self._path()
            for pump in path:
                handled = asyncio.Event()
                if pump.call_later(handled.set):
                    with suppress(TimeoutError):  # Another program may keep the machine busy.
                        await asyncio.wait_for(handled.wait(), _PATIENCE_S)
            if path == before:
                return
            before = path

    def _path(self) -> list[MessagePump]:
        return [self._app, *(self._app.focused or self._app.screen).ancestors_with_self]
