"""One record of ``reward.jsonl``, reduced to what a diagnosis needs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from engine.base import jsonl
from engine.doctor.rewards.failure_kinds import refine_kind
from engine.run.finding import Evidence
from engine.run.history.reward_records import OVERLONG, PARTS, RewardRecord
from engine.tasks.rubrics import parse_rubric

_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?=: )")
_EXCERPT = 160
_LONGEST = 20_000
_SAME = 1e-9


class Rollout(Struct, frozen=True, gc=False):
    """A record and why it has no reward: the recorder's error kind, or a more specific one.

    ``offset`` is that of its line.
    """

    record: RewardRecord
    failure: str | None
    message: str
    offset: int

    @property
    def exception(self) -> str:
        """Return the name of the exception that the message begins with; the message without."""
        name = _EXCEPTION.match(self.message)
        return name[0] if name else self.message

    @property
    def judge_is_constant(self) -> bool:
        return _is_constant(self.record.judge)

    @property
    def gold_is_constant(self) -> bool:
        return _is_constant(self.record.gold)

    @property
    def has_items(self) -> bool:
        """Whether the text contains a rubric. Costs a parse: call it for few rollouts."""
        return bool(parse_rubric(self.record.text))

    def evidence(self, path: str) -> Evidence:
        """Return the rollout in one line: IDs, scores or error, and the beginning of its text."""
        record, group = self.record, jsonl.line(self.record.group) or ""
        recorded = record.parts or {}
        parts = {name: recorded[name] for name in (*PARTS, OVERLONG) if name in recorded}
        reward = "none" if record.reward is None else f"{record.reward:.3g}"
        judge, gold = record.judge_scores or (), record.gold_scores
        judged = f", judge {_row(judge)}, gold {_row(gold)}"
        summary = self.message or f"reward {reward}{judged if judge or gold else ''}"
        return Evidence(
            f"group {group[:8]} rollout {record.rollout}: {summary} | {excerpt(record.text)}",
            path,
            self.offset,
            record.step,
            {"group": group, "rollout": record.rollout, "reward": record.reward, **parts},
        )


def read_rollout(record: RewardRecord, offset: int) -> Rollout:
    """Return the rollout of a record whose line begins at ``offset``."""
    failure, message = None, ""
    if (error := record.error) is not None:
        failure = refine_kind(error.kind, error.message, is_own=record.is_own)
        message = error.message
    elif record.reward is None:
        failure, message = "nan", "the reward is not a number"
    return Rollout(record, failure, message, offset)


def excerpt(text: str) -> str:
    """Return the beginning of a text on one line, quoted, and the end of a long text."""
    lines = (jsonl.line(part) or "" for part in text[:_LONGEST].splitlines())
    line = " / ".join(part.strip() for part in lines if part.strip())
    if not line:
        return "(empty)"
    if len(line) > _EXCERPT:
        line = f"{line[: _EXCERPT - 40]} ... {line[-34:]}"
    return f'"{line}"'


def _is_constant(scores: Sequence[float]) -> bool:
    return len(scores) > 1 and max(scores) - min(scores) < _SAME


def _row(values: Sequence[float | None]) -> str:
    shown = ("-" if value is None else f"{value:.2g}" for value in values[:8])
    return f"[{' '.join(shown)}]" if values else "none"
