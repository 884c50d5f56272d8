"""Widgets that mostly stand still beside others that change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.geometry import Region, Size
from textual.strip import Strip

if TYPE_CHECKING:
    from typing import Self

    from textual.widget import Widget as _Widget
else:
    _Widget = object  # Textual looks for its stylesheet along the first base that is a widget.


class Still(_Widget):
    """Mixin, before the widget's class: its finished lines are kept until it is refreshed.

    Whenever one widget changes, Textual asks every widget in the rectangle around all changes for
    its lines, and puts them together anew: border, padding, background, filters.
    """

    _finished: tuple[Region, Size, list[Strip]] | None = None

    def render_lines(self, crop: Region) -> list[Strip]:
        if self._finished is None or self._finished[:2] != (crop, self.size):
            self._finished = (crop, self.size, super().render_lines(crop))
        return self._finished[2]

    def refresh(self, *regions: Region, **options: Any) -> Self:
        self._finished = None
        return super().refresh(*regions, **options)
