"""Search the responses of the step on the screen, and from there those of other steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from grubrics_tui.model.rollout_view import RolloutView, steps_onward
from grubrics_tui.screens.rollouts.reader import (
    OtherStepsSearched,
    RolloutReader,
    SearchRequest,
    StepSearched,
    Target,
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

    def take_hits(self, message: StepSearched, view: RolloutView) -> RolloutView | None:
        """The view with the hits so far, at the first hit in the end; None for an old search."""
        if message.request != self._request(view):
            return None
        self._searches_step = message.done < message.total
        status = f"{len(message.hits)} with '{self.text}'"
        if self._searches_step:
            status += f", {message.done} of {message.total} groups"
        elif not message.hits and len(view.steps) > 1:
            status += ": n searches other steps"
        self._say(status)
        current = (view.group.id, view.selected.number) if view.group and view.selected else None
        view = replace(view, hits=message.hits)
        if not self._searches_step and message.hits and current not in message.hits:
            return view.to_hit(1)
        return view

    def take_other_steps(
        self, message: OtherStepsSearched, view: RolloutView
    ) -> Target | RolloutView | None:
        """The step to load, or the view to show; None for an old search."""
        if message.request != self._request(view) or not self._direction:
            return None
        direction = self._direction
        if message.target is not None:
            self._direction = 0
            return message.target
        if message.done == message.total:
            self._direction = 0
            self._say(f"no other step contains '{self.text}'")
            return view.to_hit(direction)
        self._say(f"'{self.text}': {message.done} of {message.total} steps, esc stops")
        return view

    def _request(self, view: RolloutView) -> SearchRequest:
        return SearchRequest(self.text, view.split, view.read.step if view.read else -1)
