"""What a whole log holds: its lines by number, its steps, its errors, who wrote it."""

from __future__ import annotations

from array import array
from collections import Counter
from itertools import accumulate
from typing import Any

from engine.logs.log_file import BLOCK, LogFile, Offsets


class Survey:
    """Filled piece by piece, in any order; line numbers are known once all of it was read."""

    def __init__(self) -> None:
        self.errors = Offsets()
        self.steps = Offsets()
        """Where the lines begin that log a step's metrics."""
        self.sources: Counter[str] = Counter()
        """Lines of each Ray actor, and of the driver."""
        self.complete = False
        self.given_up = False
        """The scanning process ended early: what is known may be a part."""
        self.read = 0
        self._numbers = array("q")
        """The steps of ``steps``."""
        self._newlines: list[int] = []
        self._before: list[int] | None = None

    def add(self, found: dict[str, Any]) -> None:
        """A piece of ``log_scan.scan`` or ``log_scan.follow``."""
        if "from" in found:
            self._add(found, found["from"], found["to"])
        if "done" in found:
            self.complete = True
        if "given_up" in found:
            self.given_up = True

    def _add(self, found: dict[str, Any], start: int, end: int) -> None:
        for block, count in found["newlines"].items():
            self._count(int(block), count)
        self.errors.replace(start, end, found["errors"])
        replaced = self.steps.replace(start, end, [place for _, place in found["steps"]])
        self._numbers[replaced] = array("q", [step for step, _ in found["steps"]])
        self.sources.update(found["sources"])
        self.read += end - start

    def _count(self, block: int, newlines: int) -> None:
        here = self._newlines
        here.extend([0] * (block + 1 - len(here)))
        here[block] = newlines
        self._before = None

    def line_number(self, file: LogFile, offset: int) -> int | None:
        """The number of the line that begins at ``offset``, from 1; None before it is known."""
        block, inside = divmod(offset, BLOCK)
        before = self._newlines_before()
        if not self.complete or block >= len(before):
            return None
        return before[block] + file.block(block).count(b"\n", 0, inside) + 1

    def line_count(self) -> int | None:
        """Whole lines in the file; None before it is known."""
        return self._newlines_before()[-1] if self.complete else None

    def offset_of_line(self, file: LogFile, number: int) -> int | None:
        """Where the line of that number begins, the last one for a number beyond it."""
        if not self.complete:
            return None
        before = self._newlines_before()
        wanted = max(0, min(number - 1, before[-1]))
        block = max(0, next((n for n, count in enumerate(before) if count >= wanted), 1) - 1)
        offset = block * BLOCK
        if wanted == 0:
            return 0
        for _ in range(wanted - before[block]):
            offset = file.block(block).index(b"\n", offset - block * BLOCK) + block * BLOCK + 1
        return offset

    def step_at(self, offset: int) -> int | None:
        """The last step logged at or before ``offset``."""
        place = self.steps.count_before(offset + 1)
        return self._numbers[place - 1] if place else None

    def offset_of_step(self, step: int) -> int | None:
        """Where the line of a step begins; of a step logged again, the latest."""
        offsets = (
            place for place, number in zip(self.steps, self._numbers, strict=True) if number == step
        )
        return max(offsets, default=None)

    def _newlines_before(self) -> list[int]:
        if self._before is None:
            self._before = list(accumulate(self._newlines, initial=0))
        return self._before
