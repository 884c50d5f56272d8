"""The fields of a filter: what can be asked for, and what a comparison with a value means."""

from __future__ import annotations

import operator
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from engine.base.errors import UsageError, nearest
from engine.base.query import Condition, syntax_error

T = TypeVar("T")
Kind = Literal["text", "number", "time", "age", "duration"]


@dataclass(frozen=True, kw_only=True)
class Field(Generic[T]):
    """One thing that a filter can ask of a ``T``.

    ``value`` reads it: a tuple of texts for ``text``, else one number or None. Moments are Unix
    seconds; an ``age`` is the moment from which it counts.
    """

    name: str
    about: str
    kind: Kind
    value: Callable[[T], Any]
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    """All values that the text can have; without them it can have any."""

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that a filter accepts."""
        return (self.name, *self.aliases)


def field_table(fields: Iterable[Field[T]]) -> dict[str, Field[T]]:
    """Return the fields by every name that a filter accepts."""
    return {name: field for field in fields for name in field.names}


def check_condition(test: Condition, kind: Kind, choices: tuple[str, ...] = ()) -> None:
    """UsageError, naming the character, for a comparison that a field of this kind cannot take."""
    if kind == "text" and test.operator in _ORDERED:
        raise syntax_error(test.at, f"'{test.name}' is text and takes ':', '=' or '!='")
    if choices and not any(test.value.lower() in choice for choice in choices):
        close = nearest(test.value.lower(), choices) or ", ".join(choices)
        raise syntax_error(test.value_at, f"unknown {test.name} '{test.value}'; try {close}")
    if kind != "text" and not _IS_VALUE[kind](test.value):
        raise syntax_error(test.value_at, f"'{test.value}' is not {_EXAMPLES[kind]}")


def unknown_field(test: Condition, fields: Iterable[str], summary: str = "") -> UsageError:
    """The error for an unknown field, with the nearest known one, or ``summary`` (default: all)."""
    names = list(fields)
    close = nearest(test.name.lower(), names)
    hint = f"did you mean '{close}'?" if close else f"known: {summary or ', '.join(names)}"
    return syntax_error(test.at, f"unknown field '{test.name}'; {hint}")


def compare(test: Condition, kind: Kind, value: Any, now: float) -> bool:
    """Whether a field's value meets a condition. A missing number meets none."""
    if kind == "text":
        return _compare_text(test, value)
    if kind == "number":
        return compare_number(test, value)
    if value is None:
        return False
    if kind == "duration":
        return _COMPARE[test.operator](value, parse_span(test.value) or 0.0)
    return _compare_time(test, value, now)


def compare_number(test: Condition, value: float | None) -> bool:
    wanted = _number(test.value)
    return value is not None and wanted is not None and _COMPARE[test.operator](value, wanted)


def compare_any(test: Condition, value: Any) -> bool:
    """Compare a value of unknown kind: numbers as numbers (``1e-5`` equals ``0.00001``), anything
    else as text."""
    actual, wanted = _number(value), _number(test.value)
    if actual is not None and wanted is not None:
        return _COMPARE[test.operator](actual, wanted)
    return test.operator not in _ORDERED and _compare_text(test, _as_texts(value))


_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    ":": operator.eq, "=": operator.eq, "!=": operator.ne,
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
}  # fmt: skip
_ORDERED = (">", ">=", "<", "<=")
_UNIT = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])", re.IGNORECASE)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DATES = (("%Y-%m-%d", 86400), ("%Y-%m-%dT%H:%M", 60), ("%Y-%m-%d %H:%M", 60))


def _compare_text(test: Condition, texts: tuple[str, ...]) -> bool:
    """``:`` is "contains", ``=`` is "equals"; upper and lower case are equal in both."""
    wanted, folded = test.value.casefold(), [text.casefold() for text in texts]
    if test.operator == ":":
        return any(wanted in text for text in folded)
    return (wanted in folded) is (test.operator == "=")


def _compare_time(test: Condition, value: float, now: float) -> bool:
    """With a duration, compare how long ago the moment is; with a date, the moment itself.

    A day is meant as a whole: ``>`` and ``>=`` are since its start, ``<`` before it.
    """
    if (span := parse_span(test.value)) is not None and test.operator in _ORDERED:
        return _COMPARE[test.operator](now - value, span)
    start, end = _period(test.value, now) or (0.0, 0.0)
    inside = start <= value < end
    if test.operator in (":", "="):
        return inside
    if test.operator == "!=":
        return not inside
    if test.operator in (">", ">="):
        return value >= start
    return value < (end if test.operator == "<=" else start)


def _period(text: str, now: float) -> tuple[float, float] | None:
    """Start and end of a date or minute; a duration is from that long ago until now."""
    if (span := parse_span(text)) is not None:
        return now - span, now
    for form, length in _DATES:
        try:
            start = time.mktime(time.strptime(text, form))
        except (ValueError, OverflowError):
            continue
        return start, start + length
    return None


def parse_span(text: str) -> float | None:
    """Parse a duration to seconds; ``1h30m`` adds up. None for a text that is not a duration."""
    if not text or _UNIT.sub("", text).strip():
        return None
    return sum(float(n) * _SECONDS[unit.lower()] for n, unit in _UNIT.findall(text))


def _number(value: Any) -> float | None:
    """Texts that are numbers count: YAML reads ``1e-5`` as a text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if number == number else None


def _as_texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, list):
        return tuple(str(item) for item in value)
    return ("true" if value is True else "false" if value is False else str(value),)


_IS_VALUE: Mapping[Kind, Callable[[str], bool]] = {
    "number": lambda text: _number(text) is not None,
    "time": lambda text: _period(text, 0.0) is not None,
    "age": lambda text: parse_span(text) is not None,
    "duration": lambda text: parse_span(text) is not None,
}
_EXAMPLES: Mapping[Kind, str] = {
    "number": "a number",
    "time": "a time such as 2d (ago), 12h, 30m (minutes), 2026-01-31 or 2026-01-31T14:00",
    "age": "an age such as 2d, 12h or 30m",
    "duration": "a duration such as 90s, 30m or 2h",
}
