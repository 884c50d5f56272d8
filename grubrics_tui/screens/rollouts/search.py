"""Searching what the model answered: the step on the screen, and from there the other steps."""

from __future__ import annotations

from dataclasses import replace

from textual import on

from engine.runs.rundir import RunDir
from grubrics_tui.model.rollout_search import steps_onward
from grubrics_tui.screens.rollouts.reading import Quest, RolloutReading, Target


class RolloutSearching(RolloutReading):
    """A search finds every answer of the step; beyond its last one the next step that has the text
    is looked for, while the screen can be used. ``note`` is what a person is told about it."""

    def __init__(self, run: RunDir) -> None:
        super().__init__(run)
        self.sought, self.note = "", ""
        self._searching = False
        self._seeking = 0
        """The way in which other steps are looked through; 0: they are not."""

    def read_step(self, target: Target) -> None:
        """Show what was found in another step."""
        raise NotImplementedError

    def look(self) -> None:
        """The place has changed."""
        raise NotImplementedError

    def show(self, *, keep_place: bool = False) -> None:
        """What is known of the place has changed."""
        raise NotImplementedError

    def look_for(self, text: str) -> None:
        """Search this step; an empty text ends the search."""
        self.stop_seeking()
        self.workers.cancel_group(self, "search")
        self.sought, self.note = text, ""
        self.view = replace(self.view, hits=frozenset())
        if text:
            self.search_step()

    def search_step(self) -> None:
        self._searching = bool(self.view.groups)
        self.search(self._quest, self.view.groups)

    def stop_seeking(self) -> bool:
        """False when no other step was looked through."""
        was = bool(self._seeking)
        if was:
            self.workers.cancel_group(self, "seek")
            self._seeking, self.note = 0, ""
        return was

    def action_hit(self, by: int) -> None:
        """The next answer that was found: in this step, or else in the others."""
        if (beside := self.view.hit_beside(by)) is not None:
            self.view = beside
            self.look()
        elif self.sought and self.view.read and not (self._searching or self._seeking):
            self._seek(by)

    def _seek(self, way: int) -> None:
        quest = self._quest
        steps = steps_onward(self.view.steps, quest.step, way)
        if not steps:
            self.view = self.view.to_hit(way)
            self.look()
            return
        self._seeking, self.note = way, f"looking for '{self.sought}' in other steps"
        self.seek(quest, steps, way)
        self.show(keep_place=True)

    @property
    def _quest(self) -> Quest:
        return Quest(self.sought, self.view.split, self.view.read.step if self.view.read else -1)

    @on(RolloutReading.Searched)
    def _take_hits(self, message: RolloutReading.Searched) -> None:
        if message.quest != self._quest:
            return
        self._searching = message.done < message.total
        self.note = f"{len(message.hits)} with '{self.sought}'"
        if self._searching:
            self.note += f", {message.done} of {message.total} groups"
        elif not message.hits and len(self.view.steps) > 1:
            self.note += ": n looks in other steps"
        view = self.view = replace(self.view, hits=message.hits)
        here = (view.group.id, view.answer.rollout) if view.group and view.answer else None
        if not self._searching and message.hits and here not in message.hits:
            self.view = view.to_hit(1)
            self.look()
        else:
            self.show(keep_place=True)

    @on(RolloutReading.Sought)
    def _take_sought(self, message: RolloutReading.Sought) -> None:
        if message.quest != self._quest or not self._seeking:
            return
        way = self._seeking
        if message.found is not None:
            self._seeking = 0
            self.read_step(message.found)
        elif message.done == message.total:
            self._seeking, self.view = 0, self.view.to_hit(way)
            self.note = f"no other step has '{self.sought}'"
            self.look()
        else:
            self.note = f"'{self.sought}': {message.done} of {message.total} steps, esc stops"
            self.show(keep_place=True)
