"""What is listed about a run: each column once, for the screen, ``runs``, its JSON and filters.

To add a column, add one entry to ``COLUMNS``. A value that the index of ended runs lacks also needs
a place in ``registry._row``; tests say so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, get_args

from engine.base.query_fields import Field
from engine.base.times import MISSING, clock, day_and_time, duration
from engine.runs.notes import Notes
from engine.runs.state import EXTERNAL, FOREIGN, STOPPED, RunState, StateName

_NO_NOTES = Notes()
_STATES = (*(name for name in get_args(StateName) if name != FOREIGN), STOPPED, EXTERNAL)


@dataclass(frozen=True)
class RunInfo:
    """One row of the list of runs."""

    id: str
    state: RunState
    recipe: str
    kind: str
    started: float | None
    """When its first attempt started; a run that never started: when it was launched."""
    notes: Notes = _NO_NOTES

    def to_json(self) -> dict[str, Any]:
        return runs_to_json([self])[0]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """How lists show a column. Without ``text`` the value is formatted by its kind."""

    width: int | None = None
    """Characters; None: those of the widest cell on the screen, 11 in ``runs``."""
    text: Callable[[RunInfo], str] | None = None
    narrow: Callable[[RunInfo], str] | None = None
    """The text on a screen of less than 100 columns, which leaves the column out without it."""
    narrow_width: int | None = None
    right: bool = False
    """Whether the text is aligned to the right."""
    in_text: bool = True
    """Whether ``runs`` prints it; the screen always shows a cell."""


@dataclass(frozen=True, kw_only=True)
class Column(Field[RunInfo]):
    """Something known about every run: a field of filters, and its place in JSON and lists."""

    key: str | None
    """Its key in ``runs --json`` and ``show --json``, and a name in filters; None: it has none."""
    to_json: Callable[[RunInfo], Any] | None = None
    """The JSON value where it is not ``value``."""
    cell: Cell | None = None
    """Its cell between the id of a run and its tags; None: lists have no such cell."""

    @property
    def names(self) -> tuple[str, ...]:
        key = () if self.key in (None, self.name) else (self.key,)
        return (*super().names, *key)

    def text(self, run: RunInfo) -> str:
        if self.cell is not None and self.cell.text is not None:
            return self.cell.text(run)
        value = self.value(run)
        if self.kind == "duration":
            return duration(value)
        if self.kind in ("time", "age"):
            return clock(value)
        if self.kind == "text":
            return " ".join(value)
        return MISSING if value is None else f"{value:g}"


def runs_to_json(runs: Iterable[RunInfo]) -> list[dict[str, Any]]:
    readers = [(column.key, column.to_json or column.value) for column in COLUMNS if column.key]
    return [{key: read(run) for key, read in readers} for run in runs]


def format_step(step: int | None, total: int | None) -> str:
    """``12/40``; a run of no steps (``trainer.val_only``) validates only."""
    if total == 0:
        return "val only"
    return f"{MISSING if step is None else step}/{MISSING if total is None else total}"


def _texts(text: str | None) -> tuple[str, ...]:
    return (text,) if text else ()


def _state_words(run: RunInfo) -> tuple[str, ...]:
    return (EXTERNAL, FOREIGN) if run.state.state == FOREIGN else (run.state.word,)


def _step(run: RunInfo) -> str:
    return format_step(run.state.step, run.state.total_steps)


def _duration(run: RunInfo) -> float | None:
    """Seconds that all attempts took, up to now for an active run."""
    unknown = run.state.ended is None and run.state.state in ("finished", "failed")
    return None if unknown else run.state.elapsed(time.time())


COLUMNS: tuple[Column, ...] = (
    Column(name="id", about="run ID", kind="text", value=lambda run: (run.id,),
           key="id", to_json=lambda run: run.id),
    Column(name="state", about="running, failed, stopped, ...", kind="text",
           value=_state_words, choices=_STATES, former_choices=(FOREIGN,),
           key="state", to_json=lambda run: run.state.state),
    Column(name="reason", about="why it is in that state", kind="text",
           value=lambda run: _texts(run.state.reason),
           key="reason", to_json=lambda run: run.state.reason),
    Column(name="waiting", about="what it waits for", kind="text",
           value=lambda run: _texts(run.state.waiting_for),
           key="waiting_for", to_json=lambda run: run.state.waiting_for),
    Column(name="step", about="last logged step", kind="number", value=lambda run: run.state.step,
           key="step", cell=Cell(text=_step, narrow=_step, right=True)),
    Column(name="total", about="number of steps of the whole run", kind="number",
           value=lambda run: run.state.total_steps, key="total_steps"),
    Column(name="recipe", about="name of the recipe", kind="text",
           value=lambda run: (run.recipe,), key="recipe", to_json=lambda run: run.recipe),
    Column(name="kind", about="grpo or sft", kind="text", value=lambda run: (run.kind,),
           key="kind", to_json=lambda run: run.kind, cell=Cell(width=4, in_text=False)),
    Column(name="started", about="e.g. <2d: in the last two days", kind="time",
           value=lambda run: run.started, key="started",
           cell=Cell(width=16, narrow=lambda run: day_and_time(run.started), narrow_width=11,
                     in_text=False)),
    Column(name="duration", about="time that all attempts took", kind="duration", value=_duration,
           aliases=("took",), key="duration_s"),
    Column(name="tag", about="one of its tags", kind="text", value=lambda run: run.notes.tags,
           key="tags", to_json=lambda run: list(run.notes.tags)),
    Column(name="note", about="its note", kind="text", value=lambda run: _texts(run.notes.text),
           key="note", to_json=lambda run: run.notes.text),
    Column(name="ended", about="when it ended", kind="time", value=lambda run: run.state.ended,
           key=None),
    Column(name="age", about="e.g. <2d: started in the last two days", kind="age",
           value=lambda run: run.started, key=None),
    Column(name="attempt", about="above 1: it was resumed", kind="number",
           value=lambda run: run.state.attempt, key=None),
    Column(name="exit", about="exit code", kind="number", value=lambda run: run.state.exit_code,
           key=None),
)  # fmt: skip
