"""Which rule speaks of a line: patterns, the level it was said at, the frames above it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from functools import cache
from typing import NamedTuple

from engine.doctor.text.events import MANY_RETRIES
from engine.doctor.text.line import Line
from engine.doctor.text.rules import Role, Rule, all_rules
from engine.doctor.text.tracebacks import exception_in
from engine.doctor.text.wording import (
    is_conversation,
    is_handled,
    is_prose,
    is_retry,
    is_tally,
    is_verdict,
)

LOUD = ("ERROR", "CRITICAL", "FATAL")


class Book(NamedTuple):
    """All rules, and for every needle the patterns that need it.

    ``last`` are those without a needle: they are looked for in the last line only.
    """

    needles: tuple[bytes, ...]
    users: tuple[tuple[tuple[Rule, int], ...], ...]
    last: tuple[tuple[Rule, int], ...] = ()


class Match(NamedTuple):
    """``is_retried``: the program says that it tries again."""

    rule: Rule
    groups: dict[str, str]
    is_retried: bool = False


@cache
def book() -> Book:
    """The rules of this project and of other packages."""
    return bound(all_rules())


def bound(rules: Sequence[Rule]) -> Book:
    by_needle: dict[str, list[tuple[Rule, int]]] = {}
    last = []
    for rule in rules:
        for place, literals in enumerate(rule.literals):
            if not literals:
                last.append((rule, place))
            for literal in literals:
                by_needle.setdefault(literal, []).append((rule, place))
    needles = tuple(needle.encode() for needle in by_needle)
    return Book(needles, tuple(tuple(users) for users in by_needle.values()), tuple(last))


class Matcher:
    """Remembers only how often programs said that they try again."""

    def __init__(self, rules: Book) -> None:
        self._users, self._last = rules.users, rules.last
        self._retries: Counter[str] = Counter()

    def copied(self) -> Matcher:
        other = copy(self)
        other._retries = Counter(self._retries)
        return other

    def matches(self, line: Line, needles: Sequence[int]) -> list[Match]:
        """Every rule one of whose patterns is found, the most telling first."""
        found = []
        for rule, place in dict.fromkeys(user for one in needles for user in self._users[one]):
            match = rule.search(place, line.text)
            if match is not None and not _is_said(line, match):
                groups = {key: value for key, value in match.groupdict().items() if value}
                found.append(Match(rule, groups))
        return sorted(found, key=_order)

    def last_words(self, line: Line) -> Rule | None:
        """The rule of which a log's last line tells, though its words are common elsewhere."""
        return next((rule for rule, place in self._last if rule.search(place, line.text)), None)

    def believed(
        self, found: Sequence[Match], line: Line, above: Callable[[], str]
    ) -> Match | None:
        """The first match whose surroundings fit, unless the program says what it does instead."""
        best = next((one for one in found if _fits(one.rule, line, above)), None)
        if best is None or not (is_retry(line.text) or is_handled(line.text)):
            return best
        if best.rule.instead:
            return best
        if best.rule.hopeless and not is_handled(line.text):
            return best
        if not (best.rule.lasting or is_retry(line.text)):
            return None
        self._retries[best.rule.id] += 1
        return best._replace(is_retried=self._retries[best.rule.id] < MANY_RETRIES)


def is_boilerplate(found: Sequence[Match]) -> bool:
    return any(one.rule.role is Role.NOISE for one in found)


def _order(one: Match) -> tuple[int, bool, str, int]:
    return (-one.rule.weight, one.rule.role is not Role.CAUSE, one.rule.id, -len(one.groups))


def _is_said(line: Line, match: re.Match[str]) -> bool:
    """In prompts and answers that are printed anything may be said, and sums count what was not."""
    if line.level in LOUD or exception_in(line.text):
        return False
    if is_verdict(match):
        return False
    before = line.text[: match.start()]
    return is_prose(before) or is_conversation(line.text) or is_tally(match)


def _fits(rule: Rule, line: Line, above: Callable[[], str]) -> bool:
    if line.is_quiet and not rule.quiet and not (rule.lasting and is_retry(line.text)):
        return False
    needs_frames = rule.above is not None or rule.not_above is not None
    return not needs_frames or rule.stands_below(above())
