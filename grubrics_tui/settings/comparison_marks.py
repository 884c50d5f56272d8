"""The runs selected for a comparison, and the color of each run in all drawings."""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

SERIES = tuple(f"series-{number}" for number in range(1, 9))


MOST_MARKS = 64


class RunColors:
    """Assigns each run a color of ``SERIES``, which stays the same as other runs come and go.

    It is derived from the run's ID, so that a run mostly has the same color tomorrow. Two runs
    share a color only when all are taken.
    """

    def __init__(self) -> None:
        self._given: dict[str, str] = {}

    def of(self, run: str) -> str:
        """Return the theme's name of the run's color, such as ``series-3``."""
        if run not in self._given:
            first = crc32(run.encode(errors="replace")) % len(SERIES)
            preferred = SERIES[first:] + SERIES[:first]
            taken = set(self._given.values())
            free = (color for color in preferred if color not in taken)
            self._given[run] = next(free, preferred[0])
        return self._given[run]

    def forget(self, run: str) -> None:
        """Free the color of a run that is no longer shown."""
        self._given.pop(run, None)


class ComparisonMarks:
    """The runs selected in the list, in order. The first eight have a color of their own."""

    def __init__(self) -> None:
        self._colors = RunColors()
        self.ids: list[str] = []

    def __contains__(self, run: str) -> bool:
        return run in self.ids

    def __len__(self) -> int:
        return len(self.ids)

    def toggle(self, run: str) -> bool:
        """Select or deselect a run; False if as many as can be compared are selected."""
        if run in self.ids:
            self.ids.remove(run)
            self._colors.forget(run)
        elif len(self.ids) == MOST_MARKS:
            return False
        else:
            self.ids.append(run)
        return True

    def keep(self, existing: Iterable[str]) -> None:
        """Deselect runs that no longer exist."""
        for run in set(self.ids).difference(existing):
            self.toggle(run)

    def clear(self) -> None:
        self.keep(())

    def color(self, run: str) -> str:
        """Return the theme's name of the run's color."""
        return self._colors.of(run)
