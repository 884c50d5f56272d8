"""Names with a number behind them, in whatever way a program writes them down."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from engine.doctor.excerpts.names import STEP, metric_of

_NUMBER = (
    r"[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d*)?|(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|nan|inf(?:inity)?)"
)
_PAIR = re.compile(
    r"(?<![\w/.-])(?P<quote>['\"]?)"
    r"(?P<name>[a-z_][\w/.@-]*+(?: (?!nan\b|inf\b)[a-z][\w-]*+){0,3})(?P=quote)\]?"
    r"(?P<between>\s?[:=]\s{0,40}|\s{0,40}\|\s{0,40}|\s{1,20})"
    r"['\"]?(?:[a-z][\w.]{0,20}\()?"
    rf"(?P<value>{_NUMBER})(?![\w%]|\.\d)",
    re.IGNORECASE,
)
_SPELLED = re.compile(r"\d\.\d|e|n", re.IGNORECASE)
"""What a number looks like that may follow a name without any sign between them."""
_PROGRAM = re.compile(
    r"\bself\.|\breturn \w|\bdef \w|\bfloat\(|\bargs\.|\bf['\"]|\{[a-z_.]+[:}]|^\s*File \"",
)
_NUMBER_ALONE = re.compile(_NUMBER, re.IGNORECASE)


class Pair(NamedTuple):
    """``name`` as it was written, ``metric`` what it means; ``value`` may be NaN or infinite."""

    name: str
    metric: str
    value: float


def pairs_of(line: str) -> Iterator[Pair]:
    """The known quantities of a line, from left to right; none of a line of a program's text."""
    if _PROGRAM.search(line):
        return
    for found in _PAIR.finditer(line):
        metric = metric_of(found["name"])
        if metric is None:
            continue
        bare = found["between"].isspace()
        if metric != STEP and bare and not _SPELLED.search(found["value"]):
            continue
        if (pair := pair_of(found["name"], metric, found["value"])) is not None:
            yield pair


def pair_of(name: str, metric: str, text: str) -> Pair | None:
    value = value_of(text)
    if value is None or (metric == STEP and not (value >= 0 and value.is_integer())):
        return None
    if metric.endswith("/lr") and value == 0 and len(text) > len("0.0"):
        return None  # A small rate reads 0.0000 where few decimals are printed.
    return Pair(name, metric, value)


def value_of(text: str) -> float | None:
    """A number with or without thousands separators; None for anything else."""
    text = text.strip()
    return float(text.replace(",", "")) if _NUMBER_ALONE.fullmatch(text) else None
