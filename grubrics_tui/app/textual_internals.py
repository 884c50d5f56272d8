"""Everything that depends on Textual's internals: its driver, and the sequences that it writes.

Textual repaints a widget from its left edge whenever a cell of a line has changed. Over SSH that is
most of what a quiet screen sends, so cells that the terminal shows already are not sent again.
``tests/grubrics_tui/app/test_textual_internals.py`` fails if Textual changes what is used here.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Any, TextIO

from textual.app import App
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Event, MouseMove
from textual.message import Message
from textual.message_pump import MessagePump
from textual.screen import Screen

_MOVE = r"\x1b\[([1-9]\d{0,3});([1-9]\d{0,3})H"
_TEXT = "[^\x00-\x1f\x7f-\x9f]"
_STYLED = rf"\x1b\[([\d;]*)m({_TEXT}*+)\x1b\[0m|({_TEXT}++)"
_MOVES, _RUNS = re.compile(_MOVE), re.compile(_STYLED)
_FRAME = re.compile(rf"(?:{_MOVE}(?:{_STYLED})*+\n?)++")
"""A frame of Textual: stretches of text, each after a cursor move, and a final cursor move."""

_SETTING = re.compile(r"([34]8);(?:2;\d+;\d+;\d+|5;\d+)|\d+")
"""One setting of a style: a color of the text (38) or of the background (48), or another one."""

# Characters that take one cell in every terminal.
_NARROW = re.compile(
    "[ -~\u00a1-\u00ac\u00ae-\u017f\u2010-\u2027\u2030-\u203a\u2190-\u2193\u2200-\u22ff"
    "\u2500-\u25a9\u25ac-\u25b5\u25b7-\u25bf\u25c1-\u25fa\u2713\u2717\u2800-\u28ff]*"
)
_SYNCHRONISED = frozenset({"\x1b[?2026h", "\x1b[?2026l"})
_NEAR = 8
"""Up to this many unchanged cells are cheaper to send than another cursor move."""
_MANY_STYLES = 50_000
_UNKNOWN = "\0"
_LOOK_S, _END_S = 0.5, 1.0
"""Seconds between two looks for the terminal, and until a program without one ends by force."""
_HANGUP = 128 + signal.SIGHUP


class LayeredApp(App[None]):
    """Draws the screens below the one in front only where they shine through.

    Textual counts the next one as visible in any case: each of its changes, which nobody sees,
    would draw the whole screen in front again.
    """

    @property
    def _background_screens(self) -> list[Screen[Any]]:
        return [] if self.screen.styles.background.a == 1 else super()._background_screens


def choose_driver(chosen: type[Driver]) -> type[Driver]:
    """Return the driver that replaces Textual's choice."""
    return SparingDriver if chosen is LinuxDriver else chosen


