"""Counts, numbers, sizes and times as text, one way for each; a dash for a missing one."""

from __future__ import annotations

import math
import time

MISSING = "–"
_EXPONENT = 1e9
"""From here on, a number has an exponent."""
_UNITS = ((3600.0, "h", 10_000.0), (1.0, "s", 0.1), (1e-3, "ms", 1e-4), (1e-6, "µs", 1e-7))
"""Seconds of a unit, its name, and the seconds from which it is used."""
_HOURS_AS_DAYS = 48


def format_count(number: int, noun: str, *, plural: str = "") -> str:
    """``1 step``, ``2 steps``, ``1,200 steps``."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def format_number(value: float | None, digits: int = 4) -> str:
    """So many significant digits, and no exponent below a billion: ``0.4123``, ``12,346``."""
    if value is None:
        return MISSING
    # ``g`` would give 9999.5 an exponent.
    is_large = 10**digits - 0.5 <= abs(value) < _EXPONENT
    return f"{value:,.0f}" if is_large else f"{value:.{digits}g}"


def format_fixed(value: float | None, decimals: int = 3) -> str:
    """``0.412``."""
    return MISSING if value is None else f"{value:.{decimals}f}"


def format_whole(value: float | None) -> str:
    """``1,234``."""
    return MISSING if value is None else f"{value:,.0f}"


def format_percent(share: float | None, decimals: int = 0) -> str:
    """``25%`` of a share between 0 and 1."""
    return MISSING if share is None else f"{share * 100:.{decimals}f}%"


def format_dollars(value: float | None) -> str:
    """``$0.0042``, ``$1,250.00``: two significant digits below a dollar."""
    if value is None:
        return MISSING
    return f"${value:,.2f}" if value >= 1 or value == 0 else f"${value:.2g}"


def format_size(size: float | None) -> str:
    """Bytes in binary units: ``61.2 GiB``, ``4.9 MiB``, ``12 KiB``."""
    if size is None:
        return MISSING
    if 0 < size < 2**20:
        return f"{max(1, round(size / 2**10))} KiB"
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"


def format_hub_size(size: float) -> str:
    """Bytes in the units of the hub, which are decimal: ``16.06 GB``, ``4.9 MB``."""
    return f"{size / 1e9:,.2f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"


def format_seconds(value: float | None) -> str:
    """Three digits in the unit that fits: ``27.2 µs``, ``12.3 ms``, ``6.4 s``, ``310 s``, ``3 h``.

    Three, because readers multiply these: ``4 rounds x 27.2 µs = 0.109 ms``. Below a tenth of a
    microsecond it is ``0 s``; a value that is not finite is missing.
    """
    if value is None or not math.isfinite(value):
        return MISSING
    for unit, name, least in _UNITS:
        if abs(value) >= least:
            return f"{format_number(value / unit, 3)} {name}"
    return "0 s"


def format_duration(value: float | None) -> str:
    """Seconds as ``4:07``, ``1:04:07`` or, from two days on, ``2d 7h``."""
    if value is None:
        return MISSING
    minutes, second = divmod(max(0, round(value)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= _HOURS_AS_DAYS:
        return f"{hours // 24}d {hours % 24}h"
    return f"{hours}:{minutes:02}:{second:02}" if hours else f"{minutes}:{second:02}"


def format_age(value: float | None) -> str:
    """Whole units of some seconds, as filters take them: ``45s``, ``12m``, ``7h``, ``3d``."""
    if value is None:
        return MISSING
    for unit, name in ((86400, "d"), (3600, "h"), (60, "m")):
        if value >= unit:
            return f"{value // unit:.0f}{name}"
    return f"{max(0.0, value):.0f}s"


def format_time(moment: float | None, *, with_seconds: bool = False, utc: bool = False) -> str:
    """``2026-01-31 14:05`` of Unix seconds, in local time or in UTC."""
    if moment is None:
        return MISSING
    form = "%Y-%m-%d %H:%M:%S" if with_seconds else "%Y-%m-%d %H:%M"
    return time.strftime(form, time.gmtime(moment) if utc else time.localtime(moment))


def format_date(moment: float | None = None) -> str:
    """``2026-01-31`` in local time; without a moment, today."""
    return time.strftime("%Y-%m-%d", time.localtime(moment))


def format_stamp(moment: float | None = None) -> str:
    """``20260131-140507`` in local time, for the name of a file; without a moment, the present."""
    return time.strftime("%Y%m%d-%H%M%S", time.localtime(moment))
