"""Which answers to show, and in which order."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from engine.base.errors import UsageError, unknown_name
from engine.history.rollouts import Answer, Group

SORTS = ("rollout", "score", "advantage", "length", "error")
FLAGS = ("error", "flat", "best", "untrained")
NUMBERS = ("score", "advantage", "length", "rollout", "alignment", "info", "defense", "penalty")

_TERMS = {"info": "info_value", "defense": "defense_penalty", "penalty": "length_penalty"}
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt, "=": operator.eq,
}  # fmt: skip
_TERM = re.compile(r"(?P<name>\w+)\s*(?P<sign><=|>=|<|>|=)\s*(?P<number>[-+]?[\d.]+)")


@dataclass(frozen=True)
class Term:
    """One condition: a flag, or a number compared with a limit. Missing numbers never match."""

    name: str
    sign: str = ""
    limit: float = 0.0

    def keeps(self, answer: Answer, group: Group) -> bool:
        if self.sign:
            value = number_of(answer, self.name)
            return value is not None and _COMPARE[self.sign](value, self.limit)
        return {
            "error": answer.failed,
            "flat": group.is_flat,
            "best": answer is group.best,
            "untrained": not answer.trained,
        }[self.name]


@dataclass(frozen=True)
class Filter:
    """Conditions that all hold; without any everything is kept."""

    text: str = ""
    terms: tuple[Term, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Filter:
        """``score<0.5 length>1000 error``. Raises UsageError for what it does not know."""
        terms = [_comparison(match) for match in _TERM.finditer(text)]
        for word in _TERM.sub(" ", text).split():
            if word not in FLAGS:
                raise unknown_name("filter", word, (*FLAGS, *(f"{name}<1" for name in NUMBERS)))
            terms.append(Term(word))
        return cls(" ".join(text.split()), tuple(terms))

    def keeps(self, answer: Answer, group: Group) -> bool:
        return all(term.keeps(answer, group) for term in self.terms)


EVERYTHING = Filter()


def chosen(group: Group, sort: str, only: Filter) -> tuple[Answer, ...]:
    """The answers of a group that ``only`` keeps, the best first (shortest, for ``length``)."""
    return ordered((answer for answer in group.answers if only.keeps(answer, group)), sort)


def ordered(answers: Iterable[Answer], sort: str) -> tuple[Answer, ...]:
    """Raises UsageError for an unknown order. What has no such number comes last."""
    if sort not in SORTS:
        raise unknown_name("sort", sort, SORTS)
    rows = sorted(answers, key=lambda answer: answer.rollout)
    if sort == "error":
        return tuple(sorted(rows, key=lambda answer: (not answer.failed, answer.error is None)))
    if sort == "length":
        return tuple(sorted(rows, key=lambda answer: answer.length))
    if sort == "rollout":
        return tuple(rows)
    return tuple(sorted(rows, key=lambda answer: _falling(number_of(answer, sort))))


def number_of(answer: Answer, name: str) -> float | None:
    """A quantity of an answer by the name that filters use."""
    if name in ("score", "advantage", "length", "rollout"):
        value: float | None = getattr(answer, name)
        return value
    return (answer.parts or {}).get(_TERMS.get(name, name))


def _falling(value: float | None) -> tuple[bool, float]:
    return value is None, 0.0 if value is None else -value


def _comparison(match: re.Match[str]) -> Term:
    name, limit = match["name"], match["number"]
    if name not in NUMBERS:
        raise unknown_name("filter", name, NUMBERS)
    try:
        return Term(name, match["sign"], float(limit))
    except ValueError:
        raise UsageError(f"filter '{match.group()}': '{limit}' is not a number") from None
