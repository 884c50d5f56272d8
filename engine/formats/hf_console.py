"""What HF's Trainer and TRL print: a dict per logging step, whose values may be strings.

The dicts name no step. A progress bar in the same log tells it; without one they are counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from engine.formats.hf_names import HfNames
from engine.formats.layout import NUMBER, Layout
from engine.formats.numbering import Numbering
from engine.formats.source import LONGEST_LINE, About, Sample
from engine.history.train_log import Step

_DICT = re.compile(rb"\{'[^{}]{1,20000}\}")
_PAIR = re.compile(rb"'([^'{}]{1,200})': (?:'([^'{}]{0,100})'|([^',{}]{1,100}))")
# The Trainer's own bar has no words in front of it, unlike those that load or map something.
_BAR = re.compile(rb"(?:^|[\r\n]|\x1b\[A) *\d{1,3}%\|[^|\r\n]{0,200}\| *(\d{1,12})/(\d{1,12}) \[")
MARKS = frozenset({"loss", "eval_loss", "learning_rate", "grad_norm", "train_runtime"})
_SUMMARIES = ("train_runtime", "eval_runtime", "eval_loss")
_COUNTED = frozenset({"loss", "learning_rate", "grad_norm"})
_ODD = frozenset({*_SUMMARIES, "step", "global_step"})
_ENTRY = re.compile(rb"(?P<before>'[^'{}]{1,200}': (?P<quote>'?))" + NUMBER + rb"(?P=quote)")


class HfConsole:
    """``Parser`` of such a console."""

    def __init__(self) -> None:
        self._names = HfNames()
        self._numbering = Numbering()
        self._step = 0
        self._bar: int | None = None
        self._about = About()

    def feed(self, lines: list[bytes]) -> list[Step]:
        return [step for line in lines for step in self._line(line[-LONGEST_LINE:])]

    def about(self) -> About:
        return self._about

    def names(self, keys: Iterable[str]) -> tuple[str, ...]:
        """Canonical names of a dict's keys, as they are from that dict on."""
        return tuple(self._names.metrics((key, 0.0) for key in keys))

    def next_steps(self, count: int) -> range:
        """Count dicts that name no step and were read by their layout, with no bar between."""
        first = self._following()
        if count:
            self._step = first + count - 1
        return range(first, first + count)

    @property
    def is_rewarded(self) -> bool:
        return self._names.is_rewarded

    def _line(self, line: bytes) -> list[Step]:
        found, place = [], 0
        if b"{'" in line:
            for match in _DICT.finditer(line):
                self.look_at_bars(line[place : match.start()])
                place = match.end()
                if (step := self._entry(_pairs(match[0]))) is not None:
                    found.append(step)
        self.look_at_bars(line[place:])
        return found

    def _entry(self, pairs: dict[str, str]) -> Step | None:
        if not MARKS & pairs.keys():
            return None
        if not any(name in pairs for name in _SUMMARIES):
            self._step = self._next(pairs)
        values = self._names.metrics(pairs.items())
        values.pop("step", None)
        return self._numbering.step(self._step, values) if values else None

    def _next(self, pairs: dict[str, str]) -> int:
        said = pairs.get("step") or pairs.get("global_step") or ""
        if said.isdecimal() and len(said) <= 15:
            return int(said)
        return self._following()

    def _following(self) -> int:
        # A bar is drawn ten times a second at most: it may be behind, never ahead.
        return max(self._step + 1, self._bar or 0)

    def look_at_bars(self, text: bytes) -> None:
        """Learn from the Trainer's bars how many steps there are and which one is under way."""
        if b"%|" not in text:
            return
        for match in _BAR.finditer(text):
            at, total = int(match[1]), int(match[2])
            if self._about.total_steps is None:
                self._about = replace(self._about, total_steps=total)
            if total == self._about.total_steps:
                self._bar = at


def is_it(sample: Sample) -> bool:
    return any(
        MARKS & _pairs(match[0]).keys()
        for line in sample.lines()
        if b"{'" in line
        for match in _DICT.finditer(line)
    )


def layout_of(line: bytes) -> Layout | None:
    """The layout of a line's last dict; None unless that holds the numbers of a step."""
    text = next((match[0] for match in reversed([*_DICT.finditer(line)])), b"")
    entries = [_ENTRY.fullmatch(entry) for entry in text[1:-1].split(b", ")]
    keys = tuple(_pairs(text))
    distinct = len(HfNames().metrics((key, 0.0) for key in keys)) == len(entries)
    if None in entries or not distinct or not _COUNTED & {*keys} or _ODD & {*keys}:
        return None
    written = (re.escape(one["before"]) + NUMBER + one["quote"] for one in entries if one)
    return Layout(keys, re.compile(rb"\{" + b", ".join(written) + rb"\}"))


def _pairs(text: bytes) -> dict[str, str]:
    """``{'loss': '0.5', 'epoch': 1.0}`` as names and texts of values; NaN may stand bare."""
    return {
        match[1].decode("utf-8", errors="replace"): _text(match).decode("utf-8", errors="replace")
        for match in _PAIR.finditer(text)
    }


def _text(match: re.Match[bytes]) -> bytes:
    return next((group for group in match.groups()[1:] if group is not None), b"")
