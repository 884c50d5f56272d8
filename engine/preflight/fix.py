"""What the fix of a preflight check asks for, so that one key can apply it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from engine.host.programs import own_module
from engine.recipe.keys import is_open
from engine.recipe.recipe import ALIASES, Recipe

_PROGRAM = "grubrics-tui"
_PART = re.compile(r"; |, then ")
_PLACEHOLDER = re.compile(r"<.*|[A-Z][A-Z:_]+")
"""A value or word that a person has to choose, such as ``FOLDER``."""
_COMMAND = re.compile(rf"(?:[A-Z_]+=\S+ )*(?:{_PROGRAM} |\S*python\S* (?:-P )?-m engine\.).+")


@dataclass(frozen=True)
class Fix:
    """``overrides`` change the config; ``command`` is one of this project and mends the rest."""

    overrides: tuple[str, ...] = ()
    command: str = ""

    @property
    def queues(self) -> bool:
        """Whether it only queues the launch itself."""
        return self.command.startswith(f"{_PROGRAM} launch ") and "--queue" in self.command

    @property
    def prunes(self) -> bool:
        """Whether it asks which checkpoints to free."""
        return self.command.startswith(f"{_PROGRAM} prune")

    def variables(self) -> dict[str, str]:
        """The environment variables that precede the command."""
        assigned = (word.partition("=") for word in self._words[: self._start])
        return {name: value for name, _, value in assigned}

    def argv(self) -> tuple[str, ...]:
        """The command with this Python."""
        program, *arguments = self._words[self._start :]
        if program == _PROGRAM:
            return own_module("grubrics_tui", *arguments)
        module, *options = arguments[arguments.index("-m") + 1 :]
        return own_module(module, *options)

    @property
    def _words(self) -> list[str]:
        return shlex.split(self.command)

    @property
    def _start(self) -> int:
        return next(index for index, word in enumerate(self._words) if "=" not in word)


def parse_fix(text: str | None, recipe: Recipe) -> Fix | None:
    """Return what of a fix can be applied; None if only a person can.

    Of alternatives (``a=1, or b=2``) the first that can be applied counts.
    """
    overrides: list[str] = []
    command = ""
    for part in _PART.split(text or ""):
        for alternative in part.split(", or "):
            found = _find_command(alternative)
            # The overrides of a command belong to it.
            changes = _find_overrides(alternative.removesuffix(found), recipe)
            if changes or found:
                overrides += changes
                command = command or found
                break
    return Fix(tuple(overrides), command) if overrides or command else None


def _find_overrides(text: str, recipe: Recipe) -> list[str]:
    """The words ``key=value``; none if one of them cannot be applied as it is."""
    words = [word for word in text.split() if "=" in word]
    return words if all(_is_override(word, recipe) for word in words) else []


def _is_override(word: str, recipe: Recipe) -> bool:
    key, _, value = word.partition("=")
    is_known = key in recipe.values or key in ALIASES or is_open(key, recipe.values)
    return is_known and not _PLACEHOLDER.fullmatch(value) and value.count('"') % 2 == 0


def _find_command(text: str) -> str:
    """The command of this project in the text; empty if there is none, or if a word is missing."""
    match = _COMMAND.search(text)
    if match is None or any(map(_PLACEHOLDER.fullmatch, shlex.split(match[0]))):
        return ""
    return match[0]
