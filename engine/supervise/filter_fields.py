"""What a filter can ask of a run: the fields, their values, and what a comparison means."""

from __future__ import annotations

import operator
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from engine.base.errors import nearest
from engine.history import metrics
from engine.runs.registry import RunInfo
from engine.runs.state import STOPPED, StateName
from engine.supervise.filters import Condition, Tree, Word, conditions, mistake

CONFIG = "config."

Texts = tuple[str, ...]
Kind = Literal["text", "number", "time", "age", "span"]


@dataclass(frozen=True)
class Field:
    """Something that the list of runs knows. ``read`` gives texts, or one number, or None."""

    kind: Kind
    about: str
    read: Callable[[RunInfo], Any]


FIELDS: Mapping[str, Field] = {
    "id": Field("text", "the run's id", lambda run: (run.id,)),
    "state": Field("text", "running, failed, stopped, ...", lambda run: (run.state.word,)),
    "reason": Field("text", "why it is in that state", lambda run: _some(run.state.reason)),
    "waiting": Field("text", "what it waits for", lambda run: _some(run.state.waiting_for)),
    "kind": Field("text", "grpo or sft", lambda run: (run.kind,)),
    "recipe": Field("text", "the recipe's name", lambda run: (run.recipe,)),
    "tag": Field("text", "one of its tags", lambda run: run.notes.tags),
    "note": Field("text", "its note", lambda run: _some(run.notes.text)),
    "step": Field("number", "the last step logged", lambda run: run.state.step),
    "total": Field("number", "the steps it shall do", lambda run: run.state.total_steps),
    "attempt": Field("number", "above 1: it was resumed", lambda run: run.state.attempt),
    "exit": Field("number", "exit code", lambda run: run.state.exit_code),
    "started": Field("time", "<2d: in the last two days", lambda run: run.started),
    "ended": Field("time", "when", lambda run: run.state.ended),
    "age": Field("age", "<2d: started in the last two days", lambda run: run.started),
    "took": Field("span", "how long its attempts took", lambda run: _took(run)),
}

_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    ":": operator.eq, "=": operator.eq, "!=": operator.ne,
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
}  # fmt: skip
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])", re.IGNORECASE)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DATES = (("%Y-%m-%d", 86400), ("%Y-%m-%dT%H:%M", 60), ("%Y-%m-%d %H:%M", 60))
_ORDERED = (">", ">=", "<", "<=")
_STATES: tuple[str, ...] = (*get_args(StateName), STOPPED)
_METRICS = frozenset(v for k, v in vars(metrics).items() if k.isupper() and isinstance(v, str))


def check(tree: Tree) -> None:
    """UsageError for a field that does not exist or cannot be compared so."""
    for test in conditions(tree):
        _check(test)


def listed(leaf: Word | Condition, run: RunInfo, now: float) -> bool | None:
    """Whether a condition holds by what the list knows; None: the run's files have to tell."""
    if isinstance(leaf, Word):
        return _mentions(run, leaf.text.casefold())
    known = FIELDS.get(leaf.name.lower())
    return None if known is None else _holds(known.kind, leaf, known.read(run), now)


def config_key(test: Condition) -> str | None:
    """The config key that a condition is about."""
    return test.name[len(CONFIG) :] if test.name.lower().startswith(CONFIG) else None


def compare_config(test: Condition, value: Any) -> bool:
    """Numbers as numbers, ``1e-5`` and ``0.00001`` alike; anything else as text."""
    actual, wanted = _number(value), _number(test.value)
    if actual is not None and wanted is not None:
        return _COMPARE[test.operator](actual, wanted)
    return test.operator not in _ORDERED and _compare_text(test, _as_texts(value))


def compare_number(test: Condition, value: float | None) -> bool:
    wanted = _number(test.value)
    return value is not None and wanted is not None and _COMPARE[test.operator](value, wanted)


