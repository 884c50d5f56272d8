"""How much a YAML text stands for: aliases let a few lines mean more than any memory holds."""

from __future__ import annotations

import yaml

from engine.base.errors import UsageError

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
        raise UsageError(f"{where}: its YAML aliases stand for more than {MOST_VALUES:,} values")


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
