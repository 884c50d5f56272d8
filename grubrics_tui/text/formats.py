"""Format numbers: one way to write each quantity, with a dash for a missing value."""

from __future__ import annotations

from collections.abc import Collection

from engine.base import text
from engine.base.text import MISSING as MISSING
from engine.base.text import age as age
from engine.base.text import clock as clock
from engine.base.text import duration as duration


def fixed(value: float | None, decimals: int = 3) -> str:
    """``0.412``; a dash for a missing value."""
    return MISSING if value is None else f"{value:.{decimals}f}"


def significant(value: float) -> str:
    """``0.412346``: six significant digits, one decimal from 100,000 on; ``5.0`` for an integer."""
    if value.is_integer():
        return str(value)
    return f"{value:.1f}" if abs(value) >= 100_000 else f"{value:.6g}"


def seconds(value: float | None) -> str:
    """``27.2 µs``, ``0.42 s``, ``310 s``, as ``engine.base.text`` formats them."""
    return MISSING if value is None else text.seconds(value)


def scientific(value: float | None) -> str:
    """``1.20e-05``."""
    return MISSING if value is None else f"{value:.2e}"


def percent(share: float | None, decimals: int = 0) -> str:
    """``25%`` of a share between 0 and 1."""
    return MISSING if share is None else f"{share * 100:.{decimals}f}%"


def thousands(value: float | None) -> str:
    """``1,234``."""
    return MISSING if value is None else f"{value:,.0f}"


def dollars(value: float | None) -> str:
    """``$0.0042``, ``$1.20``: two significant digits below a dollar."""
    if value is None:
        return MISSING
    return f"${value:.2f}" if value >= 1 or value == 0 else f"${value:.2g}"


def memory(value: float | None) -> str:
    """Bytes as ``61.2 GiB``, ``4.9 MiB`` or ``12 KiB``."""
    if value is None:
        return MISSING
    if 0 < value < 2**20:
        return f"{max(1, round(value / 2**10))} KiB"
    return f"{value / 2**30:.1f} GiB" if value >= 2**30 else f"{value / 2**20:.1f} MiB"


def head_of_cut(names: Collection[str], width: int) -> int:
    """How many characters of names longer than ``width`` stay before the cut.

    Names start alike, and their ends differ: both are kept. Where this leaves some equal, another
    place of the cut may keep them apart.
    """
    middle = (width - 1) // 2
    for head in (middle, 4, width - 4):
        if len({cut_name(name, width, head) for name in names}) == len(names):
            return head
    return middle


def cut_name(name: str, width: int, head: int) -> str:
    """A name in ``width`` characters, of which ``head`` stay before the cut."""
    if len(name) <= width:
        return name
    return f"{name[:head]}…{name[len(name) - (width - 1 - head) :]}"


def cut_cell(text: str, width: int, right: bool) -> str:
    """A text at the right keeps its end: of a curve and a number, the number."""
    if len(text) <= width:
        return text
    return text[-width:].lstrip() if right else f"{text[: width - 1]}…"
