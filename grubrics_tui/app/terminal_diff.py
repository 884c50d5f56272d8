"""What a terminal shows already, so that it need not be sent again.

Textual repaints a widget from its left edge whenever a cell of a line has changed. Over SSH that is
most of what a quiet screen sends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise

_MOVE = r"\x1b\[([1-9]\d{0,3});([1-9]\d{0,3})H"
_TEXT = "[^\x00-\x1f\x7f-\x9f]"
_STYLED = rf"\x1b\[([\d;]*)m({_TEXT}*+)\x1b\[0m|({_TEXT}++)"
_MOVES, _RUNS = re.compile(_MOVE), re.compile(_STYLED)
_FRAME = re.compile(rf"(?:{_MOVE}(?:{_STYLED})*+\n?)++")
"""Textual draws with stretches of text, each behind a move of the cursor, and a last move."""

# Characters that take one cell in every terminal.
_NARROW = re.compile(
    "[ -~\u00a1-\u00ac\u00ae-\u017f\u2010-\u2027\u2030-\u203a\u2190-\u2193\u2200-\u22ff"
    "\u2500-\u25a9\u25ac-\u25b5\u25b7-\u25bf\u25c1-\u25fa\u2713\u2717\u2800-\u28ff]*"
)
_SYNCHRONISED = frozenset({"\x1b[?2026h", "\x1b[?2026l"})
_NEAR = 8
"""Cells between two changes that cost less than another move of the cursor."""
_MANY_STYLES = 50_000
_UNKNOWN = "\0"


@dataclass(frozen=True)
class _Stretch:
    """Text from a cell on; ``looks`` has one character for the style of each of its cells.

    ``raw`` is how it was written, where it has to be written so again.
    """

    row: int
    column: int
    text: str
    looks: str
    raw: str = ""


class Shown:
    """The cells of a terminal, as far as they are known from what was written to it.

    After ``sent`` the terminal shows what it would show after the data themselves. Whatever is not
    a frame as Textual draws it goes through as it is, and nothing is known then; so does a frame
    of whole lines from the top: a repaint repairs what something else has drawn.
    """

    def __init__(self) -> None:
        self._rows: dict[int, tuple[str, str]] = {}
        """Characters and looks of each line, from its first cell to the last one known."""
        self._looks: dict[str, str] = {}

    def forget(self) -> None:
        """Something else drew on the terminal, or its size changed."""
        self._rows, self._looks = {}, {}

    def sent(self, data: str) -> str:
        """What of ``data`` has to be written."""
        if data in _SYNCHRONISED:
            return data
        moves = [*_MOVES.finditer(data)]
        rests = bool(moves) and moves[-1].end() == len(data)
        understood = rests and _FRAME.fullmatch(data) and len(self._looks) < _MANY_STYLES
        if not understood or _is_repaint(moves):
            self.forget()
            return data
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
                looks = [self._look(style) * len(styled or plain) for style, styled, plain in runs]
                yield _Stretch(int(move[1]), int(move[2]), text, "".join(looks), raw.rstrip("\n"))

    def _look(self, style: str) -> str:
        """A character for a style, other than that of an unknown cell."""
        return self._looks.setdefault(style, chr(len(self._looks) + 1))

    def _take(self, new: _Stretch) -> Iterator[_Stretch]:
        """The parts of a stretch that are not on the screen; now they are."""
        if not _NARROW.fullmatch(new.text):
            self._rows.pop(new.row, None)  # Where its characters stand, the terminal knows.
            yield new
            return
        start, end = new.column - 1, new.column - 1 + len(new.text)
        text, looks = (known.ljust(end, _UNKNOWN) for known in self._rows.get(new.row, ("", "")))
        was_text, was_looks = text[start:end], looks[start:end]
        if was_text == new.text and was_looks == new.looks:
            return
        self._rows[new.row] = (
            text[:start] + new.text + text[end:],
            looks[:start] + new.looks + looks[end:],
        )
        cells = zip(was_text, new.text, was_looks, new.looks, strict=True)
        changed = [place for place, (a, b, c, d) in enumerate(cells) if a != b or c != d]
        for first, last in _joined(changed):
            part = slice(first, last + 1)
            yield _Stretch(new.row, new.column + first, new.text[part], new.looks[part])

    def _drawn(self, stretches: list[_Stretch]) -> str:
        """The sequences that draw them, with as few changes of style as there are."""
        styles = {look: style for style, look in self._looks.items()}
        parts: list[str] = []
        now = ""
        for stretch in stretches:
            parts.append(f"\x1b[{stretch.row};{stretch.column}H")
            if stretch.raw:
                parts += ["\x1b[0m", stretch.raw]
                now = ""
                continue
            place = 0
            for look, cells in groupby(stretch.looks):
                if look != now:
                    parts.append(f"\x1b[0;{styles[look]}m" if styles[look] else "\x1b[0m")
                    now = look
                end = place + len(list(cells))
                parts.append(stretch.text[place:end])
                place = end
        return "".join([*parts, "\x1b[0m"]) if parts else ""


def _is_repaint(moves: list[re.Match[str]]) -> bool:
    places = [move.groups() for move in moves[:-1]]
    return len(places) > 1 and places == [(str(row), "1") for row in range(1, len(places) + 1)]


def _joined(places: list[int]) -> Iterator[tuple[int, int]]:
    """First and last of the groups of places that lie near each other."""
    first = last = places[0]
    for place in places[1:]:
        if place - last > _NEAR:
            yield first, last
            first = place
        last = place
    yield first, last
