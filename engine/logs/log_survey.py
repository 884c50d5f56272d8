"""The contents of a log: its lines by number, its steps, its errors, its sources."""

from __future__ import annotations

from array import array
from collections import Counter
from itertools import accumulate
from typing import Any

from engine.logs.log_file import BLOCK, LogFile, Offsets


class Survey:
    """Filled piece by piece, in any order. Line numbers are known once all pieces were read."""

    def __init__(self) -> None:
        self.errors = Offsets()
        self.steps = Offsets()
        """Where the lines begin that log a step's metrics."""
        self.sources: Counter[str] = Counter()
        """Lines of each Ray actor, and of the driver."""
        self.complete = False
        self.given_up = False
        """The scanning process ended early: the survey may be incomplete."""
        self.read = 0
        self._numbers = array("q")
        """The steps of ``steps``."""
        self._newlines: list[int] = []
        self._before: list[int] | None = None

    def add(self, piece: dict[str, Any]) -> None:
        """A piece of ``log_scan.scan`` or ``log_scan.follow``."""
        if "from" in piece:
            self._add(piece, piece["from"], piece["to"])
        if "done" in piece:
            self.complete = True
        if "given_up" in piece:
            self.given_up = True

    def _add(self, piece: dict[str, Any], start: int, end: int) -> None:
        for block, count in piece["newlines"].items():
            self._count(int(block), count)
        self.errors.replace(start, end, piece["errors"])
        replaced = self.steps.replace(start, end, [offset for _, offset in piece["steps"]])
        self._numbers[replaced] = array("q", [step for step, _ in piece["steps"]])
        self.sources.update(piece["sources"])
        self.read += end - start

    def _count(self, block: int, newlines: int) -> None:
        self._newlines.extend([0] * (block + 1 - len(self._newlines)))
        self._newlines[block] = newlines
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
        count = self.steps.count_before(offset + 1)
        return self._numbers[count - 1] if count else None

    def offset_of_step(self, step: int) -> int | None:
        """Where the line of a step begins; of a repeated step, the latest one."""
        logged = zip(self.steps, self._numbers, strict=True)
        return max((offset for offset, number in logged if number == step), default=None)

    def _newlines_before(self) -> list[int]:
        if self._before is None:
            self._before = list(accumulate(self._newlines, initial=0))
        return self._before
