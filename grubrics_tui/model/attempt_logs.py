"""The console logs of the attempts of a run, and which one is shown."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from engine.runs.rundir import RunDir


@dataclass(frozen=True)
class AttemptLogs:
    """``numbers`` are the attempts that were known at the last look."""

    run: RunDir
    number: int
    numbers: tuple[int, ...]

    @classmethod
    def around(cls, path: Path) -> AttemptLogs | None:
        """None for a log that is not the console log of an attempt."""
        run = RunDir(path.absolute().parent.parent)
        numbers = tuple(attempt.number for attempt in run.attempts())
        here = [number for number in numbers if run.attempt(number).console == path.absolute()]
        return cls(run, here[0], numbers) if here else None

    @property
    def console(self) -> Path:
        return self.run.attempt(self.number).console

    @property
    def are_several(self) -> bool:
        return len(self.numbers) > 1

    @property
    def label(self) -> str:
        return f"attempt {self.number} of {self.numbers[-1]}" if self.are_several else ""

    def beside(self, by: int) -> AttemptLogs:
        """An earlier or later attempt, including those started meanwhile; stops at the ends."""
        numbers = tuple(attempt.number for attempt in self.run.attempts())
        if self.number not in numbers:
            return self
        at = max(0, min(numbers.index(self.number) + by, len(numbers) - 1))
        return replace(self, number=numbers[at], numbers=numbers)
