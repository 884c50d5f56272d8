"""Stacked columns of a run's step times."""

from __future__ import annotations

from collections.abc import Sequence

from grubrics_tui.drawing.spans import Row
from grubrics_tui.drawing.stacked import Part, Stack, render
from grubrics_tui.widgets.drawn import Drawn


class StackedBar(Drawn):
    """Shows one column per step, or per few steps when there are more than columns."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._parts: Sequence[Part] = ()
        self._stacks: Sequence[Stack] = ()

    def show(self, parts: Sequence[Part], stacks: Sequence[Stack], hint: str = "") -> None:
        if stacks == self._stacks and parts == self._parts and hint == self._hint:
            return
        self._parts, self._stacks = parts, stacks
        self.redraw(hint)

    def draw(self, width: int, height: int) -> list[Row]:
        return render(self._stacks, self._parts, width, height, letters=self.colourless)
