"""Which rollouts of a step to show, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from engine.base.errors import unknown_name
from engine.base.query import (
    AllOf,
    Condition,
    Field,
    Tree,
    Word,
    check_condition,
    compare,
    conditions,
    field_table,
    holds,
    parse,
    unknown_field,
    words,
)
from engine.run.conversation import COUNTS
from engine.run.history.rollouts import Group, Rollout

SORTS = ("rollout", "score", "advantage", "length", "error")

FLAGS: Mapping[str, Callable[[Rollout, Group], bool]] = {
    "error": lambda rollout, group: rollout.failed,
    "flat": lambda rollout, group: group.is_flat,
    "best": lambda rollout, group: rollout is group.best,
    "untrained": lambda rollout, group: not rollout.trained,
}


def _component(name: str) -> Callable[[Rollout], float | None]:
    return lambda rollout: (rollout.parts or {}).get(name)


FIELDS: tuple[Field[Rollout], ...] = (
    Field(name="score", about="reward", kind="number", value=lambda rollout: rollout.score),
    Field(name="advantage", about="advantage", kind="number",
          value=lambda rollout: rollout.advantage),
    Field(name="length", about="characters of the response", kind="number",
          value=lambda rollout: rollout.length),
    Field(name="rollout", about="number of the rollout", kind="number",
          value=lambda rollout: rollout.number),
    Field(name="alignment", about="reward component", kind="number",
          value=_component("alignment")),
    Field(name="info", about="reward component info_value", kind="number",
          value=_component("info_value")),
    Field(name="defense", about="reward component defense_penalty", kind="number",
          value=_component("defense_penalty")),
    Field(name="penalty", about="reward component length_penalty", kind="number",
          value=_component("length_penalty")),
)  # fmt: skip
_FIELDS = field_table(FIELDS)


@dataclass(frozen=True)
class Filter:
    """A checked filter of rollouts; without conditions everything passes."""

    text: str = ""
    tree: Tree = AllOf()  # noqa: RUF009 - frozen

    @classmethod
    def parse(cls, text: str, numbers: Collection[str] = ()) -> Filter:
        """Parse ``score<0.5 length>1000 error``. UsageError for unknown fields and flags.

        ``numbers``: the fields beside those of every run; see ``numbers_of``.
        """
        tree, known = parse(text), dict.fromkeys((*_FIELDS, *numbers))
        for test in conditions(tree):
            if test.name not in known:
                raise unknown_field(test, known)
            check_condition(test, "number")
        for word in words(tree):
            if word.text not in FLAGS:
                raise unknown_name("filter", word.text, (*FLAGS, *(f"{name}<1" for name in known)))
        return cls(" ".join(text.split()), tree)

    def keeps(self, rollout: Rollout, group: Group) -> bool:
        def leaf(part: Word | Condition) -> bool:
            if isinstance(part, Word):
                return FLAGS[part.text](rollout, group)
            field = _FIELDS.get(part.name)
            value = _number(part.name, rollout) if field is None else field.value(rollout)
            return compare(part, "number", value, now=0.0)

        return bool(holds(self.tree, leaf))


EVERYTHING = Filter()


def numbers_of(groups: Iterable[Group]) -> tuple[str, ...]:
    """The numbers of these rollouts that a filter can compare: what their reward function returned
    beside the score, and their turns and calls."""
    rollouts = (rollout for group in groups for rollout in group.rollouts)
    names = dict.fromkeys(name for rollout in rollouts for name in rollout.parts or ())
    return tuple(dict.fromkeys((*names, *(COUNTS if COUNTS[0] in names else ()))))


def _number(name: str, rollout: Rollout) -> float | None:
    parts = rollout.parts or {}
    # Of turns and calls, a record has the numbers that are not 0.
    is_count = name in COUNTS and COUNTS[0] in parts
    return parts.get(name, 0.0 if is_count else None)


def chosen(group: Group, sort: str, only: Filter) -> tuple[Rollout, ...]:
    """The rollouts of a group that ``only`` keeps, the best first (shortest, for ``length``)."""
    return ordered((rollout for rollout in group.rollouts if only.keeps(rollout, group)), sort)


def ordered(rollouts: Iterable[Rollout], sort: str) -> tuple[Rollout, ...]:
    """Sort rollouts; those without the number come last. UsageError for an unknown order."""
    if sort not in SORTS:
        raise unknown_name("sort", sort, SORTS)
    rows = sorted(rollouts, key=lambda rollout: rollout.number)
    if sort == "error":
        return tuple(sorted(rows, key=lambda rollout: (not rollout.failed, rollout.error is None)))
    if sort == "length":
        return tuple(sorted(rows, key=lambda rollout: rollout.length))
    if sort == "rollout":
        return tuple(rows)

    def falling(rollout: Rollout) -> tuple[bool, float]:
        value = _FIELDS[sort].value(rollout)
        return (False, -value) if isinstance(value, int | float) else (True, 0.0)

    return tuple(sorted(rows, key=falling))
