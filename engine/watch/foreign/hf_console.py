"""What HF's Trainer and TRL print: a dict per logging step, whose values may be strings.

The dicts name no step. A progress bar in the same log tells it; without one they are counted.
"""

from __future__ import annotations

import re
from dataclasses import replace

from engine.watch.foreign.hf_names import HfNames
from engine.watch.foreign.numbering import Numbering
from engine.watch.foreign.source import LONGEST_LINE, About, Sample
from engine.watch.train_log import Step

_DICT = re.compile(rb"\{'[^{}]{1,20000}\}")
_PAIR = re.compile(rb"'([^'{}]{1,200})': (?:'([^'{}]{0,100})'|([^',{}]{1,100}))")
# The Trainer's own bar has no words in front of it, unlike those that load or map something.
_BAR = re.compile(rb"(?:^|[\r\n]|\x1b\[A) *\d{1,3}%\|[^|\r\n]{0,200}\| *(\d{1,12})/(\d{1,12}) \[")
_MARKS = frozenset({"loss", "eval_loss", "learning_rate", "grad_norm", "train_runtime"})
_SUMMARIES = ("train_runtime", "eval_runtime", "eval_loss")


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

    def _line(self, line: bytes) -> list[Step]:
        found, place = [], 0
        if b"{'" in line:
            for match in _DICT.finditer(line):
                self._look_at_bars(line[place : match.start()])
                place = match.end()
                if (step := self._entry(_pairs(match[0]))) is not None:
                    found.append(step)
        self._look_at_bars(line[place:])
        return found

    def _entry(self, pairs: dict[str, str]) -> Step | None:
        if not _MARKS & pairs.keys():
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
        following = self._step + 1
        # A bar is drawn ten times a second at most: it may be behind, never ahead.
        return max(following, self._bar or 0)

    def _look_at_bars(self, text: bytes) -> None:
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
        _MARKS & _pairs(match[0]).keys()
        for line in sample.lines()
        if b"{'" in line
        for match in _DICT.finditer(line)
    )


def _pairs(text: bytes) -> dict[str, str]:
    """``{'loss': '0.5', 'epoch': 1.0}`` as names and texts of values; NaN may stand bare."""
    return {
        match[1].decode("utf-8", errors="replace"): _text(match).decode("utf-8", errors="replace")
        for match in _PAIR.finditer(text)
    }


def _text(match: re.Match[bytes]) -> bytes:
    return next((group for group in match.groups()[1:] if group is not None), b"")
