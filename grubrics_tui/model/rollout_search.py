"""Search the responses of a step, or of several steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.base.follow import Cancelled
from engine.history.rollout_query import Filter, chosen
from engine.history.rollouts import Answer, Group
from grubrics_tui.text.terminal_text import clean_text

Hit = tuple[str, int]
"""Group and rollout of an answer that holds what was searched for."""


def holds(answer: Answer, wanted: str) -> bool:
    """Whether the text of an answer, as it is shown, holds ``wanted``, which is casefolded."""
    return wanted in clean_text(answer.text()).casefold()


def in_order(groups: Sequence[Group], sort: str, only: Filter) -> Iterator[tuple[Group, Answer]]:
    """The rollouts in the order of the screen."""
    for group in groups:
        for answer in chosen(group, sort, only):
            yield group, answer


def first_hit(
    groups: Sequence[Group], wanted: str, sort: str, only: Filter, way: int, cancelled: Cancelled
) -> Hit | None:
    """The first answer that holds the text; the last one when looking backwards (``way`` < 0)."""
    answers = list(in_order(groups, sort, only))
    for group, answer in answers[:: 1 if way > 0 else -1]:
        if cancelled():
            return None
        if holds(answer, wanted):
            return group.id, answer.rollout
    return None


def steps_onward(steps: Sequence[int], here: int, way: int) -> list[int]:
    """All other steps, the next one first, around the end as well."""
    after, before = [s for s in steps if s > here], [s for s in steps if s < here]
    return [*after, *before] if way > 0 else [*reversed(before), *reversed(after)]
