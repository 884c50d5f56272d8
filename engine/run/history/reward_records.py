"""The reward records of an attempt (``reward.jsonl``): a line, and the lines of a step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, cast

from msgspec import Struct, to_builtins

from engine.base import files, jsonl
from engine.base.follow import RESTARTS, Cancelled, FileFollower
from engine.base.typed import Integer, Line, Moment, Number, decode_record
from engine.run.conversation import Conversation

Split = Literal["train", "val"]
Key = tuple[str, int | None]
"""Group and rollout: what joins a record and a dumped row."""

PARTS = ("alignment", "length_penalty", "info_value", "defense_penalty")
OVERLONG = "overlong_reward"
"""The penalty for a long response, 0 or less (``engine.train.reward_entry``)."""

ErrorKind = Literal[
    "auth", "not_found", "rate_limit", "timeout", "connection", "parse", "server", "data", "other",
    "reward_timeout",
]  # fmt: skip

_VERSION = 1
_OF_JUDGE = frozenset({"rubric", "gold_scores", "judge_scores", "judge_latency_s",
                       "semaphore_wait_s", "attempts", "failed_attempts", "tokens"})  # fmt: skip
_OF_FUNCTION = frozenset({"answer", "ground_truth"})
_OF_SOME_RUNS = frozenset({"blocked", "conversation"})


class ScoringError(Struct, frozen=True, gc=False):
    """Why a rollout has no reward. ``message`` is one line and never contains a credential."""

    kind: ErrorKind = "other"
    """``auth``, ``rate_limit``, ``timeout``, ``parse`` and others."""
    message: Line = ""


class Tokens(Struct, frozen=True, gc=False):
    """Input and output tokens of a judge's calls, as the server counts them."""

    input: Integer
    """Of the messages."""
    output: Integer
    """Of the replies."""


class Position(Struct, frozen=True, gc=False, kw_only=True):
    """Where in a run a rollout belongs. ``group`` is its prompt in this step."""

    split: Split | None = "train"
    """``train`` or ``val``; None for a damaged one, which belongs to neither."""
    step: Integer | None = None
    """The training step."""
    group: str = ""
    rollout: Integer | None = None
    """Its number in the group."""


class RewardRecord(Position, frozen=True, gc=False, kw_only=True):
    """The reward of one rollout with everything that led to it: a line of ``reward.jsonl``.

    ``reward`` is None on error. ``t`` is when it was recorded, by the process ``pid``. A judge's
    record has the ``rubric``, that of an own reward function the ``answer`` and ``ground_truth``.
    ``parts`` are the reward components before their weights, or what the function returned beside
    the score. Scores are in the order of the answers; a gap is None. ``judge_latency_s`` is of the
    call that helped; ``attempts`` count all calls, and ``failed_attempts`` say why the others
    failed, None in records without them. Times are in seconds.
    """

    t: Moment | None = None
    pid: Integer | None = None
    question_id: str = ""
    """The record of the data."""
    rubric: str | None = None
    answer: str | None = None
    ground_truth: str | bool | int | float | None = None
    gold_scores: tuple[Number | None, ...] = ()
    """The scores that the answers should have."""
    reward: Number | None = None
    parts: dict[str, Number | None] | None = None
    judge_scores: tuple[Number | None, ...] | None = None
    """The scores that the judge gave."""
    judge_latency_s: Number | None = None
    semaphore_wait_s: Number | None = None
    """Seconds that its calls waited for their turn."""
    attempts: Integer = 0
    failed_attempts: tuple[str, ...] | None = None
    tokens: Tokens | None = None
    """Of all calls; None where the server counts none."""
    duration_s: Number | None = None
    """Seconds that the reward took."""
    error: ScoringError | None = None
    """None for a scored rollout."""
    n_chars: Integer | None = None
    """Characters of the text; None in earlier records."""
    blocked: tuple[str, ...] | None = None
    """The texts of the blocklist in the response; None without a blocklist."""
    conversation: Conversation | None = None
    """The turns and calls of an agent loop with tools."""

    @property
    def key(self) -> Key:
        """What joins the record and a dumped row: group and rollout."""
        return self.group, self.rollout

    @property
    def is_own(self) -> bool:
        """Whether an own reward function made the record; else a judge was called."""
        return self.answer is not None

    @property
    def text(self) -> str:
        """The text that was scored: a response by an own reward function, else a rubric."""
        return self.answer or self.rubric or ""

    @property
    def length(self) -> int:
        """Characters of the text."""
        return len(self.text) if self.n_chars is None else self.n_chars

    @property
    def judge(self) -> tuple[float, ...]:
        """The judge's scores to compare: none where one is missing, for a gap is no zero."""
        return _without_gap(self.judge_scores or ())

    @property
    def gold(self) -> tuple[float, ...]:
        """The gold scores to compare; as ``judge``."""
        return _without_gap(self.gold_scores)

    @property
    def numbers(self) -> dict[str, float]:
        """The parts that are numbers, under names that are safe to show."""
        return numbers_of_reward(self.parts)

    def to_json(self) -> dict[str, object]:
        """The members of the line. A function's record has no fields of a judge."""
        absent = _OF_JUDGE if self.is_own else _OF_FUNCTION
        members = {"v": _VERSION, "t": self.t, **to_builtins(self)}
        return {
            name: value
            for name, value in members.items()
            if name not in absent and not (value is None and name in _OF_SOME_RUNS)
        }


class RewardRecords:
    """Byte ranges by split and step; ``poll`` reads only what was appended since the last call."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._follower = FileFollower(path)
        self._ranges: dict[tuple[Split, int], list[tuple[int, int]]] = {}

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
        return {record.key: record for record in self._records(split, step)}

    def texts(self, split: Split, step: int) -> Iterator[str]:
        """The texts of a step that were scored."""
        return (record.text for record in self._records(split, step))

    def _records(self, split: Split, step: int) -> Iterator[RewardRecord]:
        ranges = self._ranges.get((split, step), [])
        if not ranges:
            return
        with files.open_regular(self.path) as handle:
            for start, end in ranges:
                handle.seek(start)
                while start < end and (line := handle.readline()):
                    start += len(line)
                    if (record := decode_record(line, RewardRecord)) is not None:
                        yield record

    def _add(self, line: bytes, offset: int) -> None:
        # A line without the fields of a record is decoded three times as fast.
        place = decode_record(line, Position)
        if place is None or place.step is None or place.split is None:
            return
        key = (place.split, place.step)
        ranges = self._ranges.setdefault(key, [])
        end = offset + len(line)
        if ranges and ranges[-1][1] == offset:
            ranges[-1] = (ranges[-1][0], end)
        else:
            ranges.append((offset, end))


def numbers_of_reward(parts: object) -> dict[str, float]:
    """The numbers among what a reward returned beside the score; a yes is 1."""
    named = parts.items() if isinstance(parts, dict) else ()
    plain = ((name, float(value) if isinstance(value, bool) else value) for name, value in named)
    numbers = {jsonl.line(name) or "?": jsonl.number(value) for name, value in plain}
    return {name: value for name, value in numbers.items() if value is not None}


def _without_gap(scores: tuple[float | None, ...]) -> tuple[float, ...]:
    return () if None in scores else cast("tuple[float, ...]", scores)
