"""The events of a log in their order, before they are interpreted."""

from __future__ import annotations

import re
from collections import Counter, deque
from dataclasses import dataclass, field

from engine.doctor.text.line import Line
from engine.doctor.text.progress import Mark
from engine.doctor.text.rules import Role, Rule
from engine.doctor.text.tracebacks import Raised

MANY_RETRIES = 5
"""From this many retries on, a problem is not a passing one."""
MOST_PER_RULE = 20
"""Events recorded per rule; further ones are only counted."""
_MOST_KINDS = 2000
_MOST_RETRIES = 20
LINES_OF_A_FRAME = 3
"""At most: its place, its source line, and the markers below it."""


@dataclass(frozen=True, slots=True)
class Event:
    """A match of a rule, or an exception that no rule matches (``rule`` is None)."""

    line: Line
    rule: Rule | None
    groups: dict[str, str]
    raised: Raised | None
    mark: Mark
    is_quoted: bool = False
    """The log ends with the source line that raises the exception, before the exception itself."""

    def __deepcopy__(self, _: object) -> Event:
        return self

    @property
    def role(self) -> Role:
        return self.rule.role if self.rule else Role.CAUSE

    @property
    def category(self) -> str:
        """Empty for an exception that no rule matches."""
        return self.rule.category if self.rule else ""

    @property
    def frames(self) -> tuple[str, ...]:
        return self.raised.frames if self.raised else ()


@dataclass
class Events:
    """Events in bounded memory: the first of each rule are recorded, all are counted."""

    recorded: list[Event] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    _recorded: Counter[str] = field(default_factory=Counter)
    retry_counts: Counter[str] = field(default_factory=Counter)
    retries: deque[Event] = field(default_factory=lambda: deque(maxlen=_MOST_RETRIES))
    """Problems that the program retried: harmless, unless they ended the run."""
    substitutes: deque[Line] = field(default_factory=lambda: deque(maxlen=_MOST_RETRIES))
    """Lines that name what the program uses instead of what failed."""

    def has_substitute(self, event: Event) -> bool:
        """Whether a substitute is named just above the event's traceback, or just below it."""
        above = 2 + LINES_OF_A_FRAME * len(event.frames)
        return any(
            line.source == event.line.source and -2 <= event.line.number - line.number <= above
            for line in self.substitutes
        )

    def admit(self, rule: Rule | None, line: Line) -> bool:
        """Count an event, and return whether it is one to record."""
        key = _key(rule, line)
        if key not in self.counts and len(self.counts) >= _MOST_KINDS:
            return False
        is_one_of_the_first = self._recorded[key] < MOST_PER_RULE
        self.counts[key] += line.times
        self._recorded[key] += 1
        return is_one_of_the_first

    def retry_last(self, line: Line) -> None:
        """Turn the event just above ``line``, which says so, into a retry.

        From ``MANY_RETRIES`` on, and if its rule is hopeless, the event stays recorded.
        """
        last = self.recorded[-1] if self.recorded else None
        if last is None or last.line.source != line.source:
            return
        is_just_above = 0 < line.number - last.line.number <= 2
        if not is_just_above or (last.rule is not None and last.rule.hopeless):
            return
        key = _key(last.rule, last.line)
        self.retry_counts[key] += 1
        if self.retry_counts[key] < MANY_RETRIES:
            self.retries.append(self.recorded.pop())
            self.counts[key] -= last.line.times

    def count(self, event: Event) -> int:
        return self.counts[_key(event.rule, event.line)]


def _key(rule: Rule | None, line: Line) -> str:
    return rule.id if rule else f"unknown:{shape(line.text)}"


def shape(text: str) -> str:
    """Return the line with every number as 0, to recognize repetitions."""
    return re.sub(r"\d+", "0", text[:200])
