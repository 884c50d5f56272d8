"""Reads an attempt's ``reward.jsonl`` as it grows, in bounded memory."""

from __future__ import annotations

from itertools import islice
from typing import Any

import orjson

from engine.base import jsonl
from engine.base.growing import GrowingRecords
from engine.doctor.rewards.rollout_record import read
from engine.doctor.rewards.step_counts import Tally

_KEPT_STEPS = 2000
_OPEN_STEPS = 2
"""Workers append side by side: a step is still written to while the next one begins."""
_NO_STEP = 0


class RewardTallies(GrowingRecords):
    """Counts by step."""

    def _forget(self) -> None:
        self._steps: dict[int, Tally] = {}

    def steps(self) -> list[Tally]:
        """The tallies of the newest steps, oldest first; validation before step 1 is step 0."""
        return [self._steps[number] for number in sorted(self._steps)]

    def _add(self, line: bytes, offset: int) -> None:
        record = _parse(line)
        if record is None:
            return
        one = read(record, offset)
        number = _NO_STEP if one.step is None else one.step
        tally = self._steps.get(number)
        if tally is None:
            tally = self._steps[number] = Tally(number)
            self._settle(number)
        tally.add(one)

    def _settle(self, newest: int) -> None:
        """Steps that are over keep their counts alone; very old ones nothing at all."""
        for number in list(islice(reversed(self._steps), 2 * _OPEN_STEPS + 2)):
            if number < newest - _OPEN_STEPS:
                self._steps[number].close()
        while len(self._steps) > _KEPT_STEPS:
            del self._steps[next(iter(self._steps))]


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        return jsonl.parse_line(line)  # It takes NaN, a BOM and half surrogates too.
    return record if isinstance(record, dict) else None
