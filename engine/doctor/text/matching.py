"""Finds the rule that matches a line, by its patterns, its log level and the frames above it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from engine.base.errors import unknown_name
from engine.doctor.text.events import MANY_RETRIES
from engine.doctor.text.facts import Facts, facts_of
from engine.doctor.text.line import Line
from engine.doctor.text.rules import Role, Rule, all_rules
from engine.doctor.text.tracebacks import Raised, exception_in
from engine.doctor.text.wording import (
    is_conversation,
    is_handled,
    is_model_text,
    is_prose,
    is_retry,
    is_tally,
    is_verdict,
)

LOUD = ("ERROR", "CRITICAL", "FATAL")
_WARNING = re.compile(r"(?:\S+\.py:\d+: )?[A-Z]\w*Warning: ")
"""The beginning of what Python's ``warnings`` print."""


@dataclass(frozen=True)
class RuleIndex:
    """All rules, and for each needle the rules with the index of the pattern that needs it.

    ``last`` are the patterns without a needle: they are applied to the last line only.
    """

    needles: tuple[bytes, ...]
    users: tuple[tuple[tuple[Rule, int], ...], ...]
    last: tuple[tuple[Rule, int], ...]
    by_id: Mapping[str, Rule]

    def __deepcopy__(self, _: object) -> RuleIndex:
        return self


class Match(NamedTuple):
    """``is_retried``: the program says that it tries again."""

    rule: Rule
    groups: dict[str, str]
    is_retried: bool = False


@cache
def rule_index() -> RuleIndex:
    """Return the index of the rules of this project and of plugins."""
    return index_rules(all_rules())


def index_rules(rules: Sequence[Rule]) -> RuleIndex:
    by_needle: dict[str, list[tuple[Rule, int]]] = {}
    last = []
    for rule in rules:
        for pattern, literals in enumerate(rule.literals):
            if not literals:
                last.append((rule, pattern))
            for literal in literals:
                by_needle.setdefault(literal, []).append((rule, pattern))
    needles = tuple(needle.encode() for needle in by_needle)
    by_id = {rule.id: rule for rule in rules}
    for rule in rules:
        for other in rule.elsewhere.values():
            if other not in by_id:
                raise unknown_name(f"rule '{rule.id}': elsewhere", other, by_id)
    users = tuple(tuple(users) for users in by_needle.values())
    return RuleIndex(needles, users, tuple(last), by_id)


class Matcher:
    """Matches lines; its only state is how often each rule's problem was retried."""

    def __init__(self, rules: RuleIndex) -> None:
        self._rules = rules
        self._retries: Counter[str] = Counter()

    def find_matches(self, line: Line, needles: Sequence[int]) -> list[Match]:
        """Return every rule of which a pattern matches, the most specific first."""
        matches = []
        users = dict.fromkeys(user for needle in needles for user in self._rules.users[needle])
        for rule, pattern in users:
            match = rule.search(pattern, line.text)
            if match is not None and not _is_quoted(line, match):
                groups = {key: value for key, value in match.groupdict().items() if value}
                matches.append(Match(rule, groups))
        return sorted(
            matches,
            key=lambda match: (
                -match.rule.weight,
                match.rule.role is not Role.CAUSE,
                match.rule.id,
                -len(match.groups),
            ),
        )

    def match_last_line(self, line: Line) -> Rule | None:
        """Return the rule whose words, though common elsewhere, explain the end of a log."""
        return next(
            (rule for rule, pattern in self._rules.last if rule.search(pattern, line.text)), None
        )

    def choose(
        self,
        matches: Sequence[Match],
        line: Line,
        above: Callable[[], str],
        raised: Raised | None = None,
    ) -> Match | None:
        """Return the first match whose context fits.

        A problem that the program handles or retries counts only for some rules.
        """
        if not matches:
            return None
        facts = facts_of(line, raised)
        matches = [self._of_part(match, facts) for match in matches]
        fitting = (match for match in matches if _fits_context(match.rule, line, above, facts))
        best = next(fitting, None)
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

    def _of_part(self, match: Match, facts: Facts) -> Match:
        """Return the match of the rule that applies to the part of the run that failed."""
        other = match.rule.elsewhere.get(facts.part or "")
        return match._replace(rule=self._rules.by_id[other]) if other else match


def _is_quoted(line: Line, match: re.Match[str]) -> bool:
    """Whether the match is part of a printed prompt or answer, or of a sum that counts none."""
    if is_model_text(line.text[: match.start()]):
        return True
    if line.level in LOUD or exception_in(line.text) or _WARNING.match(line.text):
        return False
    if is_verdict(match):
        return False
    before = line.text[: match.start()]
    return is_prose(before) or is_conversation(line.text) or is_tally(match)


def _fits_context(rule: Rule, line: Line, above: Callable[[], str], facts: Facts) -> bool:
    if not facts.fits(rule.where):
        return False
    if line.is_quiet and not rule.quiet and not (rule.lasting and is_retry(line.text)):
        return False
    needs_frames = rule.above is not None or rule.not_above is not None
    return not needs_frames or rule.fits_below(above())
