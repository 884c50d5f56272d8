"""How much the ``${...}`` references of a recipe stand for: chains of them multiply."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from engine.base.errors import UsageError
from engine.recipe.keys import sections

MOST_TEXT = 1_000_000
"""Characters; a whole recipe with every reference filled in has some 12,000."""

_OPENED = re.compile(r"\$\{([^{}]*)")
_COMPUTED = re.compile(r"\$\{(?:[^{},]*|[^{}]*[^{},\s]\s*)\$\{")
"""A reference whose name is made by another one; as a resolver's fallback one may stand there."""
_INDEX = re.compile(r"""\[\s*["']?([\w-]+)["']?\s*\]""")
_WORD = re.compile(r"""[^\s,:()"'=]+""")


def require_short(where: str, values: Mapping[str, Any]) -> None:
    """UsageError when references make more of the values than ``MOST_TEXT`` characters.

    ``values`` have dotted keys. Every word inside ``${...}`` that names a key counts as a reference
    to it, so a resolver's arguments do too. Circles are left to who resolves them.
    """
    lengths, total = _Lengths(values), 0
    for key in values:
        total += lengths.of(key)
        if total > MOST_TEXT:
            raise UsageError(
                f"{where}: {key}: with its ${{...}} references filled in the recipe has more than "
                f"{MOST_TEXT:,} characters"
            )
        if any(_COMPUTED.search(text) for text in _texts(values[key])):
            raise UsageError(
                f"{where}: {key} has a ${{...}} in the name of a ${{...}}; write it out"
            )


def referenced(values: Mapping[str, Any], keys: Iterable[str]) -> frozenset[str]:
    """The keys that the ``${...}`` in the values of ``keys`` name, sections as their keys."""
    return _referenced(values, sections(values), keys)


def _referenced(
    values: Mapping[str, Any], below: Mapping[str, list[str]], keys: Iterable[str]
) -> frozenset[str]:
    names = {name for key in keys for text in _texts(values[key]) for name in _names(text, key)}
    return frozenset(
        key for name in names for key in ([name] if name in values else below.get(name, ()))
    )


def following(values: Mapping[str, Any], origins: Mapping[str, str]) -> frozenset[str]:
    """The defaults whose ``${...}`` lead, in one step or several, to a value that was set."""
    below = sections(values)
    defaults = {
        key: _referenced(values, below, [key])
        for key, value in values.items()
        if origins[key] == "default" and "${" in str(value)
    }
    found: set[str] = set()
    while more := {
        key
        for key, names in defaults.items()
        if key not in found and any(name in found or origins[name] != "default" for name in names)
    }:
        found |= more
    return frozenset(found)


class _Lengths:
    """Lengths of values with their references filled in; each is counted once."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values, self._below = values, sections(values)
        self._known: dict[str, int] = {}

    def of(self, key: str) -> int:
        if key not in self._known:
            self._known[key] = 0  # What it counts as inside itself.
            self._known[key] = self._length(key)
        return self._known[key]

    def _length(self, key: str) -> int:
        texts = _texts(self._values[key])
        named = (name for text in texts for name in _names(text, key))
        return sum(map(len, texts)) + sum(self._section(name) for name in named)

    def _section(self, name: str) -> int:
        """A value, or all values of a section; of a list's element the whole list."""
        if (found := self._holder(name)) is not None:
            return self.of(found)
        return sum(self.of(key) for key in self._below.get(name, ()))

    def _holder(self, name: str) -> str | None:
        while name and name not in self._values:
            name = name.rpartition(".")[0]
        return name or None


def _texts(value: Any) -> list[str]:
    """All strings in a value; anything else counts as one character."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [text for part in value.values() for text in _texts(part)]
    if isinstance(value, Sequence):
        return [text for part in value for text in _texts(part)]
    return ["-"]


def _names(text: str, key: str) -> list[str]:
    """The dotted names inside ``${...}``; one that begins with dots is relative to ``key``."""
    inner = (_INDEX.sub(r".\1", part) for part in _OPENED.findall(text))
    return [absolute(word, key) for part in inner for word in _WORD.findall(part)]


def absolute(word: str, key: str) -> str:
    """The name that a reference in the value of ``key`` means; leading dots are relative to it."""
    name = word.lstrip(".")
    up = len(word) - len(name)
    if not up:
        return name
    return ".".join([*key.split(".")[:-up], *([name] if name else [])])
