"""All key actions: the source of bindings, footer, help and command palette."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from engine.base.errors import nearest
from grubrics_tui.settings.keys import fault, format_keys, split

if TYPE_CHECKING:
    from textual.binding import BindingType


class Action(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a key does: an entry of ``actions.json``.

    ``name`` is the Textual action, ``where`` the screens that offer it (empty: all of them), and
    ``cli_equivalent`` the shell command that does the same. ``label`` is the word in the footer;
    an action without a label is not shown there. The help lists the key in the row of its
    ``group`` with ``short`` (default: the label), together with other keys of the same words. An
    action that ``changes`` starts, stops or deletes something: it is refused in read-only mode.
    """

    name: str
    key: str
    label: str = ""
    description: str = ""
    where: tuple[str, ...] = ()
    cli_equivalent: str = ""
    changes: bool = False
    group: str = ""
    short: str = ""
    needs: str = ""
    """What the run on the screen or under the cursor must be: a ``run`` of this project, an
    ``ended`` one, or one of the ``targets``, the selected runs or else that one."""

    @property
    def keys(self) -> str:
        """The keys in display form, e.g. ``? j``."""
        return format_keys(self.key)

    @property
    def needs_argument(self) -> bool:
        """Whether only its own key can call it, because it has an argument."""
        return "(" in self.name


ACTIONS = msgspec.json.decode(
    Path(__file__).with_name("actions.json").read_bytes(), type=tuple[Action, ...]
)
"""In the order of footer, help and command palette: the most important of a screen come first."""

_NEEDS = {(where, action.name.partition("(")[0]): action.needs
          for action in ACTIONS for where in action.where}  # fmt: skip
_CHANGING = frozenset(action.name.partition("(")[0] for action in ACTIONS if action.changes)


def actions_of(where: str) -> list[Action]:
    """The actions of the screen named ``where``: its own first, then those of all screens."""
    own = [action for action in ACTIONS if where in action.where]
    named = {action.name for action in own}
    return own + [action for action in ACTIONS if not action.where and action.name not in named]


def first_keys(where: str, keys: Mapping[str, str]) -> dict[str, str]:
    """The first key of each action of a screen, in display form; ``keys`` are the user's own."""
    actions = (remapped(action, keys) for action in actions_of(where))
    return {action.name: action.keys.split()[0] for action in actions}


def needs_of(where: str, action: str) -> str:
    """What the action, given as Textual names it, needs on a screen."""
    return _NEEDS.get((where, action), "")


def is_changing(action: str) -> bool:
    """Whether read-only mode refuses an action, given as Textual names it."""
    return action.rpartition(".")[2].partition("(")[0] in _CHANGING


def remapped(action: Action, keys: Mapping[str, str]) -> Action:
    """The action with the keys that the settings choose for it."""
    chosen = keys.get(action.name.removeprefix("app."))
    return msgspec.structs.replace(action, key=",".join(split(chosen))) if chosen else action


def keymap(keys: Mapping[str, str] | None) -> dict[str, str]:
    """The keys of the settings, in Textual's names."""
    return {name: ",".join(split(chosen)) for name, chosen in (keys or {}).items()}


def key_conflicts(keys: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The entries of other keys for actions that cannot be used, each with the reason: names that
    do not exist, keys that two share."""
    known = {action.name.removeprefix("app."): action for action in ACTIONS}
    for name, chosen in keys.items():
        if name not in known:
            close = _by_label(name) or nearest(name, known)
            yield name, f"unknown action '{name}'" + (f"; did you mean {close}?" if close else "")
            continue
        wrong = next(
            filter(None, map(fault, split(chosen))), None if split(chosen) else "no key given"
        )
        if wrong is not None:
            yield name, f"{name}: {wrong}"
    for where in dict.fromkeys(screen for action in ACTIONS for screen in action.where):
        taken: dict[str, str] = {}
        for action in actions_of(where):
            name = action.name.removeprefix("app.")
            for key in split(keys.get(name, action.key)):
                other = taken.setdefault(key, name)
                if other != name and (name in keys or other in keys):
                    mine, theirs = (name, other) if name in keys else (other, name)
                    yield mine, f"{mine}: '{format_keys(key)}' is already the key of {theirs}"


def _by_label(label: str) -> str | None:
    """The name of the action that the footer shows under ``label``, as ``leave`` for "quit"."""
    names = (action.name.removeprefix("app.") for action in ACTIONS if action.label == label)
    return next(names, None)


def bindings(where: str = "") -> list[BindingType]:
    """The key bindings of a screen, or of the app when ``where`` is empty."""
    from textual.binding import Binding  # The command line reads the registry without Textual.

    chosen = [a for a in ACTIONS if (where in a.where if where else not a.where)]
    return [
        Binding(
            action.key,
            action.name,
            action.label or action.description,
            show=bool(action.label),
            key_display=None if "," in action.key else action.keys,
            id=action.name.removeprefix("app."),
        )
        for action in chosen
    ]
