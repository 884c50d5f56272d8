"""torchtune's progress bar: ``1|25|Loss: 0.83:  10%|# | 25/250 [...]``, epoch, step and loss.

The numbers that its loggers write are lines of ``Step 25 | loss:0.83 lr:2e-05``: see ``pairs``.
"""

from __future__ import annotations

import re
from pathlib import Path

from engine.formats.format import LineFormat, Parser, Sample
from engine.formats.names import NUMBER, Numbering, bounded
from engine.history import metrics
from engine.history.train_log import Step

_BAR = re.compile(rb"(?:^|\s)\d{1,9}\|(\d{1,15})\|Loss: (" + NUMBER + rb"): ")


class TorchtuneFormat(LineFormat):
    key, name = "torchtune", "progress bar of torchtune"
    trainers = ("torchtune",)
    reads = "`1|25|Loss: 0.83: ...`: step and loss"
    is_console, has_bars = True, True
    marks = (rb"\|Loss: ",)
    step_pattern = rb"\|(\d+)\|Loss: "

    def matches(self, sample: Sample) -> bool:
        return any(_BAR.search(line) for line in sample.lines() if b"|Loss: " in line)

    def parser(self, path: Path) -> Parser:
        return Torchtune()


class Torchtune(Parser):
    """A bar is drawn several times for a step; the first time counts."""

    def __init__(self) -> None:
        self._numbering = Numbering()
        self._last: tuple[bytes, bytes] | None = None

    def feed(self, lines: list[bytes]) -> list[Step]:
        steps = []
        for line in lines:
            for match in _BAR.finditer(line):
                if (match[1], match[2]) != self._last:
                    self._last = match[1], match[2]
                    values = {metrics.TRAIN_LOSS: bounded(float(match[2]))}
                    steps.append(self._numbering.step(int(match[1]), values))
        return steps
