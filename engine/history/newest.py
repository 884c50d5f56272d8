"""The newest value of one metric, without reading a whole history."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from engine.base import files, jsonl
from engine.base.holes import before_hole
from engine.history.train_log import Step, history, read_steps

_BLOCK = 64 * 1024


def newest_value(train_log: Path, metric: str) -> float | None:
    """The value at the last step that has ``metric``; None for a NaN and where no step has it.

    A log that a resumed run went on with is read whole: its last lines need not be the last steps.
    """
    needle, seen = json.dumps(metric, ensure_ascii=False).encode(), False
    for line in _backwards(train_log):
        if seen and needle not in line:
            continue
        record = jsonl.parse_line(line)
        step = None if record is None else Step.from_json(record)
        if step is None:
            continue
        if step.attempt > 1:
            return _of_history(train_log, metric)
        if metric in step.metrics:
            return step.metrics[metric]
        seen = True
    return None


def newest_names(train_log: Path) -> tuple[str, ...]:
    """The metrics of the last line that is a step."""
    for line in _backwards(train_log):
        record = jsonl.parse_line(line)
        if record is not None and (step := Step.from_json(record)) is not None:
            return tuple(step.metrics)
    return ()


def _of_history(train_log: Path, metric: str) -> float | None:
    steps = reversed(history(read_steps(train_log)))
    return next((step.metrics[metric] for step in steps if metric in step.metrics), None)


def _backwards(path: Path) -> Iterator[bytes]:
    """The lines of a file, last one first; none of a file that cannot be read."""
    try:
        handle = files.open_regular(path)
    except OSError:
        return
    with handle:
        descriptor, rest = handle.fileno(), b""
        place = before_hole(descriptor, handle.seek(0, 2))
        while place:
            size = min(_BLOCK, place)
            place -= size
            block = os.pread(descriptor, size, place)
            if not block.strip(b"\0"):
                place, rest = before_hole(descriptor, place), b""
                continue
            head, *lines = (block + rest).split(b"\n")
            yield from reversed(lines)
            rest = head
        yield rest