class SparingDriver(LinuxDriver):
    """Textual's driver, but cells that the terminal shows already are not written again."""

    def __init__(
        self,
        app: App[Any],
        *,
        debug: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
    ) -> None:
        _write_whole()
        self._diff = TerminalDiff()
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._file: Any = TerminalFile(sys.__stderr__)
        # The thread that reads keys writes too; a signal may come in the middle of a frame.
        self._lock = threading.RLock()
        self._event_loop = asyncio.get_running_loop()
        self._suspended = self._is_due = False
        self._is_lost = threading.Event()
        threading.Thread(target=self._watch_terminal, daemon=True).start()

    def _watch_terminal(self) -> None:
        """End the program soon after its terminal.

        The hangup signal, which would do so, is ignored if a parent did: ``nohup``, ``make``. By
        force, if the app is busy: it only reads and sends requests, so nothing is left half done.
        """
        while os.isatty(self.fileno) and not self._is_lost.wait(_LOOK_S):
            pass
        with suppress(RuntimeError):  # The loop has ended already.
            self._event_loop.call_soon_threadsafe(self._app.exit, None, _HANGUP)
        time.sleep(_END_S)
        os._exit(_HANGUP)

    def run_input_thread(self) -> None:
        """Read keys until the end, or until the terminal refuses to give any."""
        try:
            super().run_input_thread()
        except OSError:
            self._is_lost.set()

    def process_message(self, message: Message) -> None:
        """Whoever types may want to see the screen repaired; a pointer that passes does not."""
        if not isinstance(message, MouseMove):
            self._diff.repairs = True
        super().process_message(message)

    def _get_terminal_size(self) -> tuple[int, int]:
        """Called when the size has changed: terminals differ in what they do with the cells."""
        self._diff.repairs = True
        return super()._get_terminal_size()

    def write(self, data: str) -> None:
        with self._lock:
            if sent := self._diff.sent(data):
                super().write(sent)

    def suspend_application_mode(self) -> None:
        super().suspend_application_mode()
        self._suspended = True

    def resume_application_mode(self) -> None:
        """Also called for a SIGCONT after a ``kill -STOP``, without a suspension before it.

        Then the program still owns the terminal, but a shell may have drawn on it. Entering
        application mode twice would start a second writer and leave the terminal without echo.
        """
        if self._suspended:
            self._suspended = False
            super().resume_application_mode()
        elif not (self._is_due or self._event_loop.is_closed()):
            self._is_due = True
            # The signal may have come in the middle of a write, which holds the lock of its queue.
            self._event_loop.call_soon_threadsafe(self._start_over)

    def _start_over(self) -> None:
        self._is_due = False
        self.suspend_application_mode()
        self.resume_application_mode()


def _write_whole() -> None:
    """Buffer the terminal's stream if it is unbuffered, as with ``PYTHONUNBUFFERED``.

    Python drops the rest of an unbuffered write that is interrupted, which happens when the program
    or the whole machine is paused.
    """
    stream = sys.__stderr__
    if stream is not None and isinstance(stream.buffer, io.RawIOBase):
        number, encoding, errors = stream.fileno(), stream.encoding, stream.errors
        buffered = open(number, "w", encoding=encoding, errors=errors, closefd=False)  # noqa: SIM115
        sys.__stderr__ = buffered  # type: ignore[misc]


class TerminalFile:
    """The terminal's stream, whose errors are dropped once the terminal is gone.

    Textual's writer would end at the first one, and the program would wait for it for ever.
    """

    def __init__(self, stream: TextIO | None) -> None:
        assert stream is not None  # Without one, no screen is opened.
        self._stream = stream
        self.fileno = stream.fileno

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


@dataclass(frozen=True)
class _Stretch:
    """Text that starts at a cell; ``styles`` has one character for the style of each cell.

    ``raw`` is the original output, if it must be sent unchanged.
    """

    row: int
    column: int
    text: str
    styles: str
    raw: str = ""


