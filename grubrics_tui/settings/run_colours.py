"""One colour per run, wherever it is drawn."""

from __future__ import annotations

from zlib import crc32

SERIES = tuple(f"series-{number}" for number in range(1, 9))


class RunColours:
    """Gives every run a colour of ``SERIES`` and keeps it, whatever else is shown beside it.

    A run's name decides, so that it mostly has the same colour tomorrow; a colour that another run
    has already is only given again when all are taken.
    """

    def __init__(self) -> None:
        self._given: dict[str, str] = {}

    def of(self, run: str) -> str:
        """The theme's name for the run's colour, such as ``series-3``."""
        if run not in self._given:
            self._given[run] = self._choose(run)
        return self._given[run]

    def forget(self, run: str) -> None:
        """Free the run's colour: it is no longer shown beside others."""
        self._given.pop(run, None)

    def _choose(self, run: str) -> str:
        first = crc32(run.encode(errors="replace")) % len(SERIES)
        wanted = SERIES[first:] + SERIES[:first]
        taken = set(self._given.values())
        return next((colour for colour in wanted if colour not in taken), wanted[0])
