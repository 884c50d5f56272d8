"""Read and search the steps and texts of a run's rollouts in threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Protocol

from textual.screen import Screen
from textual.worker import get_current_worker

from engine.run.conversation import Conversation
from engine.run.history.reward_records import Split
from engine.run.history.rollouts import Group, RolloutStore, StepRollouts, StepSearch, Visit
from engine.run.run import Run
from grubrics_tui.drawing.rollouts import common_tail
from grubrics_tui.model.poller import Pace, Poller
from grubrics_tui.model.rollout_view import (
    GroupKey,
    GroupTexts,
    Hit,
    Pair,
    RolloutView,
    first_hit,
    holds,
    steps_onward,
)
from grubrics_tui.text.terminal_text import may_show
from grubrics_tui.text.word_diff import Piece, differences

_POLL_S = 2.0
_SUFFIX_PROMPTS = 8
"""How many prompts of a step are compared to find the text that all of them end with."""
_PROGRESS_GROUPS = 16


@dataclass(frozen=True)
class Target:
    """The step to show, and in it the group and rollout when they are known."""

    split: Split
    step: int
    group: str = ""
    rollout: int | None = None


@dataclass(frozen=True)
class SearchRequest:
    """The text to search for, and the step to start from."""

    text: str
    split: Split
    step: int


class Audience(Protocol):
    """What takes the results: the screen, whose thread calls each of these."""

    def take_steps(self, split: Split, steps: tuple[int, ...]) -> None:
        """The steps that have rollouts by now."""

    def take_step(self, target: Target, rollouts: StepRollouts, suffix: str) -> None:
        """A step; ``suffix`` is the text that all its prompts end with."""

    def report_failure(self, target: Target, reason: str) -> None:
        """Why a step could not be read; the next poll tries again."""

    def take_texts(self, texts: GroupTexts) -> None:
        """Prompt and responses of one group."""

    def take_diff(self, key: GroupKey, pair: Pair, pieces: tuple[Piece, ...]) -> None:
        """The word diff of two responses of a group."""

    def take_hits(
        self, request: SearchRequest, hits: frozenset[Hit], done: int, total: int
    ) -> None:
        """Rollouts of a step that contain the text, as of ``done`` of ``total`` groups."""

    def take_other_steps(
        self, request: SearchRequest, target: Target | None, done: int, total: int
    ) -> None:
        """Progress of a search in other steps; ``target`` is the first hit, or None so far."""

    def take_visits(self, visits: tuple[Visit, ...], done: int, total: int) -> None:
        """The steps with the prompt, after ``done`` of ``total`` steps were searched."""


class RolloutReader:
    """Reads for one screen.

    Two threads live as long as the screen: one lists the steps, one reads the step asked for.
    Texts, searches and diffs have a thread each; a newer request ends the older one.
    """

    def __init__(
        self, screen: Screen[None], taker: Audience, run: Run, view: Callable[[], RolloutView]
    ) -> None:
        """``taker`` is the screen, too. ``view`` returns what it shows now, to the threads."""
        self.store = RolloutStore(run.path)
        self._screen, self._taker, self._view = screen, taker, view
        self._targets: Poller[Target] = Poller()
        self._step_lists: Poller[None] = Poller()

    def start(self) -> None:
        self._run_thread(self._list_steps, "steps")
        self._run_thread(self._load_steps, "step")

    def close(self) -> None:
        self._step_lists.close()
        self._targets.close()

    def list_steps(self) -> None:
        """List the steps now instead of at the next poll."""
        self._step_lists.wake()

    def load(self, target: Target) -> None:
        self._targets.ask(target)

    def read_texts(self, group: Group, key: GroupKey) -> None:
        self._run_thread(partial(self._read_texts, group, key), "texts")

    def diff(self, texts: GroupTexts, pair: Pair) -> None:
        self._run_thread(partial(self._diff, texts, pair), "diff")

    def search_step(self, request: SearchRequest, groups: Sequence[Group]) -> None:
        """Find every rollout of the step that contains the text."""
        self._run_thread(partial(self._search_step, request, groups), "search")

    def search_steps(self, request: SearchRequest, steps: Sequence[int], direction: int) -> None:
        """Find the first of ``steps`` with the text in a rollout that the filter keeps."""
        self._run_thread(partial(self._search_steps, request, steps, direction), "seek")

    def follow_prompt(self, prompt: str, split: Split, total: int) -> None:
        """Find the steps with the prompt."""
        self._run_thread(partial(self._follow_prompt, prompt, split, total), "follow")

    def cancel_search(self) -> None:
        self._screen.workers.cancel_group(self._screen, "search")

    def cancel_search_steps(self) -> None:
        self._screen.workers.cancel_group(self._screen, "seek")

    def cancel_follow_prompt(self) -> None:
        self._screen.workers.cancel_group(self._screen, "follow")

    def _run_thread(self, work: Callable[[], None], group: str) -> None:
        self._screen.run_worker(work, group=group, exclusive=True, thread=True, exit_on_error=False)

    def _list_steps(self) -> None:
        posted: object = None
        self._step_lists.wake()
        for _ in self._step_lists.rounds(Pace(_POLL_S)):
            split = self._view().split
            steps = self.store.steps(split, self._step_lists.is_closed)
            shown = self._view().read
            # A step without its dump may have gained rollouts, or its dump, since the last poll.
            if (split, steps) != posted or (steps and (shown is None or not shown.dumped)):
                self._screen.call_later(self._taker.take_steps, split, steps)
                posted = (split, steps)

    def _load_steps(self) -> None:
        for target in self._targets.rounds():
            try:
                rollouts = self.store.load(target.split, target.step, self._targets.is_stale)
                suffix = common_tail(
                    {group.prompt() for group in islice(rollouts.groups, _SUFFIX_PROMPTS)}
                )
            except Exception as error:  # One bad step must not end the thread.
                answer = partial(
                    self._taker.report_failure, target, f"{type(error).__name__}: {error}"
                )
            else:
                answer = partial(self._taker.take_step, target, rollouts, suffix)
            if not self._targets.is_stale():
                self._screen.call_later(answer)

    def _read_texts(self, group: Group, key: GroupKey) -> None:
        worker, texts = get_current_worker(), dict[int, str]()
        conversations = dict[int, Conversation]()
        for rollout in group.rollouts:
            if worker.is_cancelled:
                return
            texts[rollout.number] = rollout.text()
            if (conversation := rollout.conversation) is not None and conversation.calls:
                conversations[rollout.number] = conversation
        truth = group.rollouts[0].ground_truth() if group.rollouts else ""
        read = GroupTexts(key, group.prompt(), texts, truth, conversations)
        self._screen.call_later(self._taker.take_texts, read)

    def _diff(self, texts: GroupTexts, pair: Pair) -> None:
        worker = get_current_worker()
        pieces = differences(texts.texts.get(pair[0], ""), texts.texts.get(pair[1], ""))
        if not worker.is_cancelled:
            self._screen.call_later(self._taker.take_diff, texts.key, pair, pieces)

    def _search_step(self, request: SearchRequest, groups: Sequence[Group]) -> None:
        worker, hits, wanted = get_current_worker(), set[Hit](), request.text.casefold()
        for done, group in enumerate(groups, 1):
            for rollout in group.rollouts:
                if worker.is_cancelled:
                    return
                if holds(rollout, wanted):
                    hits.add((group.id, rollout.number))
            if done == len(groups) or done % _PROGRESS_GROUPS == 0:
                self._screen.call_later(
                    self._taker.take_hits, request, frozenset(hits), done, len(groups)
                )

    def _search_steps(self, request: SearchRequest, steps: Sequence[int], direction: int) -> None:
        worker, view, wanted = get_current_worker(), self._view(), request.text.casefold()

        def is_cancelled() -> bool:
            return worker.is_cancelled

        step_search = StepSearch(self.store, request.split, lambda text: may_show(text, wanted))
        for done, step in enumerate(steps, 1):
            hit = None
            if step_search.may_match(step, is_cancelled):
                groups = self.store.load(request.split, step, is_cancelled).groups
                hit = first_hit(groups, wanted, view.sort, view.only, direction, is_cancelled)
            if worker.is_cancelled:
                return
            target = Target(request.split, step, *hit) if hit else None
            self._screen.call_later(self._taker.take_other_steps, request, target, done, len(steps))
            if target:
                return

    def _follow_prompt(self, prompt: str, split: Split, total: int) -> None:
        worker, visits = get_current_worker(), list[Visit]()
        by_step = self.store.visits(prompt, split, lambda: worker.is_cancelled)
        for done, (_, visits_of_step) in enumerate(by_step, 1):
            if worker.is_cancelled:
                return
            visits += visits_of_step
            if visits_of_step or done >= total or done % _PROGRESS_GROUPS == 0:
                self._screen.call_later(
                    self._taker.take_visits, tuple(visits), done, max(total, done)
                )


class RolloutSearch:
    """The search that is active, if any.

    A search finds every hit of the step. After its last hit, the next step that contains the text
    is searched in the background. Methods return the view to show.
    """

    def __init__(self, reader: RolloutReader, say: Callable[[str], None]) -> None:
        """``say`` shows the status of the search; an empty text clears it."""
        self.text = ""
        self._reader, self._say = reader, say
        self._searches_step = False
        self._direction = 0
        """In which direction other steps are searched; 0: they are not."""

    def start(self, text: str, view: RolloutView) -> RolloutView:
        """Search the step of ``view``; an empty text ends the search."""
        self.stop_other_steps()
        self._reader.cancel_search()
        self.text = text
        self._say("")
        view = replace(view, hits=frozenset())
        if text:
            self.search_step(view)
        return view

    def search_step(self, view: RolloutView) -> None:
        self._searches_step = bool(view.groups)
        self._reader.search_step(self._request(view), view.groups)

    def stop_other_steps(self) -> bool:
        """False when no other step was being searched."""
        was_searching = bool(self._direction)
        if was_searching:
            self._reader.cancel_search_steps()
            self._direction = 0
            self._say("")
        return was_searching

    def next_hit(self, view: RolloutView, way: int) -> RolloutView:
        """The view at the next hit of the step; without one, start to search the other steps."""
        if (beside := view.hit_beside(way)) is not None:
            return beside
        if not self.text or not view.read or self._searches_step or self._direction:
            return view
        steps = steps_onward(view.steps, view.read.step, way)
        if not steps:
            return view.to_hit(way)
        self._direction = way
        self._say(f"searching other steps for '{self.text}'")
        self._reader.search_steps(self._request(view), steps, way)
        return view

    def take_hits(
        self, request: SearchRequest, hits: frozenset[Hit], done: int, total: int, view: RolloutView
    ) -> RolloutView | None:
        """The view with the hits so far, at the first hit in the end; None for an old search."""
        if request != self._request(view):
            return None
        self._searches_step = done < total
        status = f"{len(hits)} with '{self.text}'"
        if self._searches_step:
            status += f", {done} of {total} groups"
        elif not hits and len(view.steps) > 1:
            status += ": n searches other steps"
        self._say(status)
        current = (view.group.id, view.selected.number) if view.group and view.selected else None
        view = replace(view, hits=hits)
        if not self._searches_step and hits and current not in hits:
            return view.to_hit(1)
        return view

    def take_other_steps(
        self,
        request: SearchRequest,
        target: Target | None,
        done: int,
        total: int,
        view: RolloutView,
    ) -> Target | RolloutView | None:
        """The step to load, or the view to show; None for an old search."""
        if request != self._request(view) or not self._direction:
            return None
        direction = self._direction
        if target is not None:
            self._direction = 0
            return target
        if done == total:
            self._direction = 0
            self._say(f"no other step contains '{self.text}'")
            return view.to_hit(direction)
        self._say(f"'{self.text}': {done} of {total} steps, esc stops")
        return view

    def _request(self, view: RolloutView) -> SearchRequest:
        return SearchRequest(self.text, view.split, view.read.step if view.read else -1)
