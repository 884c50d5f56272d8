"""Numbers of training steps that a console prints: verl's lines, dicts of HF's Trainer and TRL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engine.doctor.text.scanner import Scanner
from engine.watch.foreign.hf_console import HfConsole
from engine.watch.foreign.verl_console import VerlConsole
from engine.watch.train_log import Step

if TYPE_CHECKING:
    from engine.watch.columns import Columns

_DICTS = (b"'loss'", b"'grad_norm'", b"'learning_rate'", b"'reward'", b"'rewards/")
MARKS = (*(b"step:%d" % digit for digit in range(10)), *_DICTS)
"""Only lines with one of these are parsed."""
_VERL = re.compile(rb"step:\d")
_BAR_REACH = 4096
_HELD = 1000
"""Steps held as they are; more are packed into columns."""


class ConsoleSeries:
    """The steps of a console, from the lines that hold them."""

    def __init__(self) -> None:
        self._verl, self._hf = VerlConsole(), HfConsole()
        self._steps: list[Step] = []
        self._packed: Columns | None = None

    @property
    def total_steps(self) -> int | None:
        return self._verl.about().total_steps or self._hf.about().total_steps

    def columns(self) -> Columns | None:
        """Every metric until now; None where no step was printed."""
        if self._steps:
            self._pack()
        return self._packed

    def read(self, raw: bytes, scanner: Scanner) -> None:
        """Parse a line; the last bar above it tells the number of an HF step."""
        if _VERL.search(raw):
            self._steps += self._verl.feed([raw])
        if b"{'" in raw:
            self._steps += self._hf.feed([_last_bar(scanner.before(_BAR_REACH)), raw])
        if len(self._steps) >= _HELD:
            self._pack()

    def _pack(self) -> None:
        # numpy: a log without numbers is read without it.
        from engine.watch.batch import Batch
        from engine.watch.columns import Columns

        self._packed = self._packed or Columns()
        self._packed.merge(Batch.from_steps(self._steps))
        self._steps = []


def _last_bar(before: bytes) -> bytes:
    at = before.rfind(b"%|")
    if at < 0:
        return b""
    start = max(before.rfind(b"\n", 0, at), before.rfind(b"\r", 0, at)) + 1
    end = before.find(b"\n", at)
    return before[start : end if end >= 0 else len(before)]
