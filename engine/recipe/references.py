"""Resolve ${...} references, within limits on how far references and YAML aliases may expand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import yaml
from omegaconf import OmegaConf

from engine.base.errors import UsageError
from engine.recipe.keys import flatten, sections, unflatten

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
                f"{where}: {key}: with its ${{...}} references resolved, the config has more than "
                f"{MOST_TEXT:,} characters"
            )
        if any(_COMPUTED.search(text) for text in _texts(values[key])):
            raise UsageError(
                f"{where}: {key} has a ${{...}} in the name of a ${{...}}; write the name out"
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


_PLAIN = re.compile(
    r"\$\{(?P<select>oc\.select: ?)?(?P<name>\.{0,3}[a-z]\w*(?:\.[a-z]\w*)*)"
    r"(?(select)(?:, ?(?P<default>[^{}$]*))?)\}"
)
"""A value that is one reference. ``default`` is for ``oc.select``, where there is no such key."""
_DEFAULT = re.compile(r"null|true|false|\d{1,9}", re.IGNORECASE)
_MOST_ROUNDS = 4
"""References to references; longer chains are left to OmegaConf."""
_LIST_INDEX = re.compile(r"""\[\s*["']?([\w-]+)["']?\s*\]""")
_KEY_WORD = re.compile(r"""[^\s,:()"'=${}]+""")


def resolve(values: Mapping[str, Any]) -> dict[str, Any]:
    """``values``, by dotted keys, with their references filled in.

    Raises what OmegaConf raises: OmegaConfBaseException, and RecursionError for endless chains.
    """
    leaves = _Leaves(flatten(unflatten(values)))
    for _ in range(_MOST_ROUNDS):
        leaves.update({key: value for key in leaves.referring() for value in leaves.plain(key)})
    left = leaves.referring()
    if left:
        tree = OmegaConf.create(unflatten(leaves.needed(left)))
        resolved = OmegaConf.to_container(tree, resolve=True)
        leaves.update({key: _at(resolved, key) for key in left})
    return dict(flatten(unflatten(leaves)))


class _Leaves(dict[str, Any]):
    """Values by dotted key, none of them a mapping that is not empty."""

    def __init__(self, leaves: Iterable[tuple[str, Any]]) -> None:
        super().__init__(leaves)
        self._below = sections(self)

    def referring(self) -> list[str]:
        return [key for key, value in self.items() if _refers(value)]

    def plain(self, key: str) -> Iterator[Any]:
        """What the value of ``key`` stands for, where that is a plain value or list."""
        match = _PLAIN.fullmatch(self[key]) if isinstance(self[key], str) else None
        if match is None:
            return
        name = absolute(match["name"], key)
        if name in self:
            value = self[name]
            if value not in ("???", {}) and not _refers(value):
                yield list(value) if isinstance(value, list) else value
        elif _DEFAULT.fullmatch(match["default"] or "") and self._is_unset(name):
            yield yaml.safe_load(match["default"])

    def needed(self, keys: Iterable[str]) -> dict[str, Any]:
        """``keys`` and all that their values may refer to, in order. Every word counts."""
        needed: set[str] = set()
        waiting = list(keys)
        while waiting:
            key = waiting.pop()
            if key not in needed:
                needed.add(key)
                waiting += self._named(key) if _refers(self[key]) else ()
        return {key: value for key, value in self.items() if key in needed}

    def _named(self, key: str) -> list[str]:
        if isinstance(self[key], list):
            return list(self)  # Relative references count from inside the list.
        words = _KEY_WORD.findall(_LIST_INDEX.sub(r".\1", self[key]))
        return [leaf for word in words for leaf in self._held(absolute(word, key))]

    def _held(self, name: str) -> list[str]:
        """The leaves of a section, or the leaf that ``name`` is or is an element of."""
        if name in self._below:
            return self._below[name]
        while name and name not in self:
            name = name.rpartition(".")[0]
        return [name] if name else []

    def _is_unset(self, name: str) -> bool:
        """Whether ``name`` is neither a leaf nor a section, in a section that is there."""
        return not self._held(name) and name.rpartition(".")[0] in self._below


def _refers(value: Any) -> bool:
    if isinstance(value, str):
        return "${" in value
    return isinstance(value, list) and "${" in str(value)


def _at(tree: Any, key: str) -> Any:
    for part in key.split("."):
        tree = tree[part]
    return tree


MOST_VALUES = 100_000
"""Sequences, mappings, keys and scalars; a whole recipe with every default has some 2,000."""


def require_bounded(where: str, text: str) -> None:
    """UsageError when ``text`` means more than ``MOST_VALUES``, or holds itself.

    What is no YAML at all is left to who reads it.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return
    if root is not None and _values(root, {}) > MOST_VALUES:
        raise UsageError(f"{where}: its YAML aliases expand to more than {MOST_VALUES:,} values")


def _values(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values a node stands for; each is counted once, however often it is referred to."""
    if id(node) not in known:
        known[id(node)] = MOST_VALUES + 1  # What it counts as inside itself.
        known[id(node)] = 1 + sum(_values(child, known) for child in _children(node))
    return known[id(node)]


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []
