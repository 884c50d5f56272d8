"""The command palette: what the screen offers now, each action once, with its key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.screen import Screen

from grubrics_tui.settings.actions import Action

_KEYS = 12
"""Cells of the column of keys."""


class OffersActions(Protocol):
    """The app."""

    def offered_actions(self, screen: Screen[object]) -> Iterator[Action]:
        """The actions that do something on the screen now, the most important first."""
        ...


class ActionCommands(Provider):
    """The actions of the screen in the order of the registry; those of all screens come last."""

    async def discover(self) -> Hits:
        for action in self._actions():
            prompt = _prompt(action, Content(_text(action)))
            yield DiscoveryHit(prompt, self._command(action), text=_text(action))

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for action in self._actions():
            text = _text(action)
            if (score := matcher.match(text)) > 0:
                prompt = _prompt(action, matcher.highlight(text))
                yield Hit(score, prompt, self._command(action), text=text)

    def _actions(self) -> Iterator[Action]:
        return cast(OffersActions, self.app).offered_actions(self.screen)

    def _command(self, action: Action) -> Callable[[], object]:
        return partial(self.screen.run_action, action.name)


def _text(action: Action) -> str:
    """The description, after the label of the footer if it does not hold that word."""
    is_named = action.label.casefold() in action.description.casefold()
    return action.description if is_named else f"{action.label.capitalize()}: {action.description}"


def _prompt(action: Action, text: Content) -> Content:
    """The first key, then the text."""
    key = action.keys.split()[0] if action.keys else ""
    return Content.styled(key.ljust(_KEYS), "bold $primary") + text
