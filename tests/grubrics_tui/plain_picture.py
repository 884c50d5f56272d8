"""A drawing as text, to compare it in tests."""

from __future__ import annotations

from collections.abc import Iterable

from grubrics_tui.drawing.spans import Row


def plain(rows: Iterable[Row]) -> str:
    """The picture without its colors."""
    return "\n".join("".join(span.text for span in row).rstrip() for row in rows)
