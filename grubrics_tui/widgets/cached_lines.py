"""A mixin that keeps the finished lines of a widget that rarely changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.geometry import Region, Size
from textual.strip import Strip

if TYPE_CHECKING:
    from typing import Self

    from textual.widget import Widget as _Widget
else:
    _Widget = object  # Textual looks for its stylesheet along the first base that is a widget.


class CachedLines(_Widget):
    """Mixin, before the widget's class: keeps the finished lines until the widget is refreshed.

    Whenever one widget changes, Textual asks every widget in the rectangle around all changes for
    its lines, and computes border, padding, background and filters again.
    """

    _finished: tuple[Region, Size, list[Strip]] | None = None

    def render_lines(self, crop: Region) -> list[Strip]:
        if self._finished is None or self._finished[:2] != (crop, self.size):
            self._finished = (crop, self.size, super().render_lines(crop))
        return self._finished[2]

    def refresh(self, *regions: Region, **options: Any) -> Self:
        self._finished = None
        return super().refresh(*regions, **options)
