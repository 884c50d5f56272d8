"""Check values beyond their type: the choices that verl lists, and the ranges of its numbers.

verl checks few of these before its workers are up, and several never: a negative clip ratio or
learning rate increases the loss. The choices and ranges are in ``values.yaml``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from engine.base.errors import nearest
from engine.config.keys import tables, verl_choices


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``; ``open_low`` excludes ``low`` itself.

    ``whole`` requires an integer. ``besides`` holds special values and their meanings.
    """

    low: float
    high: float | None = None
    open_low: bool = False
    whole: bool = False
    besides: Mapping[float, str] | None = None

    def complaint(self, value: Any) -> str | None:
        """Return what the value must be, or None when it is allowed. Null always is."""
        if value is None:
            return None
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and value in (self.besides or {}):
            return None
        if not is_number or not math.isfinite(value) or (self.whole and value != int(value)):
            return str(self)
        is_above = value > self.low if self.open_low else value >= self.low
        return None if is_above and (self.high is None or value <= self.high) else str(self)

    def __str__(self) -> str:
        start = f"above {self.low}" if self.open_low else f"at least {self.low}"
        end = "" if self.high is None else f" and at most {self.high}"
        integer = "an integer of " if self.whole and not self.open_low else ""
        special = "".join(
            f", or {number:g} ({meaning})" for number, meaning in (self.besides or {}).items()
        )
        return f"{integer}{start}{end}{special}"


@dataclass(frozen=True)
class Choice:
    """One of ``names``. ``several`` also allows a list of them, ``listed`` refuses a text, and
    ``joined`` allows some in one text, separated by commas."""

    names: Sequence[str]
    several: bool = False
    listed: bool = False
    joined: bool = False

    def complaint(self, value: Any) -> str | None:
        if self.listed and isinstance(value, str):
            return f"a list, [{value}]"
        items = value if self.several and isinstance(value, list) else [value]
        if self.joined and value is not None:
            items = [name.strip() for name in str(value).split(",")]
        unknown = next((item for item in items if item not in (None, *self.names)), None)
        if unknown is None:
            return None
        by_lower = {name.lower(): name for name in self.names}
        close = nearest(str(unknown).lower(), by_lower)
        hint = f"; did you mean '{by_lower[close]}'?" if close else ""
        return f"one of {', '.join(self.names)}{hint}"

    def __str__(self) -> str:
        names = ", ".join(self.names)
        if self.joined:
            return f"some of {names}; with commas between them"
        return f"a list of {names}" if self.listed else f"one of {names}"


@dataclass(frozen=True)
class _Betas:
    """Two decay rates of Adam."""

    def complaint(self, value: Any) -> str | None:
        rates = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
        fits = len(rates) == 2 and all(
            isinstance(rate, int | float) and 0 <= rate < 1 for rate in rates
        )
        return None if fits else str(self)

    def __str__(self) -> str:
        return "two numbers of at least 0 and below 1"


@dataclass(frozen=True)
class _Threshold:
    """The highest importance weight, or the lowest and the highest one as ``0.5_5.0``."""

    def complaint(self, value: Any) -> str | None:
        if isinstance(value, str) and re.fullmatch(r"[\d.]+(?:_[\d.]+)?", value):
            try:
                bounds = [float(text) for text in value.split("_")]
            except ValueError:
                return str(self)
            return None if 0 < bounds[0] <= bounds[-1] else str(self)
        return None if Range(0, open_low=True).complaint(value) is None else str(self)

    def __str__(self) -> str:
        return "above 0, or two such numbers as 0.5_5.0"


Allowed = Range | Choice | _Betas | _Threshold


def complaint(key: str, value: Any) -> str | None:
    """Return what a value must be instead, or None when verl accepts it."""
    allowed = _find_rule(key)
    return None if allowed is None else allowed.complaint(value)


def expected(key: str) -> str | None:
    """Return what the values of a key must be, or None when any value of its type will do."""
    allowed = _find_rule(key)
    return None if allowed is None else str(allowed)


def _find_rule(key: str) -> Allowed | None:
    return next((rule for pattern, rule in _rules().items() if pattern.fullmatch(key)), None)


@cache
def _rules() -> dict[re.Pattern[str], Allowed]:
    """Return the choices and ranges by a pattern of the whole key."""
    entries, listed = tables(), verl_choices()
    kl = listed["kl_penalty"]
    listed = {**listed, "kl_penalty": [*kl, *(f"{name}+" for name in kl)]}
    named: dict[str, Allowed] = {"betas": _Betas(), "threshold": _Threshold()}
    named |= {name: Range(**limits) for name, limits in entries["named_ranges"].items()}
    rules: dict[str, Allowed] = {}
    for pattern, choice in entries["choices"].items():
        names = choice["names"]
        names = listed[names.removeprefix("$")] if isinstance(names, str) else names
        rules[pattern] = Choice(**{**choice, "names": names})
    for pattern, limits in entries["ranges"].items():
        rules[pattern] = named[limits] if isinstance(limits, str) else Range(**limits)
    return {re.compile(pattern): rule for pattern, rule in rules.items()}
