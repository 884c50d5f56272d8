"""Reads YAML that a user wrote. What PyYAML takes and a reader cannot use is an error in one line:
aliases that expand endlessly, a key twice in a mapping, lists that are nested too deeply."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from engine.base import files
from engine.base.errors import UsageError

MOST_VALUES = 100_000
"""Sequences, mappings, keys and scalars; a whole config with every default has some 2,000."""
_LARGEST = 1 << 20


class _UniqueKeys(yaml.SafeLoader):
    """Refuses a key that a mapping has twice; PyYAML would take its last value.

    Reads ``1e-4`` as the number it is to every other reader of YAML, and to OmegaConf; to PyYAML it
    is a text, because it has no point.
    """

    def compose_mapping_node(self, anchor: dict[Any, yaml.Node]) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen = set[object]()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                what = f"found duplicate key {key.value}"
                raise yaml.constructor.ConstructorError(None, None, what, key.start_mark)
            seen.add(key.value)
        return node


_UniqueKeys.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)[eE][-+]?[0-9]+"),
    list("-+.0123456789"),
)


def read_yaml(path: Path) -> Any:
    """The content of a file of at most 1 MiB. UsageError in one line if it cannot be read."""
    try:
        text = files.read_regular(path, _LARGEST).decode()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8: {error.reason} at byte {error.start}") from error
    return parse_yaml(str(path), text)


def read_table(path: Path, words: Mapping[str, str] | None = None) -> Any:
    """The content of a YAML file of this project or of a plugin, read by libyaml where there is
    one: it takes a tenth of the time. UsageError in one line for invalid YAML.

    ``words``, such as ``ACTOR``, are replaced before.
    """
    text = path.read_text(encoding="utf-8")
    if words:
        text = re.sub(rf"\b({'|'.join(words)})\b", lambda word: words[word[0]], text)
    try:
        return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise UsageError(f"{path.name}: {' '.join(str(error).split())}") from error


def parse_yaml(where: str, text: str) -> Any:
    """The value of ``text``. UsageError in one line that begins with ``where``."""
    try:
        require_bounded(where, text)
        return yaml.load(text, _UniqueKeys)
    except RecursionError as error:
        raise UsageError(f"{where}: lists and mappings are nested too deeply") from error
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = " ".join(str(getattr(error, "problem", None) or error).split())[:200]
        line = f", line {mark.line + 1}" if mark else ""
        raise UsageError(f"{where}{line}: invalid YAML: {problem}") from error


def require_bounded(where: str, text: str) -> None:
    """Raise UsageError when YAML aliases expand ``text`` beyond ``MOST_VALUES``, or endlessly.

    Invalid YAML passes: the caller reports it when it reads ``text``.
    """
    if "*" not in text:  # No alias.
        return
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return
    if root is not None and _values(root, {}) > MOST_VALUES:
        raise UsageError(f"{where}: its YAML aliases expand to more than {MOST_VALUES:,} values")


def _values(node: yaml.Node, counts: dict[int, int]) -> int:
    """Return how many values a node expands to; ``counts`` holds those of the nodes visited."""
    if id(node) not in counts:
        counts[id(node)] = MOST_VALUES + 1  # An alias to the node inside itself is endless.
        children: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            children = [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            children = node.value
        counts[id(node)] = 1 + sum(_values(child, counts) for child in children)
    return counts[id(node)]
