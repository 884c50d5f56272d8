"""What is listed about a run: each column once, for the screen, ``runs``, its JSON and filters.

To add a column, add one entry to ``COLUMNS``. A value that the index of ended runs lacks also needs
a field of ``RunRow``, which ``registry.read_row`` fills; tests say so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import get_args

from msgspec import Struct

from engine.base.errors import unknown_name
from engine.base.quantities import MISSING, format_age, format_duration, format_time
from engine.base.query import Field
from engine.base.typed import Line, Moment, Number
from engine.run.notes import NO_NOTES, Notes
from engine.run.state import EXTERNAL, STOPPED, RunState, StateName

_ALIKE = 0.75
"""Similarity from which a name is that of a column with a typing mistake."""
_DISPENSABLE = 6
"""The rank from which a column is left out before others are cut."""
_STATES = (*(name for name in get_args(StateName) if name != EXTERNAL), STOPPED, EXTERNAL)


class RunRow(Struct, frozen=True, omit_defaults=True):
    """One row of the list of runs, as the index holds it: its texts are safe to show, also if the
    index was edited."""

    id: Line
    state: RunState
    config: Line = "?"
    kind: Line = "?"
    created: Moment | None = None
    """When it was launched."""
    changed: tuple[Line, ...] = ()
    """The overrides that differ from the config file, as ``lr=3e-05``."""
    reward: Number | None = None
    """Mean reward of the last step."""
    curve: Line = ""
    """The mean rewards of the last steps as a line of blocks."""
    train_loss: Number | None = None
    """Loss of the last step of a run without rewards, such as SFT."""
    loss_curve: Line = ""
    validation: Number | None = None
    """Reward of the last validation."""
    notes: Notes = NO_NOTES
    health: str = ""
    """``healthy``, or what the doctor found; empty where it was not asked or has no answer."""

    @property
    def started(self) -> float | None:
        """When its first attempt started; a run that never started: when it was launched."""
        return self.state.first_start or self.created


@dataclass(frozen=True, kw_only=True)
class Cell:
    """How lists show a column."""

    rank: int
    """Where the screen is too narrow for all columns, those of the highest rank are left out."""
    head: str = ""
    """Empty: the name of the column."""
    width: int | None = None
    """Characters; None: those of the widest text, at most ``most``."""
    most: int = 28
    least: int | None = None
    """Characters that a narrow screen cuts the column to before it leaves it out; None: it does not
    cut it."""
    right: bool = False
    """Whether the text is aligned to the right, and cut at the left."""


@dataclass(frozen=True, kw_only=True)
class Column(Field[RunRow]):
    """Something known about every run: a field of filters, and its place in JSON and lists."""

    key: str | None
    """Its key in ``runs --json`` and ``show --json``, and a name in filters; None: it has none."""
    to_json: Callable[[RunRow], object] | None = None
    """The JSON value where it is not ``value``."""
    format: Callable[[RunRow], str] | None = None
    """Its text where that does not follow from ``kind``."""
    cell: Cell | None = None
    """Its cell between the id of a run and its tags; None: lists show it only when it is chosen."""

    @property
    def names(self) -> tuple[str, ...]:
        key = () if self.key in (None, self.name) else (self.key,)
        return (*super().names, *key)

    @property
    def head(self) -> str:
        return (self.cell and self.cell.head) or self.name

    def text(self, run: RunRow) -> str:
        if self.format is not None:
            return self.format(run)
        value = self.value(run)
        if isinstance(value, tuple):
            return " ".join(value)
        if self.kind == "duration":
            return format_duration(value)
        if self.kind == "time":
            return format_time(value)
        if self.kind == "age":
            return format_age(None if value is None else time.time() - value)
        return MISSING if value is None else f"{value:g}"

    def sort_key(self, run: RunRow) -> tuple[tuple[str, ...], float]:
        value = self.value(run)
        return (value, 0.0) if isinstance(value, tuple) else ((), value or 0.0)

    def is_known(self, run: RunRow) -> bool:
        """Whether the run has a value."""
        return self.value(run) not in (None, ())


def find_columns(
    names: Iterable[str], other: Callable[[str], Column] | None = None
) -> list[Column]:
    """The columns of these names, keys or heads. Another one is made by ``other``; without it, and
    for a name that is most like a known one, UsageError."""
    known = {name: column for column in COLUMNS for name in (*column.names, column.head)}
    chosen = []
    for name in names:
        if (column := known.get(name.lower())) is None:
            is_plain = not {".", "/"} & {*name}
            if other is None or (is_plain and get_close_matches(name, known, 1, _ALIKE)):
                raise unknown_name("column", name, known)
            column = other(name)
        chosen.append(column)
    return chosen


def listed_columns(runs: Sequence[RunRow]) -> list[Column]:
    """The columns that have a cell and of which some run has a value; the first rank always."""
    return [
        column
        for column in COLUMNS
        if (cell := column.cell) and (cell.rank == 1 or any(map(column.is_known, runs)))
    ]


def fit_cells(cells: Mapping[Column, int], room: int) -> dict[Column, int]:
    """The widths of the columns that fit: the least important ones are left out first, then columns
    are cut, then others are left out by rank. The first rank stays."""
    shown, by_rank = dict(cells), sorted(cells, key=rank_of)[::-1]

    def excess() -> int:
        return sum(shown.values()) + 2 * len(shown) - room

    for column in by_rank:
        if excess() > 0 and rank_of(column) >= _DISPENSABLE:
            del shown[column]
    for column in filter(shown.__contains__, by_rank):
        least = (column.cell and column.cell.least) or shown[column]
        shown[column] -= max(0, min(excess(), shown[column] - least))
    for column in filter(shown.__contains__, by_rank):
        if excess() > 0 and rank_of(column) > 1:
            del shown[column]
    for column in filter(shown.__contains__, by_rank[::-1]):
        shown[column] += max(0, min(-excess(), cells[column] - shown[column]))
    return shown


def rank_of(column: Column) -> int:
    """The rank; a column without a cell was chosen, and goes after the most important ones."""
    return column.cell.rank if column.cell else 2


def sort_runs(runs: Iterable[RunRow], order: str) -> list[RunRow]:
    """Sort by a column: the highest number, the newest run and the longest time first, texts from A
    to Z; ``-`` before the name reverses that. Runs without a value come last in both orders.

    UsageError for an unknown column.
    """
    (column,) = find_columns([order.removeprefix("-")])
    known, unknown = list[RunRow](), list[RunRow]()
    for run in runs:
        (known if column.is_known(run) else unknown).append(run)
    is_reversed = (column.kind != "text") is not order.startswith("-")
    return [*sorted(known, key=column.sort_key, reverse=is_reversed), *unknown]


def is_ascending(order: str) -> bool:
    """Whether the values that a column shows rise downwards in this order of ``sort_runs``."""
    (column,) = find_columns([order.removeprefix("-")])
    # The newest run comes first, which has the lowest age.
    return (column.kind in ("text", "age")) is not order.startswith("-")


def runs_to_json(runs: Iterable[RunRow]) -> list[dict[str, object]]:
    readers = [(column.key, column.to_json or column.value) for column in COLUMNS if column.key]
    return [{key: read(run) for key, read in readers} for run in runs]


def format_step(step: int | None, total: int | None) -> str:
    """``12/40``; ``12`` if the total is not known. A run of no steps (``trainer.val_only``) only
    validates."""
    if total == 0:
        return "val only"
    reached = MISSING if step is None else str(step)
    return reached if total is None else f"{reached}/{total}"


def _texts(text: str | None) -> tuple[str, ...]:
    return (text,) if text else ()


def _with_curve(curve: str, last: float | None) -> str:
    return f"{curve} {_score(last):>6}" if curve else MISSING


def _score(value: float | None) -> str:
    if value is None:
        return MISSING
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.4g}"


def _duration(run: RunRow) -> float | None:
    """Seconds that all attempts took, up to now for an active run."""
    unknown = run.state.ended is None and run.state.state in ("finished", "failed")
    return None if unknown else run.state.elapsed(time.time())


COLUMNS: tuple[Column, ...] = (
    Column(name="id", about="run ID", kind="text", value=lambda run: (run.id,),
           key="id", to_json=lambda run: run.id),
    Column(name="state", about="running, failed, stopped, ...", kind="text",
           value=lambda run: (run.state.word,), choices=_STATES,
           key="state", to_json=lambda run: run.state.word),
    Column(name="reason", about="why it is in that state", kind="text",
           value=lambda run: _texts(run.state.reason),
           key="reason", to_json=lambda run: run.state.reason),
    Column(name="waiting", about="what it waits for", kind="text",
           value=lambda run: _texts(run.state.waiting_for),
           key="waiting_for", to_json=lambda run: run.state.waiting_for),
    Column(name="step", about="last logged step", kind="number", value=lambda run: run.state.step,
           key="step", format=lambda run: format_step(run.state.step, run.state.total_steps),
           cell=Cell(rank=1, right=True)),
    Column(name="total", about="number of steps of the whole run", kind="number",
           value=lambda run: run.state.total_steps, key="total_steps"),
    Column(name="health", about="healthy, or unhealthy and what the doctor found", kind="text",
           value=lambda run: _texts(run.health), key=None,
           format=lambda run: run.health or MISSING),
    Column(name="reward", about="mean reward of the last step, after a curve of the last eight",
           kind="number", value=lambda run: run.reward, key="reward",
           format=lambda run: _with_curve(run.curve, run.reward),
           cell=Cell(rank=2, width=15, least=6, right=True)),
    Column(name="train_loss", about="loss of the last step, of runs without rewards such as SFT",
           kind="number", value=lambda run: run.train_loss, key="train_loss",
           format=lambda run: _with_curve(run.loss_curve, run.train_loss),
           cell=Cell(rank=2, head="loss", width=15, least=6, right=True)),
    Column(name="validation", about="reward of the last validation", kind="number",
           value=lambda run: run.validation, key="validation",
           format=lambda run: _score(run.validation),
           cell=Cell(rank=4, head="val", width=6, right=True)),
    Column(name="changed", about="overrides that differ from the config file, e.g. changed:lr=",
           kind="text", value=lambda run: run.changed, key="changed",
           to_json=lambda run: list(run.changed), cell=Cell(rank=5, least=14)),
    Column(name="config", about="name of the config", kind="text",
           value=lambda run: (run.config,), key="config", to_json=lambda run: run.config),
    Column(name="kind", about="grpo, sft, command, adopted or pipeline", kind="text",
           value=lambda run: (run.kind,), key="kind", to_json=lambda run: run.kind),
    Column(name="started", about="e.g. <2d: in the last two days", kind="time",
           value=lambda run: run.started, key="started"),
    Column(name="duration", about="time that all attempts took", kind="duration", value=_duration,
           aliases=("took",), key="duration_s", cell=Cell(rank=6, head="took", right=True)),
    Column(name="age", about="e.g. <2d: started in the last two days", kind="age",
           value=lambda run: run.started, key=None, cell=Cell(rank=3, width=4, right=True)),
    Column(name="tag", about="one of its tags", kind="text", value=lambda run: run.notes.tags,
           key="tags", to_json=lambda run: list(run.notes.tags)),
    Column(name="note", about="its note", kind="text", value=lambda run: _texts(run.notes.text),
           key="note", to_json=lambda run: run.notes.text),
    Column(name="ended", about="when it ended", kind="time", value=lambda run: run.state.ended,
           key=None),
    Column(name="attempt", about="above 1: it was resumed", kind="number",
           value=lambda run: run.state.attempt, key=None),
    Column(name="exit", about="exit code", kind="number", value=lambda run: run.state.exit_code,
           key=None),
)  # fmt: skip
