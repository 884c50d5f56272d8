"""The runs that a person chose to compare."""

from __future__ import annotations

from collections.abc import Iterable

from grubrics_tui.settings.run_colours import SERIES, RunColours


class Marks:
    """Run ids in the order they were chosen, each with a colour that no other one has."""

    def __init__(self) -> None:
        self._colours = RunColours()
        self.ids: list[str] = []

    def __contains__(self, run: str) -> bool:
        return run in self.ids

    def __len__(self) -> int:
        return len(self.ids)

    def toggle(self, run: str) -> bool:
        """Choose a run, or let it go again; False when there is no colour for one more."""
        if run in self.ids:
            self.ids.remove(run)
            self._colours.forget(run)
        elif len(self.ids) == len(SERIES):
            return False
        else:
            self.ids.append(run)
        return True

    def keep(self, known: Iterable[str]) -> None:
        """Let go of runs that are there no more."""
        for run in set(self.ids).difference(known):
            self.toggle(run)

    def clear(self) -> None:
        self.keep(())

    def colour(self, run: str) -> str:
        """The theme's name of the run's colour."""
        return self._colours.of(run)
