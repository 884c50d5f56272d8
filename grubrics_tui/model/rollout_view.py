"""The position in the rollouts of a run, as a value that every key press replaces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from engine.history.reward_records import Split
from engine.history.rollout_query import EVERYTHING, SORTS, Filter, chosen
from engine.history.rollouts import Answer, Group, StepRollouts, Visit
from grubrics_tui.model.rollout_search import Hit, in_order
from grubrics_tui.text.word_diff import Piece

GroupKey = tuple[str, int, str]
"""Split, step and group ID."""

Pair = tuple[int, int]
"""Two rollouts of a group by number: the shown one, and the one that it is compared with."""


@dataclass(frozen=True)
class GroupTexts:
    """Prompt, responses and reference answer (``truth``) of a group, read from the files when the
    group is shown; ``diffs`` as far as they were asked for."""

    key: GroupKey = ("", 0, "")
    prompt: str = ""
    texts: Mapping[int, str] = field(default_factory=dict)
    truth: str = ""
    diffs: Mapping[Pair, tuple[Piece, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class RolloutView:
    """The step that is read, the group and answer looked at, and what is shown of them.

    Only groups with an answer that the filter keeps can be reached.
    """

    split: Split = "train"
    steps: tuple[int, ...] = ()
    read: StepRollouts | None = None
    group_id: str = ""
    rollout: int | None = None
    sort: str = "score"
    only: Filter = EVERYTHING
    hits: frozenset[Hit] = frozenset()
    visits: tuple[Visit, ...] | None = None

    @property
    def groups(self) -> tuple[Group, ...]:
        every = self.read.groups if self.read else ()
        return tuple(g for g in every if any(self.only.keeps(one, g) for one in g.answers))

    @property
    def group(self) -> Group | None:
        found = self.groups
        return next((g for g in found if g.id == self.group_id), found[0] if found else None)

    @property
    def group_number(self) -> int:
        """From 1; 0 without a group."""
        group = self.group
        return self.groups.index(group) + 1 if group else 0

    @property
    def answers(self) -> tuple[Answer, ...]:
        group = self.group
        return chosen(group, self.sort, self.only) if group else ()

    @property
    def answer(self) -> Answer | None:
        found = self.answers
        return next((a for a in found if a.rollout == self.rollout), found[0] if found else None)

    @property
    def rival(self) -> Answer | None:
        """What the answer is compared with: the best of its group, for the best the next one."""
        group, answer = self.group, self.answer
        if group is None or answer is None:
            return None
        if group.best is not None and group.best.rollout != answer.rollout:
            return group.best
        others = [a for a in chosen(group, "score", EVERYTHING) if a.rollout != answer.rollout]
        return others[0] if others else None

    def loaded(self, read: StepRollouts) -> RolloutView:
        """On another step: at the prompt that was looked at, where the step has it."""
        before = self.group
        same = next((g.id for g in read.groups if g.id == self.group_id), None)
        if same is None and before is not None and before.digest:
            same = next((g.id for g in read.groups if g.digest == before.digest), None)
        keeps_hits = self.read is not None and _place(self.read) == _place(read)
        return replace(
            self,
            read=read,
            group_id=same or "",
            rollout=self.rollout if same and keeps_hits else None,
            hits=self.hits if keeps_hits else frozenset(),
        )

    def moved(self, by: int) -> RolloutView:
        """The answer ``by`` places further in the list; stops at its ends."""
        answers, here = self.answers, self.answer
        if here is None:
            return self
        index = min(max(answers.index(here) + by, 0), len(answers) - 1)
        return replace(self, group_id=self._id, rollout=answers[index].rollout)

    def to_group(self, by: int) -> RolloutView:
        groups, here = self.groups, self.group
        if here is None:
            return self
        index = min(max(groups.index(here) + by, 0), len(groups) - 1)
        changed = groups[index].id != here.id
        return replace(self, group_id=groups[index].id, rollout=None if changed else self.rollout)

    def hit_beside(self, by: int) -> RolloutView | None:
        """At the next answer that holds what was searched for; None when this step has no more."""
        order = [(group.id, answer.rollout) for group, answer in self._in_order()]
        found = [place for place, hit in enumerate(order) if hit in self.hits]
        here = order.index((self._id, self.answer.rollout)) if self.answer else 0
        beside = [place for place in found if (place > here if by > 0 else place < here)]
        if not beside:
            return None
        group, rollout = order[beside[0 if by > 0 else -1]]
        return replace(self, group_id=group, rollout=rollout)

    def to_hit(self, by: int) -> RolloutView:
        """The next answer that holds what was searched for, around the end as well."""
        if (beside := self.hit_beside(by)) is not None:
            return beside
        found = [(g.id, a.rollout) for g, a in self._in_order() if (g.id, a.rollout) in self.hits]
        if not found:
            return self
        group, rollout = found[0 if by > 0 else -1]
        return replace(self, group_id=group, rollout=rollout)

    def _in_order(self) -> Iterator[tuple[Group, Answer]]:
        return in_order(self.groups, self.sort, self.only)

    def sorted_next(self) -> RolloutView:
        sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
        return replace(self, sort=sort, group_id=self._id, rollout=None)

    def step_beside(self, by: int) -> tuple[int, str] | None:
        """The step, and while a prompt is followed the group, that ``[`` and ``]`` lead to."""
        step = self.read.step if self.read else None
        if step is None:
            return (self.steps[-1], "") if self.steps else None
        if self.visits is not None:
            return self._visit_beside(by)
        before = [one for one in self.steps if one < step]
        after = [one for one in self.steps if one > step]
        if by > 0:
            return (after[min(by, len(after)) - 1], "") if after else None
        return (before[-min(-by, len(before))], "") if before else None

    def _visit_beside(self, by: int) -> tuple[int, str] | None:
        places = [(visit.step, visit.group) for visit in self.visits or ()]
        here = (self.read.step if self.read else 0, self._id)
        if here not in places:
            return None
        index = min(max(places.index(here) + by, 0), len(places) - 1)
        return places[index] if places[index] != here else None

    @property
    def _id(self) -> str:
        return self.group.id if self.group else ""


def _place(read: StepRollouts) -> tuple[str, int]:
    return read.split, read.step
