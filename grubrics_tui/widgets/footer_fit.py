"""Which keys the footer names when there is no room for all: never a word cut in two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from rich.cells import cell_len
from textual.binding import ActiveBinding, Binding

_BETWEEN, _MARGIN = 3, 1
_ALWAYS = ("back", "app.show_help", "app.leave")
"""The ways out, and the list of all the others."""


def fitting(
    found: Mapping[str, ActiveBinding], width: int, told: Callable[[Binding], str]
) -> dict[str, ActiveBinding]:
    """The bindings, of which as many are shown as fit; the registry names what matters most first.

    ``told`` writes a key. What is not shown works all the same.
    """
    shown: dict[str, int] = {}
    for one in found.values():
        if one.enabled and one.binding.show and one.binding.action not in shown:
            size = cell_len(told(one.binding)) + cell_len(one.binding.description) + _BETWEEN
            shown[one.binding.action] = size
    optional = [action for action in shown if action not in _ALWAYS]
    while optional and sum(shown.values()) > width - _MARGIN:
        del shown[optional.pop()]
    return {key: one if one.binding.action in shown else _hidden(one) for key, one in found.items()}


def _hidden(one: ActiveBinding) -> ActiveBinding:
    return one._replace(binding=replace(one.binding, show=False))