class TerminalDiff:
    """The cells of a terminal, as far as they are known from what was written to it.

    Sending ``sent(data)`` leaves the terminal as sending ``data`` would. Other output than a frame
    of Textual is passed on unchanged, and makes all cells unknown. So does a repaint of whole lines
    from the top that ``repairs``: another program may have drawn on the terminal.
    """

    def __init__(self) -> None:
        self.repairs = False
        """Whether the next such repaint does."""
        self._rows: dict[int, tuple[str, str]] = {}
        """Characters and styles of each line, up to its last known cell."""
        self._codes: dict[str, str] = {}

    def forget(self) -> None:
        """Call this when another program drew on the terminal, or its size changed."""
        self._rows, self._codes = {}, {}

    def sent(self, data: str) -> str:
        """The part of ``data`` that must be written."""
        if data in _SYNCHRONISED:
            return data
        moves = [*_MOVES.finditer(data)]
        rests = bool(moves) and moves[-1].end() == len(data)
        understood = rests and _FRAME.fullmatch(data) and len(self._codes) < _MANY_STYLES
        if not understood:
            self.forget()
            return data
        if self.repairs and _is_repaint(moves):
            self.forget()
            self.repairs = False
        stretches = self._stretches(data, moves)
        changed = [part for stretch in stretches for part in self._take(stretch)]
        return self._drawn(changed) + moves[-1][0]

    def _stretches(self, data: str, moves: list[re.Match[str]]) -> Iterator[_Stretch]:
        """The texts of a frame, line by line."""
        for move, following in pairwise(moves):
            raw = data[move.end() : following.start()]
            runs = _RUNS.findall(raw)
            text = "".join([styled or plain for _, styled, plain in runs])
            if text:
                styles = [
                    self._style_of(style) * len(styled or plain) for style, styled, plain in runs
                ]
                yield _Stretch(int(move[1]), int(move[2]), text, "".join(styles), raw.rstrip("\n"))

    def _style_of(self, style: str) -> str:
        """The character that represents a style; never ``_UNKNOWN``."""
        return self._codes.setdefault(style, chr(len(self._codes) + 1))

    def _take(self, new: _Stretch) -> Iterator[_Stretch]:
        """The changed parts of a stretch; marks them as shown."""
        if not _NARROW.fullmatch(new.text):
            self._rows.pop(new.row, None)  # Terminals differ in the width of these.
            yield new
            return
        start, end = new.column - 1, new.column - 1 + len(new.text)
        text, styles = (cells.ljust(end, _UNKNOWN) for cells in self._rows.get(new.row, ("", "")))
        old_text, old_styles = text[start:end], styles[start:end]
        if old_text == new.text and old_styles == new.styles:
            return
        self._rows[new.row] = (
            text[:start] + new.text + text[end:],
            styles[:start] + new.styles + styles[end:],
        )
        cells = zip(old_text, new.text, old_styles, new.styles, strict=True)
        changed = [index for index, (a, b, c, d) in enumerate(cells) if a != b or c != d]
        for first, last in _joined(changed):
            part = slice(first, last + 1)
            yield _Stretch(new.row, new.column + first, new.text[part], new.styles[part])

    def _drawn(self, stretches: list[_Stretch]) -> str:
        """The sequences that draw the stretches, with as few style changes as possible."""
        styles = {code: style for style, code in self._codes.items()}
        parts: list[str] = []
        now = ""
        for stretch in stretches:
            parts.append(f"\x1b[{stretch.row};{stretch.column}H")
            if stretch.raw:
                parts += ["\x1b[0m", stretch.raw]
                now = ""
                continue
            start = 0
            for code, cells in groupby(stretch.styles):
                if code != now:
                    parts.append(_change_of_style(styles[now] if now else None, styles[code]))
                    now = code
                end = start + len(list(cells))
                parts.append(stretch.text[start:end])
                start = end
        return "".join([*parts, "\x1b[0m"]) if parts else ""


def _change_of_style(old: str | None, new: str) -> str:
    """The sequence after which the terminal draws in another style; it does so in no known one
    where ``old`` is None."""
    before, after = _settings(old or ""), _settings(new)
    changed = {kind: setting for kind, setting in after.items() if before.get(kind) != setting}
    if old is not None and before.keys() <= after.keys() and changed.keys() <= {"38", "48"}:
        return f"\x1b[{';'.join(changed.values())}m"
    return f"\x1b[0;{new}m" if new else "\x1b[0m"


@lru_cache(_MANY_STYLES)
def _settings(style: str) -> Mapping[str, str]:
    return {found[1] or found[0]: found[0] for found in _SETTING.finditer(style)}


def _is_repaint(moves: list[re.Match[str]]) -> bool:
    places = [move.groups() for move in moves[:-1]]
    return len(places) > 1 and places == [(str(row), "1") for row in range(1, len(places) + 1)]


def _joined(indexes: list[int]) -> Iterator[tuple[int, int]]:
    """First and last place of each group of neighboring places."""
    first = last = indexes[0]
    for index in indexes[1:]:
        if index - last > _NEAR:
            yield first, last
            first = index
        last = index
    yield first, last


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
