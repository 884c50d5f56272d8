"""Counts of a step's rollouts, kept small: a run's records are read once and forgotten."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from engine.doctor.rewards.rollout_record import Rollout

_TELLING = 3
_EXAMPLES = 24
_SAME = 1e-9


@dataclass(slots=True)
class Group:
    """The rollouts of one prompt, as far as their spread goes."""

    rewards: list[float] = field(default_factory=list)
    texts: set[int] = field(default_factory=set)

    @property
    def is_flat(self) -> bool:
        return len(self.rewards) > 1 and max(self.rewards) - min(self.rewards) < _SAME

    @property
    def is_one_text(self) -> bool:
        return len(self.rewards) > 1 and len(self.texts) == 1


@dataclass(slots=True)
class Tally:
    """One step. ``examples`` are the first of its scored rollouts, to look at if it is sick."""

    step: int
    records: int = 0
    scored: int = 0
    failures: Counter[str] = field(default_factory=Counter)
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
    telling: dict[str, list[Rollout]] = field(default_factory=dict)
    examples: list[Rollout] = field(default_factory=list)

    def add(self, one: Rollout) -> None:
        self.records += 1
        self.tries += one.tries
        if one.failed_tries:
            self.failed_tries.update(one.failed_tries)
        if one.failure is not None:
            self.failures[one.failure] += 1
            kept = self.telling.setdefault(one.failure, [])
            if len(kept) < _TELLING:
                kept.append(one)
        elif one.reward is not None:
            self._score(one, one.reward)

    def _score(self, one: Rollout, reward: float) -> None:
        self.scored += 1
        self.low, self.high = min(self.low, reward), max(self.high, reward)
        self.empty += not one.text.strip()
        self.judged += len(one.judge) > 1
        self.golds += len(one.gold) > 1
        self.gold_constant += one.gold_is_constant
        if one.judge_is_constant:
            self.judge_constant += 1
            self.judge_values.add(one.judge[0])
        if one.split == "train" and self.closed is None:
            group = self.groups[one.group]
            group.rewards.append(reward)
            group.texts.add(hash(one.text))
            if len(self.examples) < _EXAMPLES:
                self.examples.append(one)

    def spread(self) -> tuple[int, int, int]:
        """Groups of several rollouts; those without spread; those of one and the same text."""
        if self.closed is not None:
            return self.closed
        several = [group for group in self.groups.values() if len(group.rewards) > 1]
        flat = sum(group.is_flat for group in several)
        return len(several), flat, sum(group.is_one_text for group in several)

    def close(self) -> None:
        """Forget what only the newest steps are asked for; records that come late are counted."""
        if self.closed is None:
            self.closed = self.spread()
        self.groups, self.examples = {}, []

    def share(self, kind: str) -> float:
        return self.failures[kind] / self.records if self.records else 0.0

    @property
    def is_flat(self) -> bool:
        groups, flat, _ = self.spread()
        return groups > 0 and flat == groups