def _check(test: Condition) -> None:
    name, ordered = test.name.lower(), test.operator in _ORDERED
    if config_key(test):
        return
    known = FIELDS.get(name)
    if known is None and not _is_metric(test.name):
        raise mistake(test.at, _no_field(test.name))
    kind = "number" if known is None else known.kind
    if kind == "text" and ordered:
        raise mistake(test.at, f"'{test.name}' is text and takes ':', '=' or '!='")
    if name == "state" and not any(test.value.lower() in state for state in _STATES):
        close = nearest(test.value.lower(), _STATES) or ", ".join(_STATES)
        raise mistake(test.value_at, f"no state is called '{test.value}'; try {close}")
    if kind != "text" and not _WANTED[kind].fits(test.value):
        raise mistake(test.value_at, f"'{test.value}' is not {_WANTED[kind].name}")


def _is_metric(name: str) -> bool:
    return "/" in name or name in _METRICS or name in metrics.ALIASES


def _no_field(name: str) -> str:
    close = nearest(name.lower(), [*FIELDS, *sorted(_METRICS), *metrics.ALIASES])
    hint = f"did you mean '{close}'?" if close else f"there are {', '.join(FIELDS)},"
    more = "" if close else " config.KEY and metrics such as reward/mean"
    return f"no field is called '{name}'; {hint}{more}"


def _mentions(run: RunInfo, word: str) -> bool:
    told = (run.id, run.recipe, run.kind, run.state.word, run.state.reason or "", run.notes.text)
    return any(word in text.casefold() for text in (*told, *run.notes.tags))


def _holds(kind: Kind, test: Condition, value: Any, now: float) -> bool:
    if kind == "text":
        return _compare_text(test, value)
    if kind == "number":
        return compare_number(test, value)
    if value is None:
        return False
    if kind == "span":
        return _COMPARE[test.operator](value, _span(test.value) or 0.0)
    return _compare_time(test, value, now)


def _compare_text(test: Condition, texts: Texts) -> bool:
    """``:`` is contained in, ``=`` is; both without regard to upper and lower case."""
    wanted, found = test.value.casefold(), [text.casefold() for text in texts]
    if test.operator == ":":
        return any(wanted in text for text in found)
    return (wanted in found) is (test.operator == "=")


def _compare_time(test: Condition, value: float, now: float) -> bool:
    """Of a duration, whether the moment is less (``<``) or more (``>``) than so long ago.

    A day is meant as a whole: ``>`` and ``>=`` are since its start, ``<`` before it.
    """
    if (span := _span(test.value)) is not None and test.operator in _ORDERED:
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
    """From when to when: a duration is from so long ago until now."""
    if (span := _span(text)) is not None:
        return now - span, now
    for form, length in _DATES:
        try:
            start = time.mktime(time.strptime(text, form))
        except (ValueError, OverflowError):
            continue
        return start, start + length
    return None


def _span(text: str) -> float | None:
    """Seconds; ``1h30m`` adds up."""
    if not text or _SPAN.sub("", text).strip():
        return None
    return sum(float(n) * _SECONDS[unit.lower()] for n, unit in _SPAN.findall(text))


def _number(value: Any) -> float | None:
    """As ``1e-5`` in YAML is a text, texts that say a number count as one."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if number == number else None


def _as_texts(value: Any) -> Texts:
    if isinstance(value, list):
        return tuple(str(item) for item in value)
    return ("true" if value is True else "false" if value is False else str(value),)


@dataclass(frozen=True)
class _Wanted:
    name: str
    fits: Callable[[str], bool]


_WANTED: Mapping[str, _Wanted] = {
    "number": _Wanted("a number", lambda text: _number(text) is not None),
    "time": _Wanted(
        "a time such as 2d (ago), 12h, 30m (minutes), 2026-01-31 or 2026-01-31T14:00",
        lambda text: _period(text, 0.0) is not None,
    ),
    "age": _Wanted("an age such as 2d, 12h or 30m", lambda text: _span(text) is not None),
    "span": _Wanted("a duration such as 90s, 30m or 2h", lambda text: _span(text) is not None),
}


def _some(text: str | None) -> Texts:
    return (text,) if text else ()


def _took(run: RunInfo) -> float | None:
    return None if run.state.ended is None else run.state.elapsed(run.state.ended)
