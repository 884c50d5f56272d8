"""Resolve ${...} references, within limits on how far references and YAML aliases may expand."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from operator import getitem
from typing import Any

import yaml
from omegaconf import OmegaConf

from engine.base.errors import UsageError
from engine.config.keys import flatten, sections, unflatten

MOST_TEXT = 1_000_000
"""Characters; a whole config with every reference filled in has some 12,000."""

_OPENED = re.compile(r"\$\{([^{}]*)")
_COMPUTED = re.compile(r"\$\{(?:[^{},]*|[^{}]*[^{},\s]\s*)\$\{")
"""A reference inside the name of a reference. As the fallback of a resolver it is allowed."""
_INDEX = re.compile(r"""\[\s*["']?([\w-]+)["']?\s*\]""")
_WORD = re.compile(r"""[^\s,:()"'=]+""")


def require_short(where: str, values: Mapping[str, Any]) -> None:
    """Raise UsageError when references expand ``values`` to more than ``MOST_TEXT`` characters.

    ``values`` have dotted keys. Every word inside ``${...}`` that names a key counts as a reference
    to it, including the arguments of a resolver. ``resolve`` reports circular references.
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
    """Return the keys that ``${...}`` in the values of ``keys`` name; a section gives its keys."""
    return _referenced(values, sections(values), keys)


def _referenced(
    values: Mapping[str, Any], below: Mapping[str, list[str]], keys: Iterable[str]
) -> frozenset[str]:
    names = {name for key in keys for text in _texts(values[key]) for name in _names(text, key)}
    return frozenset(
        key for name in names for key in ([name] if name in values else below.get(name, ()))
    )


def following(values: Mapping[str, Any], origins: Mapping[str, str]) -> frozenset[str]:
    """Return the defaults that refer to a set value, directly or through other defaults."""
    below = sections(values)
    defaults = {
        key: _referenced(values, below, [key])
        for key, value in values.items()
        if origins[key] == "default" and "${" in str(value)
    }
    implied: set[str] = set()
    while added := {
        key
        for key, names in defaults.items()
        if key not in implied
        and any(name in implied or origins[name] != "default" for name in names)
    }:
        implied |= added
    return frozenset(implied)


class _Lengths:
    """Lengths of values with their references resolved; each value is measured once."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values, self._below = values, sections(values)
        self._lengths: dict[str, int] = {}

    def of(self, key: str) -> int:
        """Return the length of the value of ``key``."""
        if key not in self._lengths:
            self._lengths[key] = 0  # A reference of the value to itself adds nothing.
            texts = _texts(self._values[key])
            names = (name for text in texts for name in _names(text, key))
            self._lengths[key] = sum(map(len, texts)) + sum(map(self._referenced, names))
        return self._lengths[key]

    def _referenced(self, name: str) -> int:
        """Return the length of a value or a section. For a list element: of the whole list."""
        key = name
        while key and key not in self._values:
            key = key.rpartition(".")[0]
        return self.of(key) if key else sum(map(self.of, self._below.get(name, ())))


def _texts(value: Any) -> list[str]:
    """Return all strings in a value; anything else counts as one character."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [text for part in value.values() for text in _texts(part)]
    if isinstance(value, Sequence):
        return [text for part in value for text in _texts(part)]
    return ["-"]


def _names(text: str, key: str) -> list[str]:
    """Return the dotted names inside ``${...}``; leading dots are relative to ``key``."""
    inner = (_INDEX.sub(r".\1", part) for part in _OPENED.findall(text))
    return [absolute(word, key) for part in inner for word in _WORD.findall(part)]


def absolute(word: str, key: str) -> str:
    """Return the full name of a reference in the value of ``key``; leading dots are relative."""
    name = word.lstrip(".")
    up = len(word) - len(name)
    if not up:
        return name
    return ".".join([*key.split(".")[:-up], *([name] if name else [])])


_PLAIN = re.compile(
    r"\$\{(?P<select>oc\.select: ?)?(?P<name>\.{0,3}[a-z]\w*(?:\.[a-z]\w*)*)"
    r"(?(select)(?:, ?(?P<default>[^{}$]*))?)\}"
)
"""A value that is a single reference. ``default`` is the fallback of ``oc.select``."""
_DEFAULT = re.compile(r"null|true|false|\d{1,9}", re.IGNORECASE)
_MOST_ROUNDS = 4
"""Length of a chain of references; OmegaConf resolves longer ones."""
_KEY_WORD = re.compile(r"""[^\s,:()"'=${}]+""")


def resolve(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``values``, by dotted keys, with their references resolved.

    Raises what OmegaConf raises: OmegaConfBaseException, and RecursionError for endless chains.
    """
    leaves = _Leaves(flatten(unflatten(values)))
    for _ in range(_MOST_ROUNDS):
        leaves.update({key: value for key in leaves.referring() for value in leaves.plain(key)})
    unresolved = leaves.referring()
    if unresolved:
        resolved = _resolve_tree(leaves.needed(unresolved))
        leaves.update({key: reduce(getitem, key.split("."), resolved) for key in unresolved})
    return dict(flatten(leaves))  # A value may be a whole section now.


_RESOLVER = re.compile(r"\$\{\s*([\w.]+)\s*:")
_PURE = {"oc.select"}
"""Resolvers whose result depends on the values alone."""


def _resolve_tree(values: Mapping[str, Any]) -> Any:
    """Let OmegaConf resolve values with dotted keys; returns a nested dict.

    Verl's defaults need it for a few keys in every config, with the same result each time.
    """
    text = json.dumps(values, default=lambda value: None)
    is_json = json.loads(text) == values
    if is_json and _PURE.issuperset(_RESOLVER.findall(text)):
        return copy.deepcopy(_resolve_text(text))
    return OmegaConf.to_container(OmegaConf.create(unflatten(values)), resolve=True)


@lru_cache(maxsize=64)
def _resolve_text(text: str) -> Any:
    tree = OmegaConf.create(unflatten(json.loads(text)))
    return OmegaConf.to_container(tree, resolve=True)


class _Leaves(dict[str, Any]):
    """Values by dotted key; a mapping among them is empty."""

    def __init__(self, leaves: Iterable[tuple[str, Any]]) -> None:
        super().__init__(leaves)
        self._below = sections(self)

    def referring(self) -> list[str]:
        return [key for key, value in self.items() if _refers(value)]

    def plain(self, key: str) -> Iterator[Any]:
        """Yield what the value of ``key`` refers to, if that is a plain value or list."""
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
        """Return ``keys`` and all that their values may refer to, in order. Every word counts."""
        needed: set[str] = set()
        waiting = list(keys)
        while waiting:
            key = waiting.pop()
            if key not in needed:
                needed.add(key)
                waiting += self._named(key) if _refers(self[key]) else ()
        return {key: value for key, value in self.items() if key in needed}

    def _named(self, key: str) -> list[str]:
        """Return the leaves that words in the value of ``key`` name."""
        if isinstance(self[key], list):
            return list(self)  # Relative references count from inside the list.
        words = _KEY_WORD.findall(_INDEX.sub(r".\1", self[key]))
        return [leaf for word in words for leaf in self._leaves_of(absolute(word, key))]

    def _leaves_of(self, name: str) -> list[str]:
        """Return the leaves of a section, or the leaf that ``name`` is or is an element of."""
        if name in self._below:
            return self._below[name]
        while name and name not in self:
            name = name.rpartition(".")[0]
        return [name] if name else []

    def _is_unset(self, name: str) -> bool:
        """Whether ``name`` is neither a leaf nor a section, in a section that exists."""
        return not self._leaves_of(name) and name.rpartition(".")[0] in self._below


def _refers(value: Any) -> bool:
    if isinstance(value, str):
        return "${" in value
    return isinstance(value, list) and "${" in str(value)
