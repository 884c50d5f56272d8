"""The reward records of an attempt (``reward.jsonl``), found by step without keeping them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from engine.base import files, jsonl
from engine.base.follow import RESTARTS, Cancelled, FileFollower
from engine.run import conversation
from engine.run.conversation import Conversation

Split = Literal["train", "val"]
Key = tuple[str, int | None]
"""Group and rollout: what joins a record and a dumped row."""

PARTS = ("alignment", "length_penalty", "info_value", "defense_penalty")
OVERLONG = "overlong_reward"
"""The penalty for a long response, 0 or less (``engine.train.reward_entry``)."""

# How the recorder's own lines begin: their step is known without parsing the texts after it.
_HEAD = re.compile(rb'\{"v": \d+, "t": [\d.e+]+, "split": "(train|val)", "step": (\d+),')


@dataclass(frozen=True)
class LineRange:
    """Where one line of a JSONL file is, in bytes."""

    path: Path
    offset: int
    size: int

    def read(self) -> dict[str, Any]:
        """The record; empty when the file is gone or was rewritten."""
        try:
            with files.open_regular(self.path) as handle:
                handle.seek(self.offset)
                return jsonl.parse_line(handle.read(self.size)) or {}
        except OSError:
            return {}


@dataclass(frozen=True)
class Failure:
    """Why a rollout has no reward."""

    kind: str
    message: str


@dataclass(frozen=True)
class RewardRecord:
    """One reward record without its text. ``parts`` are the reward components before their weights,
    or what an own reward function returned beside the score, and the turns and calls that it has.
    """

    key: Key
    question_id: str
    reward: float | None
    parts: dict[str, float] | None
    judge: tuple[float | None, ...]
    gold: tuple[float | None, ...]
    length: int
    error: Failure | None
    line: LineRange


class RewardRecords:
    """Byte ranges by split and step; ``poll`` reads only what was appended since the last call."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._follower = FileFollower(path)
        self._ranges: dict[tuple[str, int], list[tuple[int, int]]] = {}

    def poll(self, cancelled: Cancelled = bool) -> None:
        """Read the new complete lines."""
        if self._follower.poll() in RESTARTS:
            self._ranges.clear()
        if self._follower.file is not None:
            for offset, line in self._follower.file.lines(cancelled):
                self._add(line, offset)

    def steps(self, split: Split) -> set[int]:
        return {step for kind, step in self._ranges if kind == split}

    def at(self, split: Split, step: int) -> dict[Key, RewardRecord]:
        """The records of a step; of two with one key the later one."""
        records: dict[Key, RewardRecord] = {}
        for start, line in self._lines(split, step):
            record = _parse(line, LineRange(self.path, start, len(line)))
            if record is not None:
                records[record.key] = record
        return records

    def texts(self, split: Split, step: int) -> Iterator[str]:
        """The texts of a step that were scored."""
        for _, line in self._lines(split, step):
            if (record := jsonl.parse_line(line)) is not None:
                yield text_of(record)

    def _lines(self, split: Split, step: int) -> Iterator[tuple[int, bytes]]:
        """The lines of a step with their offsets."""
        ranges = self._ranges.get((split, step), [])
        if not ranges:
            return
        with files.open_regular(self.path) as handle:
            for start, end in ranges:
                handle.seek(start)
                while start < end and (line := handle.readline()):
                    yield start, line
                    start += len(line)

    def _add(self, line: bytes, offset: int) -> None:
        if (head := _HEAD.match(line)) is not None:
            key = (head[1].decode(), int(head[2]))
        else:
            record = jsonl.parse_line(line) or {}
            step = jsonl.integer(record.get("step"))
            if step is None:
                return
            key = ("val" if record.get("split") == "val" else "train", step)
        ranges = self._ranges.setdefault(key, [])
        end = offset + len(line)
        if ranges and ranges[-1][1] == offset:
            ranges[-1] = (ranges[-1][0], end)
        else:
            ranges.append((offset, end))


def text_of(record: dict[str, Any]) -> str:
    """The text that was scored: a response by an own reward function, a rubric by GRubrics."""
    text = record.get("answer", record.get("rubric"))
    return text if isinstance(text, str) else ""


def is_own(record: dict[str, Any]) -> bool:
    """Whether an own reward function made the record; else a judge was called."""
    return "answer" in record


def numbers_of_reward(parts: Any) -> dict[str, float]:
    """The numbers among what a reward returned beside the score; a yes is 1."""
    named = parts.items() if isinstance(parts, dict) else ()
    plain = ((name, float(value) if isinstance(value, bool) else value) for name, value in named)
    numbers = {jsonl.line(name) or "?": jsonl.number(value) for name, value in plain}
    return {name: value for name, value in numbers.items() if value is not None}


def conversation_of(record: dict[str, Any]) -> Conversation | None:
    """The turns and calls of a rollout of an agent loop with tools; None for another rollout."""
    return Conversation.read(record.get(conversation.FIELD))


def _parse(raw: bytes, line: LineRange) -> RewardRecord | None:
    record = jsonl.parse_line(raw)
    if record is None:
        return None
    numbers, text = numbers_of_reward(record.get("parts")), text_of(record)
    length = jsonl.integer(record.get("n_chars"))
    return RewardRecord(
        key=(str(record.get("group")), jsonl.integer(record.get("rollout"))),
        question_id=jsonl.line(record.get("question_id")) or "",
        reward=jsonl.number(record.get("reward")),
        parts={**numbers, **_counts(record)} or None,
        judge=_numbers(record.get("judge_scores")),
        gold=_numbers(record.get("gold_scores")),
        length=len(text) if length is None else length,
        error=_failure(record.get("error")),
        line=line,
    )


def _counts(record: dict[str, Any]) -> dict[str, float]:
    """The numbers of turns and calls that are not 0; empty without tools."""
    turns = conversation_of(record)
    counts = turns.numbers() if turns is not None else {}
    return {name: value for name, value in counts.items() if value}


def _numbers(values: Any) -> tuple[float | None, ...]:
    return tuple(jsonl.number(value) for value in values) if isinstance(values, list) else ()


def _failure(error: Any) -> Failure | None:
    if error is None:
        return None
    if not isinstance(error, dict):
        return Failure("other", jsonl.line(error) or "")
    return Failure(jsonl.line(error.get("kind")) or "other", jsonl.line(error.get("message")) or "")
