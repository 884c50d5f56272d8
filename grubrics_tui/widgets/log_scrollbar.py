"""Beside a log: which part of the file is in sight, and where in it something is."""

from __future__ import annotations

from collections.abc import Mapping

from engine.logs.log_file import Offsets
from grubrics_tui.drawing.spans import Span


def scrollbar(
    size: int,
    seen: tuple[int, int],
    height: int,
    places: Mapping[str, Offsets],
    *,
    ascii_only: bool = False,
) -> list[Span]:
    """One character a line, by bytes of the file. ``places`` are named by their ink; the first
    that lies in a line's part of the file colors it."""
    size, cells = max(1, size), []
    for y in range(height):
        start = y * size // height
        end = max((y + 1) * size // height, start + 1)
        is_seen = seen[0] < end and seen[1] > start
        here = [ink for ink, offsets in places.items() if offsets.any_in(start, end)]
        ink = here[0] if here else "line-focus" if is_seen else "line"
        thick, thin = ("#", "|") if ascii_only else ("┃", "│")
        cells.append(Span(thick if is_seen else thin, ink))
    return cells
