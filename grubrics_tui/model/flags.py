"""Events of a run as flags on the step axis of its charts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from engine.base import jsonl
from engine.history import metrics
from engine.history.columns import Column, Columns, Floats
from grubrics_tui.drawing.chart_data import FlagKind, Flags
from grubrics_tui.text.terminal_text import clean_line

SAVE_TIME = "timing_s/save_checkpoint"

CHECKPOINT = FlagKind("checkpoint saved", "success", "▲", "^")
VALIDATION = FlagKind("validation", "mark", "◇", "v")
ATTEMPT = FlagKind("attempt started", "primary", "»", ">")
STOP = FlagKind("stop asked for", "quiet", "■", "#")
END = FlagKind("ended", "quiet", "┤", "]")
WARNING = FlagKind("warning", "warning", "!", "!")
STALL = FlagKind("stalled", "warning", "‖", "=")
FINDING = FlagKind("finding", "error", "◉", "*")

# In the order they are drawn: of two in one place the later one is seen.
_KINDS = (VALIDATION, CHECKPOINT, END, WARNING, STALL, STOP, ATTEMPT, FINDING)
_BY_EVENT: Mapping[str, FlagKind] = {
    "checkpoint": CHECKPOINT,
    "validation": VALIDATION,
    "resume": ATTEMPT,
    "stop": STOP,
    "stall": STALL,
    "warning": WARNING,
    "finding": FINDING,
    "end": END,
}


def flags_of(events: Iterable[Mapping[str, Any]], columns: Columns) -> tuple[Flags, ...]:
    """The run's events and, from its metrics, the steps that saved or validated.

    An event without a step is placed at the last step logged before it. The end of the run's last
    attempt is no flag: the line ends there.
    """
    named: dict[FlagKind, list[tuple[float, str]]] = {kind: [] for kind in _KINDS}
    listed = list(events)
    for index, event in enumerate(listed):
        kind = _BY_EVENT.get(str(event.get("event")))
        if kind is None or (kind is END and index == len(listed) - 1):
            continue
        step = _step_of(event, columns.times)
        if step is not None:
            named[kind].append((step, _text(event, kind)))
    logged = {
        CHECKPOINT: _logged(columns.get(SAVE_TIME)),
        VALIDATION: _logged(columns.get(metrics.VALIDATION_REWARD)),
    }
    flags = (_flags(kind, steps, logged.get(kind)) for kind, steps in named.items())
    return tuple(flag for flag in flags if flag.x.size)


def _flags(kind: FlagKind, named: Sequence[tuple[float, str]], logged: Floats | None) -> Flags:
    """Of a long run thousands of steps saved: with no event among them they stay an array."""
    steps = np.empty(0) if logged is None else logged
    if not named:
        return Flags(kind, steps, (kind.name,) * steps.size)
    ordered = sorted({**dict(named), **dict.fromkeys(steps.tolist(), kind.name)}.items())
    return Flags(kind, np.array([x for x, _ in ordered]), tuple(text for _, text in ordered))


def _logged(column: Column) -> Floats:
    """The steps with a value other than 0: a phase that did not happen takes no time."""
    steps: Floats = column.steps[np.nan_to_num(column.values) != 0]
    return steps


def _step_of(event: Mapping[str, Any], times: Column) -> float | None:
    named = jsonl.integer(event.get("step"))
    if named is None:
        named = jsonl.integer(event.get("from_step"))
    moment = jsonl.moment(event.get("t"))
    if named is not None or moment is None or not len(times):
        return None if named is None else float(named)
    logged = int(np.searchsorted(np.maximum.accumulate(times.values), moment, side="right"))
    return float(times.steps[logged - 1]) if logged else None


def _text(event: Mapping[str, Any], kind: FlagKind) -> str:
    if kind is ATTEMPT:
        return f"attempt {jsonl.integer(event.get('attempt')) or '?'} started"
    text = event.get("message") or event.get("reason") or event.get("state")
    return clean_line(str(text).encode(errors="replace"))[:60] if text else kind.name
