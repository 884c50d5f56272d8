"""What the rollout screen asks its threads, and the messages in which they answer."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from textual import work
from textual.message import Message
from textual.worker import get_current_worker

from engine.history.reward_records import Split
from engine.history.rollouts import Group, RolloutStore, StepRollouts, Visit
from engine.history.word_diff import Piece, differences
from engine.runs.rundir import RunDir
from grubrics_tui.drawing.rollouts import common_tail
from grubrics_tui.model.latest_request import Latest
from grubrics_tui.model.rollout_search import Hit, first_hit, holds
from grubrics_tui.model.rollout_texts import GroupTexts, Pair, Place
from grubrics_tui.model.rollout_view import RolloutView
from grubrics_tui.screens.base import CockpitScreen

_POLL_S = 2.0
_FRAME_PROMPTS = 8
"""So many prompts of a step tell what all of them end with."""
_TOLD_GROUPS = 16


@dataclass(frozen=True)
class Target:
    """The step to show, and in it the group and answer when they are known."""

    split: Split
    step: int
    group: str = ""
    rollout: int | None = None


@dataclass(frozen=True)
class Quest:
    """What is searched for, from which step on."""

    text: str
    split: Split
    step: int


class RolloutReading(CockpitScreen):
    """Two threads live as long as the screen: one lists the steps, one reads the step asked for.

    Texts, searches and comparisons have a thread each; a newer question ends the older one.
    """

    class Listed(Message):
        """The steps that have rollouts by now."""

        def __init__(self, split: Split, steps: tuple[int, ...]) -> None:
            super().__init__()
            self.split, self.steps = split, steps

    class Loaded(Message):
        """A step was read; ``frame`` is what all its prompts end with."""

        def __init__(self, target: Target, read: StepRollouts, frame: str) -> None:
            super().__init__()
            self.target, self.read, self.frame = target, read, frame

    class Failed(Message):
        """A step could not be read; it is tried again with the next look."""

        def __init__(self, target: Target, why: str) -> None:
            super().__init__()
            self.target, self.why = target, why

    class TextsRead(Message):
        def __init__(self, texts: GroupTexts) -> None:
            super().__init__()
            self.texts = texts

    class Compared(Message):
        def __init__(self, place: Place, pair: Pair, pieces: tuple[Piece, ...]) -> None:
            super().__init__()
            self.place, self.pair, self.pieces = place, pair, pieces

    class Searched(Message):
        """Answers of a step that hold the text, as of ``done`` of ``total`` groups."""

        def __init__(self, quest: Quest, hits: frozenset[Hit], done: int, total: int) -> None:
            super().__init__()
            self.quest, self.hits, self.done, self.total = quest, hits, done, total

    class Sought(Message):
        """The search in other steps: ``found`` once one holds the text, else how far it is."""

        def __init__(self, quest: Quest, found: Target | None, done: int, total: int) -> None:
            super().__init__()
            self.quest, self.found, self.done, self.total = quest, found, done, total

    class Followed(Message):
        """Where the prompt was asked, so far."""

        def __init__(self, visits: tuple[Visit, ...], done: int, total: int) -> None:
            super().__init__()
            self.visits, self.done, self.total = visits, done, total

    def __init__(self, run: RunDir) -> None:
        super().__init__()
        self.run = run
        self.store = RolloutStore(run.path)
        self.view = RolloutView()
        self.wanted: Latest[Target] = Latest()
        self._left, self._look_now = threading.Event(), threading.Event()

    def on_mount(self) -> None:
        self._list_steps()
        self._load_steps()

    def on_unmount(self) -> None:
        self._left.set()
        self._look_now.set()
        self.wanted.close()

    def look_now(self) -> None:
        """Do not wait for the next look at the files."""
        self._look_now.set()

    @work(thread=True, group="steps", exit_on_error=False)
    def _list_steps(self) -> None:
        told: object = None
        while not self._left.is_set():
            self._look_now.clear()
            split = self.view.split
            steps = self.store.steps(split, self._left.is_set)
            read = self.view.read
            # Of a step that goes on there may be more by now, and in the end its dump.
            if (split, steps) != told or (steps and (read is None or not read.dumped)):
                self.post_message(self.Listed(split, steps))
                told = (split, steps)
            self._look_now.wait(_POLL_S)

    @work(thread=True, group="step", exit_on_error=False)
    def _load_steps(self) -> None:
        for target in self.wanted.requests():
            try:
                read = self.store.load(target.split, target.step, self.wanted.is_stale)
                frame = common_tail({one.prompt() for one in islice(read.groups, _FRAME_PROMPTS)})
            except Exception as error:  # Whatever it is: the thread has other steps to read.
                answer: Message = self.Failed(target, f"{type(error).__name__}: {error}")
            else:
                answer = self.Loaded(target, read, frame)
            if not self.wanted.is_stale():
                self.post_message(answer)

    @work(thread=True, exclusive=True, group="texts", exit_on_error=False)
    def read_texts(self, group: Group, place: Place) -> None:
        worker, texts = get_current_worker(), dict[int, str]()
        for answer in group.answers:
            if worker.is_cancelled:
                return
            texts[answer.rollout] = answer.text()
        truth = group.answers[0].ground_truth() if group.answers else ""
        self.post_message(self.TextsRead(GroupTexts(place, group.prompt(), texts, truth)))

    @work(thread=True, exclusive=True, group="diff", exit_on_error=False)
    def compare(self, texts: GroupTexts, pair: Pair) -> None:
        worker = get_current_worker()
        pieces = differences(texts.texts.get(pair[0], ""), texts.texts.get(pair[1], ""))
        if not worker.is_cancelled:
            self.post_message(self.Compared(texts.place, pair, pieces))

    @work(thread=True, exclusive=True, group="search", exit_on_error=False)
    def search(self, quest: Quest, groups: Sequence[Group]) -> None:
        """Every answer of the step that holds the text."""
        worker, hits, wanted = get_current_worker(), set[Hit](), quest.text.casefold()
        for done, group in enumerate(groups, 1):
            for answer in group.answers:
                if worker.is_cancelled:
                    return
                if holds(answer, wanted):
                    hits.add((group.id, answer.rollout))
            if done == len(groups) or done % _TOLD_GROUPS == 0:
                self.post_message(self.Searched(quest, frozenset(hits), done, len(groups)))

    @work(thread=True, exclusive=True, group="seek", exit_on_error=False)
    def seek(self, quest: Quest, steps: Sequence[int], way: int) -> None:
        """The first of ``steps`` that holds the text in an answer that the filter keeps."""
        worker, view, wanted = get_current_worker(), self.view, quest.text.casefold()
        for done, step in enumerate(steps, 1):
            read = self.store.load(quest.split, step, lambda: worker.is_cancelled)
            hit = first_hit(
                read.groups, wanted, view.sort, view.only, way, lambda: worker.is_cancelled
            )
            if worker.is_cancelled:
                return
            found = Target(quest.split, step, *hit) if hit else None
            self.post_message(self.Sought(quest, found, done, len(steps)))
            if found:
                return

    @work(thread=True, exclusive=True, group="follow", exit_on_error=False)
    def follow(self, prompt: str, split: Split, total: int) -> None:
        """Where the prompt was asked, step by step."""
        worker, found = get_current_worker(), list[Visit]()
        looked = self.store.visits(prompt, split, lambda: worker.is_cancelled)
        for done, (_, visits) in enumerate(looked, 1):
            if worker.is_cancelled:
                return
            found += visits
            if visits or done >= total or done % _TOLD_GROUPS == 0:
                self.post_message(self.Followed(tuple(found), done, max(total, done)))
