"""What a log itself says of its steps: some number none, and some hold several trainings."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from engine.doctor.metrics.run import Run
from engine.findings.finding import Evidence, Finding, Remedy

_NUMBERED = re.compile(r"\bstep(s?) (?=\d)")
_COUNT = re.compile(r"(?<=\d )step(?=s?\b)")
_CHECKPOINT = re.compile(r"\b(before|of) step \d+$")


def worded(run: Run, findings: Iterable[Finding]) -> list[Finding]:
    """The findings in words that are true of the log."""
    found = list(findings)
    if np.isfinite(run.begin):
        found = [_of_the_last(one) for one in found]
    return [_in_records(one) for one in found] if is_counted(run) else found


def is_counted(run: Run) -> bool:
    """Whether steps are but the places of records, of which a trainer may log every tenth.

    HF's dicts name an epoch and no step; a bar beside them tells the step, and how many there are.
    """
    if run.context.is_counted:
        return True
    steps = run.columns.times.steps
    is_known = bool(run.context.recipe) or run.context.total_steps is not None
    in_a_row = bool(np.array_equal(steps, np.arange(1, len(steps) + 1)))
    return not is_known and in_a_row and len(run.columns.get("epoch")) > 0


def _of_the_last(one: Finding) -> Finding:
    said = f"{one.cause} The log holds several trainings; this is said of the last one."
    return replace(one, cause=said)


def _in_records(one: Finding) -> Finding:
    return replace(
        one,
        title=_text(one.title),
        cause=_text(one.cause),
        evidence=tuple(map(_evidence, one.evidence)),
        remedies=tuple(map(_remedy, one.remedies)),
        followed_by=tuple(map(_in_records, one.followed_by)),
        counted="record",
    )


def _text(text: str) -> str:
    return _COUNT.sub("record", _NUMBERED.sub(r"record\1 ", text))


def _evidence(one: Evidence) -> Evidence:
    return replace(one, text=_text(one.text))


def _remedy(one: Remedy) -> Remedy:
    """A checkpoint has the number of a step, which is not known."""
    return replace(one, title=_text(_CHECKPOINT.sub(r"\1 that time", one.title)))
