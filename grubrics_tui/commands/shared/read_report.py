"""Describe what ``diagnose`` has read when it found nothing.

"No findings" for an empty or binary file must not read as healthy.
"""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path

from engine.base import files
from engine.base.errors import UsageError
from engine.base.holes import chunks
from engine.runs.rundir import RunDir

_END = 64 * 1024
_TEXT_CONTROLS = frozenset(b"\a\b\t\n\v\f\r\x1b")
_MOST_CONTROLS = 0.05
"""Share of control characters in text; every tenth byte of compressed data is one."""


def unusable(path: Path) -> str:
    """Return why a file cannot be diagnosed, or an empty text. Raises OSError."""
    if path.is_dir() or _kind(path):
        return ""
    with files.open_regular(path) as handle:
        size = handle.seek(0, os.SEEK_END)
        handle.seek(0)
        head = handle.read(_END)
        handle.seek(max(0, size - _END))
        ends = head, handle.read(_END)
    if not size:
        return "is empty"
    if not any(end.strip() for end in ends):
        return "contains only white space"
    if all(map(_is_binary, ends)):
        return "contains no readable text: it is binary, compressed or UTF-16"
    return ""


def of_path(path: Path) -> str:
    """Return the format of a file and its last step. Raises OSError."""
    from engine.formats.detect import detect
    from engine.formats.external_run import read_steps

    kind = _kind(path)
    if not kind:
        lines = _lines(path)
        return f"{lines:,} line{'' if lines == 1 else 's'} of text in no known log format"
    last = detect(path).open().last_step() or next(iter(deque(read_steps(path), maxlen=1)), None)
    return f"{kind}, " + ("no step yet" if last is None else f"up to step {last.step}")


def of_run(run: RunDir) -> str:
    """Return the state of a run and its last step."""
    from engine.runs.state import describe, observed_state

    state = observed_state(run)
    done = "no step yet" if state.step is None else f"up to step {state.step}"
    return f"a run, {describe(state)}, {done}"


def _kind(path: Path) -> str:
    """Return the name of the file's format; empty if it is not known."""
    from engine.formats.external_run import open_external

    try:
        return open_external(path).format.name
    except UsageError:
        return ""


def _is_binary(data: bytes) -> bool:
    controls = sum(byte < 32 and byte not in _TEXT_CONTROLS for byte in data)
    return controls > _MOST_CONTROLS * len(data)


def _lines(path: Path) -> int:
    with files.open_regular(path) as handle:
        count, last = 0, b""
        for _, block in chunks(handle.fileno(), 0, 1 << 20):
            count, last = count + block.count(b"\n"), block
        return count + bool(last and not last.endswith(b"\n"))
