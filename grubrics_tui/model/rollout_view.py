"""The position in the rollouts of a run, as a value that every key press replaces; their search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from engine.base.follow import Cancelled
from engine.run.conversation import Conversation
from engine.run.history.reward_records import Split
from engine.run.history.rollout_query import EVERYTHING, SORTS, Filter, chosen
from engine.run.history.rollouts import Group, Rollout, StepRollouts, Visit
from grubrics_tui.text.terminal_text import clean_text, may_show
from grubrics_tui.text.word_diff import Piece

Hit = tuple[str, int]
"""Group and rollout of a response that contains the searched text."""


def holds(rollout: Rollout, wanted: str) -> bool:
    """Whether a response, as it is shown, contains ``wanted``, which is casefolded."""
    text = rollout.text()
    return may_show(text, wanted) and wanted in clean_text(text).casefold()


def in_order(groups: Sequence[Group], sort: str, only: Filter) -> Iterator[tuple[Group, Rollout]]:
    """The rollouts in the order of the screen."""
    for group in groups:
        for rollout in chosen(group, sort, only):
            yield group, rollout


def first_hit(
    groups: Sequence[Group], wanted: str, sort: str, only: Filter, way: int, cancelled: Cancelled
) -> Hit | None:
    """The first rollout that contains the text, or the last one if ``way`` is negative."""
    rollouts = list(in_order(groups, sort, only))
    for group, rollout in rollouts[:: 1 if way > 0 else -1]:
        if cancelled():
            return None
        if holds(rollout, wanted):
            return group.id, rollout.number
    return None


def steps_onward(steps: Sequence[int], step: int, way: int) -> list[int]:
    """All other steps, the next one first; the search wraps around."""
    later, earlier = [s for s in steps if s > step], [s for s in steps if s < step]
    return [*later, *earlier] if way > 0 else [*reversed(earlier), *reversed(later)]


GroupKey = tuple[str, int, str]
"""Split, step and group ID."""

Pair = tuple[int, int]
"""The numbers of two rollouts of a group: the selected one and its rival."""


@dataclass(frozen=True)
class GroupTexts:
    """Prompt, responses and reference answer (``truth``) of a group, read from the files when the
    group is shown; ``diffs`` as far as they were asked for."""

    key: GroupKey = ("", 0, "")
    prompt: str = ""
    texts: Mapping[int, str] = field(default_factory=dict)
    truth: str = ""
    conversations: Mapping[int, Conversation] = field(default_factory=dict)
    """Of the rollouts that called tools."""
    diffs: Mapping[Pair, tuple[Piece, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class RolloutView:
    """The step, group and rollout on the screen, with sort order, filter and search hits.

    Groups in which no rollout passes the filter are skipped.
    """

    split: Split = "train"
    steps: tuple[int, ...] = ()
    read: StepRollouts | None = None
    group_id: str = ""
    rollout: int | None = None
    other: int | None = None
    """The number of the rollout that was chosen as the rival."""
    sort: str = "score"
    only: Filter = EVERYTHING
    hits: frozenset[Hit] = frozenset()
    visits: tuple[Visit, ...] | None = None

    @property
    def groups(self) -> tuple[Group, ...]:
        groups = self.read.groups if self.read else ()
        return tuple(g for g in groups if any(self.only.keeps(r, g) for r in g.rollouts))

    @property
    def group(self) -> Group | None:
        groups = self.groups
        return next((g for g in groups if g.id == self.group_id), groups[0] if groups else None)

    @property
    def group_number(self) -> int:
        """From 1; 0 without a group."""
        group = self.group
        return self.groups.index(group) + 1 if group else 0

    @property
    def rollouts(self) -> tuple[Rollout, ...]:
        """The rollouts of the group that pass the filter, in the sort order."""
        group = self.group
        return chosen(group, self.sort, self.only) if group else ()

    @property
    def selected(self) -> Rollout | None:
        """The rollout with the number ``rollout``, or the first one of the list."""
        rollouts = self.rollouts
        return next(
            (r for r in rollouts if r.number == self.rollout), rollouts[0] if rollouts else None
        )

    @property
    def rival(self) -> Rollout | None:
        """The chosen one; else the best rollout of the group, for the best one the second best."""
        group, selected = self.group, self.selected
        if group is None or selected is None:
            return None
        for rollout in group.rollouts:
            if rollout.number == self.other != selected.number:
                return rollout
        if group.best is not None and group.best.number != selected.number:
            return group.best
        rivals = [r for r in chosen(group, "score", EVERYTHING) if r.number != selected.number]
        return rivals[0] if rivals else None

    def loaded(self, read: StepRollouts) -> RolloutView:
        """The view of another step, at the same prompt if the step has it."""
        before = self.group
        same = next((g.id for g in read.groups if g.id == self.group_id), None)
        if same is None and before is not None and before.digest:
            same = next((g.id for g in read.groups if g.digest == before.digest), None)
        shown = self.read
        keeps_hits = shown is not None and (shown.split, shown.step) == (read.split, read.step)
        return replace(
            self,
            read=read,
            group_id=same or "",
            rollout=self.rollout if same and keeps_hits else None,
            other=self.other if same and keeps_hits else None,
            hits=self.hits if keeps_hits else frozenset(),
        )

    def moved(self, count: int) -> RolloutView:
        """The view ``count`` rollouts further down the list; stops at its ends."""
        rollouts, selected = self.rollouts, self.selected
        if selected is None:
            return self
        index = min(max(rollouts.index(selected) + count, 0), len(rollouts) - 1)
        return replace(self, group_id=self._id, rollout=rollouts[index].number)

    def rival_moved(self, count: int) -> RolloutView:
        """The view with another rival, ``count`` rollouts further down the list."""
        rivals = [rollout for rollout in self.rollouts if rollout != self.selected]
        if not rivals:
            return self
        current = rivals.index(self.rival) + count if self.rival in rivals else 0
        index = min(max(current, 0), len(rivals) - 1)
        return replace(self, group_id=self._id, other=rivals[index].number)

    def to_group(self, count: int) -> RolloutView:
        groups, group = self.groups, self.group
        if group is None:
            return self
        index = min(max(groups.index(group) + count, 0), len(groups) - 1)
        changed = groups[index].id != group.id
        if not changed:
            return replace(self, group_id=group.id)
        return replace(self, group_id=groups[index].id, rollout=None, other=None)

    def hit_beside(self, way: int) -> RolloutView | None:
        """The view at the next hit of the search; None after the last hit of the step."""
        order = self._order
        hits = [index for index, hit in enumerate(order) if hit in self.hits]
        current = order.index((self._id, self.selected.number)) if self.selected else 0
        beside = [index for index in hits if (index > current if way > 0 else index < current)]
        if not beside:
            return None
        group, rollout = order[beside[0 if way > 0 else -1]]
        return replace(self, group_id=group, rollout=rollout)

    def to_hit(self, way: int) -> RolloutView:
        """The view at the next hit of the search; after the last one, at the first."""
        if (beside := self.hit_beside(way)) is not None:
            return beside
        hits = [hit for hit in self._order if hit in self.hits]
        if not hits:
            return self
        group, rollout = hits[0 if way > 0 else -1]
        return replace(self, group_id=group, rollout=rollout)

    @property
    def _order(self) -> list[Hit]:
        """Group and number of all rollouts in the order of the screen."""
        in_screen_order = in_order(self.groups, self.sort, self.only)
        return [(group.id, rollout.number) for group, rollout in in_screen_order]

    def sorted_next(self) -> RolloutView:
        sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
        return replace(self, sort=sort, group_id=self._id, rollout=None)

    def step_beside(self, count: int) -> tuple[int, str] | None:
        """The step to which ``[`` and ``]`` go, and its group while a prompt is followed."""
        step = self.read.step if self.read else None
        if step is None:
            return (self.steps[-1], "") if self.steps else None
        if self.visits is not None:
            return self._visit_beside(count)
        earlier = [number for number in self.steps if number < step]
        later = [number for number in self.steps if number > step]
        if count > 0:
            return (later[min(count, len(later)) - 1], "") if later else None
        return (earlier[-min(-count, len(earlier))], "") if earlier else None

    def _visit_beside(self, count: int) -> tuple[int, str] | None:
        visited = [(visit.step, visit.group) for visit in self.visits or ()]
        current = (self.read.step if self.read else 0, self._id)
        if current not in visited:
            return None
        index = min(max(visited.index(current) + count, 0), len(visited) - 1)
        return visited[index] if visited[index] != current else None

    @property
    def _id(self) -> str:
        return self.group.id if self.group else ""
