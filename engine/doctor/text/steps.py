"""Steps in blocks of a console's lines: most lines by their layout, the odd ones one by one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from engine.doctor.text.scanner import line_end, line_start
from engine.formats import hf_console, verl_console
from engine.formats.layout import Layout, Rows, only
from engine.formats.names import with_scores
from engine.history.batch import Batch, Floats
from engine.history.train_log import Step

_FIRST_PART = 16 * 1024
_BAR_REACH = 4096
_STEP, _DICT, _BAR = re.compile(rb"step:\d"), re.compile(rb"\{'"), b"%|"
_MARKS = tuple(f"'{mark}'".encode() for mark in hf_console.MARKS)


class StepReader:
    """Follows the layout of lines. While few lines have it, a block is read in parts, which grow:
    to learn a layout takes as long as to read a few hundred lines by it."""

    def __init__(self, layout_of: Callable[[bytes], Layout | None]) -> None:
        self._layout_of = layout_of
        self._layout: Layout | None = None
        self._fits, self._part = False, _FIRST_PART
        self._attempt, self._last = 1.0, -1.0

    def read(self, block: bytes) -> Iterator[Batch]:
        """The steps of a block of whole lines."""
        at = 0
        while at < len(block):
            end = len(block) if self._fits else line_end(block, at + self._part)
            odd, rows = self._parse(block[at:end])
            self._learn(odd, 0 if rows is None else len(rows))
            if (batch := odd.woven(rows)) is not None:
                yield self._with_attempts(batch)
            at = end

    def _parse(self, block: bytes) -> tuple[_Odd, Batch | None]:
        """The steps of odd lines, and those of the lines that have the layout."""
        raise NotImplementedError

    def _rows(self, block: bytes) -> Rows:
        return (self._layout and self._layout.rows(block)) or only(block)

    def _learn(self, odd: _Odd, rows: int) -> None:
        if len(odd.steps) > rows:
            self._layout = self._layout_of(odd.line) or self._layout
            self._fits, self._part = False, 2 * self._part
        elif rows:
            self._fits = True

    def _with_attempts(self, batch: Batch) -> Batch:
        """A step below the one before it begins a new attempt."""
        falls = np.diff(batch.steps, prepend=self._last) < 0
        attempts: Floats = self._attempt + np.cumsum(falls, dtype=np.float64)
        self._attempt, self._last = float(attempts[-1]), float(batch.steps[-1])
        return replace(batch, attempts=attempts)


class VerlSteps(StepReader):
    """What ``VerlConsole`` finds in a console."""

    def __init__(self) -> None:
        super().__init__(verl_console.layout_of)
        self._parser = verl_console.VerlConsole()

    @property
    def total_steps(self) -> int | None:
        return self._parser.about().total_steps

    def _parse(self, block: bytes) -> tuple[_Odd, Batch | None]:
        rows = self._rows(block)
        before = (gap for gap in rows.gaps[:-1] if len(gap) > 1)
        if any(_STEP.search(gap, line_start(gap, len(gap))) for gap in before):
            rows = only(block)  # Of two steps in a line the first counts.
        odd = _Odd()
        for place, gap in enumerate(rows.gaps):
            if len(gap) > 1:
                self._read_gap(place, gap, odd)
        if self._layout is None or not len(rows.values):
            return odd, None
        columns = with_scores(_by_name(self._layout.names, rows.values[:, 1:]))
        return odd, _batch(rows.values[:, 0], columns)

    def _read_gap(self, place: int, text: bytes, odd: _Odd) -> None:
        for start, end in _lines_with(text, _STEP):
            odd.add(place, self._parser.feed([text[start:end]]), text[start:end])


class HfSteps(StepReader):
    """What ``HfConsole`` finds in a console; the last bar above a dict tells its step."""

    def __init__(self) -> None:
        super().__init__(hf_console.layout_of)
        self._parser = hf_console.HfConsole()
        self._above = b""
        """The end of the text since the last dict."""

    @property
    def total_steps(self) -> int | None:
        return self._parser.about().total_steps

    def _parse(self, block: bytes) -> tuple[_Odd, Batch | None]:
        names = self._parser.names(self._layout.names if self._layout else ())
        # From the first reward on the same dicts have other names.
        changes = not self._parser.is_rewarded and b"reward'" in block
        rows = only(block) if changes else self._rows(block)
        odd, steps = _Odd(), list[int]()
        for place, gap in enumerate(rows.gaps):
            if len(gap) > 1:
                steps += self._count(place - len(steps))
                self._read_gap(place, gap, odd)
        steps += self._count(len(rows.values) - len(steps))
        if not steps:
            return odd, None
        return odd, _batch(np.array(steps, float), _by_name(names, rows.values))

    def _count(self, rows: int) -> range:
        """The steps of rows with nothing between them."""
        if rows and self._above:
            self._look_above()
        return self._parser.next_steps(rows)

    def _read_gap(self, place: int, text: bytes, odd: _Odd) -> None:
        at = 0
        for start, end in _lines_with(text, _DICT):
            line = text[start:end]
            if any(mark in line for mark in _MARKS):
                above = (self._above + text[at:start])[-_BAR_REACH:]
                odd.add(place, self._parser.feed([_last_bar(above), line]), line)
                self._above, at = b"", end
        self._above = (self._above + text[at:])[-_BAR_REACH:]

    def _look_above(self) -> None:
        if _BAR in self._above:
            line = line_start(self._above, len(self._above))
            self._parser.look_at_bars(_last_bar(self._above[:line]))
            self._parser.look_at_bars(self._above[line:])
        self._above = b""


class _Odd:
    """Steps that were read one by one, and after how many rows each came; the last one's line."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.line = b""
        self._places: list[int] = []

    def add(self, place: int, steps: list[Step], line: bytes) -> None:
        for step in steps:
            self._places.append(place + len(self.steps))
            self.steps.append(step)
            self.line = line

    def woven(self, rows: Batch | None) -> Batch | None:
        """With the steps that were read in rows, in the order of their lines."""
        if not self.steps:
            return rows
        odd = Batch.from_steps(self.steps)
        if rows is None:
            return odd
        places = np.array(self._places)
        others = np.delete(np.arange(len(odd) + len(rows)), places)
        return Batch.woven([(others, rows), (places, odd)])


def _by_name(names: tuple[str, ...], values: Floats) -> dict[str, Floats]:
    return dict(zip(names, values.T, strict=True))


def _batch(steps: Floats, columns: Mapping[str, Floats]) -> Batch:
    every = np.arange(steps.size)
    table = {name: (every, values) for name, values in columns.items()}
    return Batch(steps, np.ones(steps.size), np.zeros(steps.size), table)


def _lines_with(text: bytes, mark: re.Pattern[bytes]) -> Iterator[tuple[int, int]]:
    """Where each line that holds ``mark`` begins and ends."""
    found = mark.search(text)
    while found:
        end = line_end(text, found.start())
        yield line_start(text, found.start()), end
        found = mark.search(text, end)


def _last_bar(before: bytes) -> bytes:
    at = before.rfind(_BAR)
    return before[line_start(before, at) : line_end(before, at)] if at >= 0 else b""
