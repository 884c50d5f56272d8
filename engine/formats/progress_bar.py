"""verl's progress bars, which tqdm draws: how far a run is, and how long the rest will take.

``Training Progress:  10%|#  | 1000/10000 [05:23<48:27,  3.10it/s]`` of GRPO counts the steps of the
run, ``Epoch 2/4:  12%|#  | 5/42 [00:31<03:52,  6.28s/it]`` of SFT those of an epoch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.history import metrics
from engine.history.train_log import Metrics

_BAR = re.compile(
    rb"(?:Training Progress|Epoch (\d{1,9})/(\d{1,9})): *\d{1,3}%\|[^|\r\n]{0,200}\|"
    rb" *(\d{1,12})/(\d{1,12}) \[((?:\d{1,6}:)?\d\d:\d\d)<((?:\d{1,6}:)?\d\d:\d\d), *"
    rb"(\d{1,12}(?:\.\d{1,12})?)(it/s|s/it)"
)
_HEADING = re.compile(rb"Training Progress: *\d{1,3}%\|")


@dataclass(frozen=True)
class ProgressBar:
    """The counts are in steps of the whole run; of SFT, of all its epochs, although
    ``training.max_steps`` may end it within one. ``elapsed_s`` is what tqdm shows: of SFT, the
    seconds of the epoch."""

    step: int
    total_steps: int
    elapsed_s: int
    remaining_s: float
    steps_per_s: float

    def metrics(self) -> Metrics:
        return {
            metrics.PROGRESS_PERCENT: 100 * self.step / self.total_steps,
            metrics.PROGRESS_TOTAL: self.total_steps,
            metrics.PROGRESS_ELAPSED: self.elapsed_s,
            metrics.PROGRESS_REMAINING: self.remaining_s,
            metrics.PROGRESS_RATE: self.steps_per_s,
        }


def find_progress_bar(line: bytes) -> ProgressBar | None:
    """Return the last bar of a line that has done a step and knows its rate."""
    found = None
    for match in _BAR.finditer(line):
        found = _read(match) or found
    return found


def has_progress_bar(line: bytes) -> bool:
    """Whether a line has a bar of GRPO. Other programs, too, count in ``Epoch 1/10``."""
    return _HEADING.search(line) is not None and find_progress_bar(line) is not None


def _read(match: re.Match[bytes]) -> ProgressBar | None:
    epoch, epochs, done, total = (int(match[group] or 1) for group in range(1, 5))
    rate = float(match[7])
    if not (0 < done <= total and epoch <= epochs and rate > 0):
        return None
    steps_per_s = rate if match[8] == b"it/s" else 1 / rate
    return ProgressBar(
        step=(epoch - 1) * total + done,
        total_steps=epochs * total,
        elapsed_s=_seconds(match[5]),
        remaining_s=_seconds(match[6]) + (epochs - epoch) * total / steps_per_s,
        steps_per_s=steps_per_s,
    )


def _seconds(clock: bytes) -> int:
    """``48:27`` or ``1:02:03``."""
    seconds = 0
    for part in clock.split(b":"):
        seconds = 60 * seconds + int(part)
    return seconds
