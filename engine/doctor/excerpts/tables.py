"""Small tables: a row of names, and rows with a number below each of them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from engine.doctor.excerpts.names import STEP, metric_of
from engine.doctor.excerpts.pairs import Pair, pair_of, value_of

_WIDE = re.compile(r"\t+| {2,}")
_COMMAS = re.compile(r"[^\s,]*(?:, ?[^\s,]*)+")
_RULE = re.compile(r"[\s.\u2026:+|=\u2500-\u257f-]*")
"""A line drawn below the names or between rows, and an ellipsis for rows left out."""
_NO_NUMBER = re.compile(r"|-|n/a|no log|none|\d+(?:\.\d+)? ?%|\d+ ?/ ?\d+")
"""Cells with nothing in them, and shares: of how much is not looked at."""
_NAMES = 2
_LASTS = 2
"""Rows at the end without a number show that it is lost."""


def table_at(lines: Sequence[str], start: int) -> list[tuple[int, list[Pair]]]:
    """The rows of a table whose names stand in ``lines[start]``, each with its place."""
    names = cells(lines[start])
    metrics = [metric_of(name) for name in names]
    known = {metric for metric in metrics if metric}
    if len(known) < _NAMES or known <= {STEP} or any(value_of(name) is not None for name in names):
        return []
    rows = []
    for place in range(start + 1, len(lines)):
        if _RULE.fullmatch(lines[place]):
            continue
        row = _row(names, metrics, cells(lines[place]))
        if not row:
            break
        rows.append((place, row))
    return _without_gaps(rows)


def cells(line: str) -> list[str]:
    """What stands between lines, commas or wide gaps; between any gaps where there are none."""
    line = line.strip()
    if "|" in line:
        parts = line.strip("|").split("|")
    elif _COMMAS.fullmatch(line):
        parts = line.split(",")
    else:
        parts = _WIDE.split(line)
        parts = parts if len(parts) > 1 else line.split()
    return [part.strip() for part in parts]


def _without_gaps(rows: list[tuple[int, list[Pair]]]) -> list[tuple[int, list[Pair]]]:
    """NaN is how tables write what was not measured, unless nothing is measured any more."""
    known = {pair.name: place for place, row in rows for pair in row if not math.isnan(pair.value)}
    end = min((place for place, _ in rows[-_LASTS:]), default=0)

    def is_told(pair: Pair, place: int) -> bool:
        return not math.isnan(pair.value) or known.get(pair.name, -1) < min(place, end)

    return [(place, [pair for pair in row if is_told(pair, place)]) for place, row in rows]


def _row(names: Sequence[str], metrics: Sequence[str | None], texts: Sequence[str]) -> list[Pair]:
    if len(texts) != len(names):
        return []
    if any(value_of(text) is None and not _NO_NUMBER.fullmatch(text.lower()) for text in texts):
        return []
    found = (
        pair_of(name, metric, text)
        for name, metric, text in zip(names, metrics, texts, strict=True)
        if metric
    )
    return [pair for pair in found if pair is not None]
