"""The rollouts of a step as a trainer writes them: verl's dump, and TRL's logged completions.

verl writes ``<step>.jsonl``, one line per output. verl 0.9 sorts the rows by ``uid``, which is
``{sample}_{rollout}_{output}``; its padding rows have one that starts with ``pad``. Older versions
write no ``uid``. TRL writes ``completions_<step>.parquet`` (``log_completions``), with a column for
each reward function. Without a ``uid``, rows with one prompt are a group.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.base import files, jsonl
from engine.base.follow import Cancelled
from engine.base.holes import numbered_lines
from engine.base.parquet import pa, pq
from engine.run.history.reward_records import numbers_of_reward

PADDING = "pad"
_NAME = re.compile(r"(\d+)\.jsonl|completions_(\d+)\.parquet")
_COLUMNS = frozenset({"input", "output", "gts", "score", "step", "uid", "request_id", "advantage",
                      "prompt", "completion"})  # fmt: skip
"""The columns of verl and of TRL. The reward function returned the others."""


@dataclass(frozen=True)
class LineRange:
    """Where one line of a JSONL file is, in bytes."""

    path: Path
    offset: int
    size: int

    def read(self) -> dict[str, object]:
        """The record; empty when the file is gone or was rewritten."""
        try:
            with files.open_regular(self.path) as handle:
                handle.seek(self.offset)
                return jsonl.parse_line(handle.read(self.size)) or {}
        except OSError:
            return {}


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
    advantage: float | None = None
    """The one that the trainer logged."""


@dataclass(frozen=True)
class Dumps:
    """The files of a folder. Those from before ``since`` are of an earlier run."""

    folder: Path
    since: float = 0.0

    def steps(self) -> set[int]:
        try:
            paths = [path for path in self.folder.iterdir() if self._is_ours(path)]
        except OSError:
            return set()
        names = filter(None, (_NAME.fullmatch(path.name) for path in paths))
        return {int(name[1] or name[2]) for name in names}

    def at(self, step: int) -> Path | None:
        names = (f"{step}.jsonl", f"completions_{step:05}.parquet")
        paths = (self.folder / name for name in names)
        return next((path for path in paths if path.is_file() and self._is_ours(path)), None)

    def _is_ours(self, path: Path) -> bool:
        return not self.since or path.stat().st_mtime >= self.since


class TableRow(LineRange):
    """A row of a parquet file: ``offset`` is its number."""

    def read(self) -> dict[str, object]:
        return dict(enumerate(_completions(self.path))).get(self.offset, {})


def read_rows(path: Path, cancelled: Cancelled = bool) -> Iterator[DumpRow]:
    """The rows of a dump, padding left out; ends early when cancelled."""
    numbers: Counter[str] = Counter()
    for line, record in _records(path, cancelled):
        if (row := _row(record, line, numbers)) is not None:
            yield row


def read_rows_of(path: Path, prompt: str, cancelled: Cancelled = bool) -> Iterator[DumpRow]:
    """The rows with exactly this prompt. Lines that cannot hold it are not parsed, for speed."""
    needles = tuple(json.dumps(prompt, ensure_ascii=escape).encode() for escape in (False, True))
    numbers: Counter[str] = Counter()
    for line, record in _records(path, cancelled, needles):
        if record.get("input") == prompt and (row := _row(record, line, numbers)) is not None:
            yield row


def read_outputs(path: Path, cancelled: Cancelled = bool) -> Iterator[str]:
    """The texts of a dump's outputs, padding included."""
    for _, record in _records(path, cancelled):
        yield output_of(record)


def read_answers(path: Path) -> Iterator[tuple[str, str]]:
    """Text and ground truth of each output of a dump whose truth is recorded."""
    for _, record in _records(path, bool):
        truth = record.get("gts", record.get("ground_truth"))
        if isinstance(truth, str | int | float) and str(truth).strip():
            yield output_of(record), str(truth)


def output_of(record: dict[str, object]) -> str:
    """The text of a row."""
    return str(record.get("output", ""))


def _records(
    path: Path, cancelled: Cancelled, needles: tuple[bytes, ...] = (b"",)
) -> Iterator[tuple[LineRange, dict[str, object]]]:
    """The rows; of JSON lines those that have one of the ``needles``."""
    if path.suffix == ".parquet":
        for number, record in enumerate(_completions(path)):
            yield TableRow(path, number, 1), record
        return
    try:
        handle = files.open_regular(path)
    except OSError:
        return
    with handle:
        for offset, line in numbered_lines(handle.fileno()):
            if cancelled():
                return
            is_wanted = any(needle in line for needle in needles)
            if is_wanted and (parsed := jsonl.parse_line(line)) is not None:
                yield LineRange(path, offset, len(line)), parsed


def _completions(path: Path) -> list[dict[str, object]]:
    """TRL's rows under verl's names. The score is the sum of the rewards: TRL's default weights
    are 1."""
    try:
        rows = pq.read_table(path).to_pylist()
    except (OSError, pa.ArrowException):
        return []  # TRL is writing it, or wrote another table.
    return [
        {
            **row,
            "input": str(row.get("prompt", "")),
            "output": str(row.get("completion", "")),
            "score": math.fsum(rewards.values()) if (rewards := _returned(row)) else None,
        }
        for row in rows
    ]


def _returned(record: dict[str, object]) -> dict[str, float]:
    """The numbers of a row that the reward function returned beside the score."""
    return numbers_of_reward({key: value for key, value in record.items() if key not in _COLUMNS})


def _row(record: dict[str, object], line: LineRange, numbers: Counter[str]) -> DumpRow | None:
    uid, prompt, text = (_text(record.get(key)) for key in ("uid", "input", "output"))
    if uid.startswith(PADDING) or not ("output" in record or "score" in record):
        return None
    digest = hashlib.blake2b(prompt.encode(errors="replace"), digest_size=8).hexdigest()
    group, rollout, output = _split(uid, f"prompt-{digest}")
    if rollout is None:
        rollout = numbers[group]
        numbers[group] += 1
    score, advantage = (jsonl.number(record.get(key)) for key in ("score", "advantage"))
    parts = _returned(record) or None
    return DumpRow(group, rollout, output, score, parts, len(text), digest, line, advantage)


def _split(uid: str, unnamed: str) -> tuple[str, int | None, int]:
    """Group, rollout and output; the rollout is None where the row does not name it."""
    parts = uid.rsplit("_", 2)
    if len(parts) == 3 and parts[1].isdecimal() and parts[2].isdecimal():
        return parts[0], int(parts[1]), int(parts[2])
    return uid or unnamed, None, 0


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
