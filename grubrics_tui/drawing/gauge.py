"""A horizontal bar that is full at one."""

from __future__ import annotations

from grubrics_tui.drawing.spans import Row, Span


def bar(share: float, width: int, ink: str, *, ascii_only: bool = False) -> Row:
    """``share`` (0 ... 1) of ``width`` cells, to half a cell, on a quiet track."""
    share = min(1.0, max(0.0, share))
    if ascii_only:
        full = round(share * width)
        return [Span("#" * full, ink), Span("." * (width - full), "grid")]
    full, half = divmod(round(share * width * 2), 2)
    head = "━" * full + "╸" * half
    return [Span(head, ink), Span("─" * (width - len(head)), "track")]
