"""The results of a comparison as text: values, differences and half intervals in their units."""

from __future__ import annotations

from engine.base.text import MISSING, duration, seconds
from engine.reports.measures import Value
from engine.statistics.intervals import Estimate

_ROUNDING = 1e-9
"""An interval that is narrower, relative to its mean, comes from rounding."""


def format_value(value: Value, unit: str) -> str:
    """Format a measured value in its unit."""
    if value is None or isinstance(value, str):
        return value or MISSING
    if unit == "seconds":
        return seconds(value)
    if unit == "duration":
        return duration(value)
    if unit == "bytes":
        return f"{value / 2**30:.2f} GiB"
    if unit == "percent":
        return f"{value:.0f}%"
    return f"{value:,.0f}" if unit == "count" else f"{value:.4g}"


def format_delta(value: float, unit: str) -> str:
    """``+0.31``, ``-4:07``; ``0`` if the difference rounds to zero."""
    size = format_value(abs(value), unit)
    return "0" if size == format_value(0.0, unit) else ("+" if value > 0 else "-") + size


def format_half(estimate: Estimate | None, unit: str) -> str:
    """`` ±0.048``: half of a 95% interval with two digits; empty without one, or without width."""
    half = None if estimate is None else estimate.half_width
    if estimate is None or not half or half < _ROUNDING * abs(estimate.mean):
        return ""
    return f" ±{half:.2g}" if unit == "number" else f" ±{format_value(half, unit)}"
