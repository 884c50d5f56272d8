"""Counts of each step's rollouts, from an attempt's ``reward.jsonl`` as it grows.

Memory is bounded: a record is read once, and only the newest steps keep their groups and examples.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from engine.base.follow import RESTARTS, FileFollower
from engine.base.typed import decode_record
from engine.doctor.rewards.rollout_record import Rollout, read_rollout
from engine.run.history.reward_records import RewardRecord
from engine.run.rule_context import RuleContext

_WITH_ERROR = 3
_EXAMPLES = 24
_SAME = 1e-9
_KEPT_STEPS = 2000
_OPEN_STEPS = 2
"""Workers append in parallel: a step is still written to while the next one begins."""
_NO_STEP = 0


@dataclass(slots=True)
class Group:
    """Rewards and texts of the rollouts of one prompt."""

    rewards: list[float] = field(default_factory=list)
    texts: set[int] = field(default_factory=set)

    @property
    def is_flat(self) -> bool:
        return len(self.rewards) > 1 and max(self.rewards) - min(self.rewards) < _SAME

    @property
    def is_one_text(self) -> bool:
        return len(self.rewards) > 1 and len(self.texts) == 1


@dataclass(slots=True)
class StepCounts:
    """One step. ``examples`` are the first of its scored rollouts, ``failed_examples`` the first of
    each error class; ``raised`` counts the exceptions of the class ``other``."""

    step: int
    records: int = 0
    scored: int = 0
    trained: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    raised: Counter[str] = field(default_factory=Counter)
    failed_tries: Counter[str] = field(default_factory=Counter)
    tries: int = 0
    low: float = float("inf")
    high: float = float("-inf")
    judge_constant: int = 0
    judged: int = 0
    judge_values: set[float] = field(default_factory=set)
    gold_constant: int = 0
    golds: int = 0
    empty: int = 0
    groups: dict[str, Group] = field(default_factory=lambda: defaultdict(Group))
    closed: tuple[int, int, int] | None = None
    failed_examples: dict[str, list[Rollout]] = field(default_factory=dict)
    examples: list[Rollout] = field(default_factory=list)

    def add(self, rollout: Rollout) -> None:
        self.records += 1
        record = rollout.record
        self.tries += record.attempts
        if record.failed_attempts:
            self.failed_tries.update(record.failed_attempts)
        if rollout.failure is not None:
            self.failures[rollout.failure] += 1
            if rollout.failure == "other":
                self.raised[rollout.exception] += 1
            examples = self.failed_examples.setdefault(rollout.failure, [])
            if len(examples) < _WITH_ERROR:
                examples.append(rollout)
        elif record.reward is not None:
            self._score(rollout, record.reward)

    def _score(self, rollout: Rollout, reward: float) -> None:
        record = rollout.record
        self.scored += 1
        self.trained += record.split == "train"
        self.low, self.high = min(self.low, reward), max(self.high, reward)
        self.empty += not record.text.strip()
        self.judged += len(record.judge) > 1
        self.golds += len(record.gold) > 1
        self.gold_constant += rollout.gold_is_constant
        if rollout.judge_is_constant:
            self.judge_constant += 1
            self.judge_values.add(record.judge[0])
        if record.split == "train" and self.closed is None:
            group = self.groups[record.group]
            group.rewards.append(reward)
            group.texts.add(hash(record.text))
            if len(self.examples) < _EXAMPLES:
                self.examples.append(rollout)

    def spread(self) -> tuple[int, int, int]:
        """Count groups of several rollouts: all, zero-std, and those of identical texts."""
        if self.closed is not None:
            return self.closed
        several = [group for group in self.groups.values() if len(group.rewards) > 1]
        flat = sum(group.is_flat for group in several)
        return len(several), flat, sum(group.is_one_text for group in several)

    def close(self) -> None:
        """Drop groups and examples, which only new steps need; late records are still counted."""
        if self.closed is None:
            self.closed = self.spread()
        self.groups, self.examples = {}, []

    def share(self, kind: str) -> float:
        """Return the share of the rollouts that failed with this error class."""
        return self.failures[kind] / self.records if self.records else 0.0

    @property
    def is_flat(self) -> bool:
        groups, flat, _ = self.spread()
        return groups > 0 and flat == groups


@dataclass(frozen=True)
class RewardSteps:
    """What reward rules get: the counts by step, oldest first, and the context of the run.

    Validation before step 1 is step 0.
    """

    steps: Sequence[StepCounts]
    context: RuleContext
    path: str


class RewardFile:
    """The counts by step of one ``reward.jsonl``; ``poll`` reads only what was appended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._follower = FileFollower(path)
        self._steps: dict[int, StepCounts] = {}

    def poll(self) -> None:
        """Read the new complete lines."""
        if self._follower.poll() in RESTARTS:
            self._steps.clear()
        if self._follower.file is not None:
            for offset, line in self._follower.file.lines():
                self._add(line, offset)

    def steps(self) -> list[StepCounts]:
        """Return the newest steps, oldest first."""
        return [self._steps[number] for number in sorted(self._steps)]

    def _add(self, line: bytes, offset: int) -> None:
        record = decode_record(line, RewardRecord)
        if record is None:
            return
        number = _NO_STEP if record.step is None else record.step
        counts = self._steps.get(number)
        if counts is None:
            counts = self._steps[number] = StepCounts(number)
            self._close_old_steps(number)
        counts.add(read_rollout(record, offset))

    def _close_old_steps(self, newest: int) -> None:
        """Reduce finished steps to their counts, and drop very old ones."""
        for number in list(islice(reversed(self._steps), 2 * _OPEN_STEPS + 2)):
            if number < newest - _OPEN_STEPS:
                self._steps[number].close()
        while len(self._steps) > _KEPT_STEPS:
            del self._steps[next(iter(self._steps))]
