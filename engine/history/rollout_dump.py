"""verl's dump of a step's rollouts: one JSON line per output, ``<step>.jsonl``.

verl 0.9 sorts the rows by ``uid``, which is ``{sample}_{rollout}_{output}``; its padding rows have
one that starts with ``pad``. Older versions write no ``uid``: rows with one prompt are a group.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base import files, jsonl
from engine.base.follow import Cancelled
from engine.base.holes import numbered_lines
from engine.history.reward_records import LineRange, parts_of, text_of

PADDING = "pad"


@dataclass(frozen=True)
class DumpRow:
    """One output without its texts. ``prompt`` is a digest: equal for equal prompts."""

    group: str
    rollout: int
    output: int
    score: float | None
    parts: dict[str, float] | None
    length: int
    prompt: str
    line: LineRange


def dump_files(folder: Path) -> dict[int, Path]:
    """The dumps in a folder by their step."""
    try:
        return {int(path.stem): path for path in folder.glob("*.jsonl") if path.stem.isdigit()}
    except OSError:
        return {}


def read_rows(path: Path, cancelled: Cancelled = bool) -> Iterator[DumpRow]:
    """The rows of a dump, padding left out; ends early when cancelled."""
    numbers: Counter[str] = Counter()
    for line, raw in _lines(path, cancelled):
        record = jsonl.parse_line(raw)
        if record is not None and (row := _row(record, line, numbers)) is not None:
            yield row


def read_rows_of(path: Path, prompt: str, cancelled: Cancelled = bool) -> Iterator[DumpRow]:
    """The rows with exactly this prompt. Lines that cannot hold it are not parsed, for speed."""
    needles = tuple(json.dumps(prompt, ensure_ascii=escape).encode() for escape in (False, True))
    numbers: Counter[str] = Counter()
    for line, raw in _lines(path, cancelled):
        record = jsonl.parse_line(raw) if any(needle in raw for needle in needles) else None
        if record is None or record.get("input") != prompt:
            continue
        if (row := _row(record, line, numbers)) is not None:
            yield row


def read_outputs(path: Path, cancelled: Cancelled = bool) -> Iterator[str]:
    """The texts of a dump's outputs, padding included."""
    for _, raw in _lines(path, cancelled):
        if (record := jsonl.parse_line(raw)) is not None:
            yield output_of(record)


def read_answers(path: Path) -> Iterator[tuple[str, str]]:
    """Text and ground truth of each output of a dump whose truth is recorded."""
    for _, raw in _lines(path, bool):
        record = jsonl.parse_line(raw) or {}
        truth = record.get("gts", record.get("ground_truth"))
        if isinstance(truth, str | int | float) and str(truth).strip():
            yield output_of(record), str(truth)


def output_of(record: dict[str, Any]) -> str:
    """The text of a row; of a reward record, the text that was scored."""
    return str(record.get("output", text_of(record)))


def _lines(path: Path, cancelled: Cancelled) -> Iterator[tuple[LineRange, bytes]]:
    try:
        handle = files.open_regular(path)
    except OSError:
        return
    with handle:
        for offset, line in numbered_lines(handle.fileno()):
            if cancelled():
                return
            yield LineRange(path, offset, len(line)), line


def _row(record: dict[str, Any], line: LineRange, numbers: Counter[str]) -> DumpRow | None:
    uid, prompt, text = (_text(record.get(key)) for key in ("uid", "input", "output"))
    if uid.startswith(PADDING) or not ("output" in record or "score" in record):
        return None
    digest = hashlib.blake2b(prompt.encode(errors="replace"), digest_size=8).hexdigest()
    group, rollout, output = _split(uid, f"prompt-{digest}")
    if rollout is None:
        rollout = numbers[group]
        numbers[group] += 1
    score = jsonl.number(record.get("score"))
    return DumpRow(group, rollout, output, score, parts_of(record), len(text), digest, line)


def _split(uid: str, unnamed: str) -> tuple[str, int | None, int]:
    """Group, rollout and output; the rollout is None where the row does not name it."""
    parts = uid.rsplit("_", 2)
    if len(parts) == 3 and parts[1].isdecimal() and parts[2].isdecimal():
        return parts[0], int(parts[1]), int(parts[2])
    return uid or unnamed, None, 0


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
