"""Numbers as people and models write them, as exact fractions."""

from __future__ import annotations

import re
from fractions import Fraction

LONGEST = 200
"""Characters of an answer that is read as a number; longer ones are texts."""

_LARGEST_EXPONENT = 300
_NUMBER = re.compile(
    r"""
    (?P<sign>[-+])?\s*
    (?:
      (?:(?P<whole>[0-9]+)\s*)?\\[dt]?frac\s*\{\s*(?P<top>-?[0-9]+)\s*\}\s*\{\s*(?P<bottom>[0-9]+)\s*\}
    | (?:(?P<units>[0-9]+)\s+)?(?P<over>[0-9]+)\s*/\s*(?P<under>[0-9]+)
    | (?P<decimal>(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]*)?|\.[0-9]+)
      (?:(?:[eE]|\s*(?:\\times|\\cdot|[x*×])\s*10\s*\^\s*)\{?(?P<exponent>[-+]?[0-9]{1,4})\}?)?
    )
    """,
    re.VERBOSE,
)
_NOISE = re.compile(r"\\[,;! ]|\\left|\\right|\\\$|\s*\\(?:text|mathrm|mbox)\s*\{[^{}]*\}|[$€£¥]")
"""Marks around a number that do not change it: spacing, currency, units as text."""
_FORMULA = re.compile(r"[\\^_/*+<>](?!%)|\d")
"""What makes the text around a number part of an expression."""


def parse_number(text: str) -> Fraction | None:
    """The one number in ``text``; None if there is none, or more than one.

    ``1,234``, ``-0.5``, ``3/4``, ``1 1/2``, ``\\frac{3}{4}``, ``2.5e3``, ``2 \\times 10^{3}``; with
    currency, a percent sign or a unit around it (``$5``, ``50%``, ``12 apples``). Only ASCII digits
    count, and ``2x`` is no number.
    """
    if len(text) > LONGEST:
        return None
    cleaned = _NOISE.sub(" ", text.replace("−", "-"))
    found = list(_NUMBER.finditer(cleaned))
    if len(found) != 1:
        return None
    before, after = cleaned[: found[0].start()], cleaned[found[0].end() :]
    is_part = before[-1:].isalpha() or after[:1].isalpha()
    if is_part or _FORMULA.search(before + after):
        return None
    return _value(found[0])


def find_last_number(text: str) -> Fraction | None:
    """The last number in ``text``; None if there is none."""
    cleaned = _NOISE.sub(" ", text[-LONGEST:].replace("−", "-"))
    found = list(_NUMBER.finditer(cleaned))
    return _value(found[-1]) if found else None


def _value(number: re.Match[str]) -> Fraction | None:
    if number["decimal"] is not None:
        value = _decimal(number["decimal"], number["exponent"])
    elif number["top"] is not None:
        value = _mixed(number["whole"], number["top"], number["bottom"])
    else:
        value = _mixed(number["units"], number["over"], number["under"])
    return -value if value is not None and number["sign"] == "-" else value


def _decimal(digits: str, exponent: str | None) -> Fraction | None:
    power = int(exponent or 0)
    if abs(power) > _LARGEST_EXPONENT:
        return None
    return Fraction(digits.replace(",", "").rstrip(".") or "0") * Fraction(10) ** power


def _mixed(whole: str | None, top: str, bottom: str) -> Fraction | None:
    return None if int(bottom) == 0 else int(whole or 0) + Fraction(int(top), int(bottom))


def are_close(a: Fraction, b: Fraction, tolerance: float) -> bool:
    """Whether ``a`` is ``b``, up to ``tolerance`` times the larger of 1 and ``|b|``."""
    return a == b or abs(a - b) <= Fraction(tolerance) * max(Fraction(1), abs(b))
