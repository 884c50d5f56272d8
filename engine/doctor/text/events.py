"""What was read in a log, in order, before anybody has decided what it means."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from engine.doctor.text.line import Line
from engine.doctor.text.progress import Mark
from engine.doctor.text.rules import Role, Rule
from engine.doctor.text.tracebacks import Raised

MANY_RETRIES = 5
"""What is tried again so often is no passing trouble."""
MOST_PER_RULE = 20
"""Events kept of one rule; further ones are only counted."""
_MOST_KINDS = 2000
_MOST_TRIED_AGAIN = 20
LINES_OF_A_FRAME = 3
"""At most: where it is, its text, and marks below the text."""


@dataclass(frozen=True, slots=True)
class Event:
    """A rule that matched, or an exception that no rule knows (``rule`` is None)."""

    line: Line
    rule: Rule | None
    groups: dict[str, str]
    raised: Raised | None
    mark: Mark
    is_quoted: bool = False
    """Only the program text was seen that raises it: the log ends before the exception."""

    @property
    def role(self) -> Role:
        return self.rule.role if self.rule else Role.CAUSE

    @property
    def family(self) -> str:
        """Empty for an exception that no rule knows."""
        return self.rule.family if self.rule else ""

    @property
    def frames(self) -> tuple[str, ...]:
        return self.raised.frames if self.raised else ()

    @property
    def is_hopeless(self) -> bool:
        return self.rule is not None and self.rule.hopeless


@dataclass
class Events:
    """Bounded: the first of each rule are kept, all are counted."""

    kept: list[Event] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    retried: Counter[str] = field(default_factory=Counter)
    tried_again: list[Event] = field(default_factory=list)
    """What a program says it tries again: no trouble, unless it ends of it."""

    substitutes: list[Line] = field(default_factory=list)
    """Lines in which a program says what it uses instead."""

    def copied(self) -> Events:
        return Events(
            list(self.kept),
            Counter(self.counts),
            Counter(self.retried),
            list(self.tried_again),
            list(self.substitutes),
        )

    def held_back(self, event: Event) -> None:
        self.tried_again = [*self.tried_again[-_MOST_TRIED_AGAIN:], event]

    def substituted(self, line: Line) -> None:
        self.substitutes = [*self.substitutes[-_MOST_TRIED_AGAIN:], line]

    def has_substitute(self, event: Event) -> bool:
        """Whether just above the traceback, or just below it, stands what is used instead."""
        above = 2 + LINES_OF_A_FRAME * len(event.frames)
        return any(
            line.source == event.line.source and -2 <= event.line.number - line.number <= above
            for line in self.substitutes
        )

    def saw(self, rule: Rule | None, line: Line) -> bool:
        """Count what was seen; whether it is one of those to keep."""
        key = _key(rule, line)
        if key not in self.counts and len(self.counts) >= _MOST_KINDS:
            return False
        self.counts[key] += 1
        return self.counts[key] <= MOST_PER_RULE

    def take_back(self, line: Line) -> None:
        """The line says that what was just seen is tried again; often enough it stays seen."""
        last = self.kept[-1] if self.kept else None
        if last is None or not _is_just_after(line, last.line) or last.is_hopeless:
            return
        key = _key(last.rule, last.line)
        self.retried[key] += 1
        if self.retried[key] < MANY_RETRIES:
            self.held_back(self.kept.pop())
            self.counts[key] -= 1

    def count(self, event: Event) -> int:
        return self.counts[_key(event.rule, event.line)]


def _is_just_after(line: Line, other: Line) -> bool:
    return line.source == other.source and 0 < line.number - other.number <= 2


def _key(rule: Rule | None, line: Line) -> str:
    return rule.id if rule else f"unknown:{shape(line.text)}"


def shape(text: str) -> str:
    """The line without its numbers, so that repetitions are known as such."""
    return re.sub(r"\d+", "0", text[:200])
