"""One part of the reward is 0 in every step while the others move.

Shape: TRL's ``rewards/<name>`` (or ``rewards/<name>/mean``) exactly 0 in all of at least 8 steps,
with another part that moves. Ruled out: penalties (0 is what one hopes for) and short logs.
Source: classes ("one component always 0"): mostly a format regex that never matches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from engine.doctor.metrics.run import Run, Series
from engine.findings.finding import Finding, Remedy, Severity

_STEPS = 8
_NAME = re.compile(r"rewards/(?P<part>[^/]+)(?:/mean)?")
_DPO = frozenset({"chosen", "rejected", "margins", "accuracies"})
_PENALTY = re.compile(
    r"penal|repet|duplic|n_?gram|toxic|harm|unsafe|profan|cost|violat|over_?long|too_long|truncat"
    r"|mixing|mixed|switching|cheat|hack|refus|halluc",
    re.IGNORECASE,
)


def check(run: Run) -> Iterator[Finding]:
    parts = list(_parts(run))
    moving = [part for part, series in parts if float(np.ptp(series.values)) > 0]
    for part, series in parts:
        if moving and not series.values.any() and not _PENALTY.search(part):
            yield _dead(run, part, series, moving)


def _parts(run: Run) -> Iterator[tuple[str, Series]]:
    for name in run.columns.names:
        match = _NAME.fullmatch(name)
        if match is None or match["part"] in _DPO:
            continue
        series = run.series(name)
        if len(series) >= _STEPS:
            yield match["part"], series


def _dead(run: Run, part: str, series: Series, moving: list[str]) -> Finding:
    onset = series.step(0)
    return Finding(
        "reward_zero_or_flat.component_zero",
        Severity.WARNING,
        f"The reward part '{part}' is always 0",
        f"'{part}' is exactly 0 in all {len(series)} steps while {', '.join(moving[:3])} moves: "
        "its pattern or its condition is never met, so it teaches nothing.",
        (run.seen(f"{series.name} is 0", onset, steps=len(series)),),
        (
            Remedy(f"Run '{part}' by hand on three responses: does its pattern fit the prompt?"),
            Remedy("Say the wanted format in the prompt, with an example"),
        ),
        onset,
        confidence=0.85,
        source="classes: one component always 0",
    )
