"""The comments of verl's YAML files, by the key that each describes.

verl's files keep to a form that its CI checks: a comment stands directly above its field, indented
alike. Composed configs have no comments, so the files are read as text in the order in which Hydra
composes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

_FIELD = re.compile(r"(?P<indent> *)(?P<name>[\w-]+):")
_INTERNAL = re.compile(r"(?:oc\.select|Required when using verl\.utils)\b|[-#=\s]*$")
"""Lines about how the file is made, not about the value."""


def key_comments(folder: Path, config: str = "ppo_trainer") -> dict[str, str]:
    """Return the comment of each key of a trainer's config; a key without one is left out.

    Where several files describe a key, the one that Hydra merges last wins.
    """
    return dict(_composed(folder, folder / f"{config}.yaml", ""))


def _composed(folder: Path, path: Path, section: str) -> Iterator[tuple[str, str]]:
    text = path.read_text(encoding="utf-8")
    for entry in yaml.safe_load(text).get("defaults", ["_self_"]):
        if entry == "_self_":
            yield from _own(text, section)
        elif isinstance(entry, str):
            yield from _composed(folder, path.with_name(f"{entry}.yaml"), section)
        else:
            ((place, name),) = entry.items()
            group, _, package = place.partition("@")
            file = path.parent / group / f"{name.replace('${model_engine}', 'dp')}.yaml"
            if package and file.is_file():
                yield from _composed(folder, file, f"{section}{package}.")


def _own(text: str, section: str) -> Iterator[tuple[str, str]]:
    """The comments of one file, with the keys of their fields below ``section``."""
    parents: list[tuple[int, str]] = []
    comment: list[str] = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("#"):
            comment.append(stripped.lstrip("# ").rstrip())
        elif field := _FIELD.match(line):
            indent, name = len(field["indent"]), field["name"]
            parents = [parent for parent in parents if parent[0] < indent]
            key = ".".join([*(parent for _, parent in parents), name])
            if description := _joined(comment):
                yield f"{section}{key}", description
            parents.append((indent, name))
            comment = []
        else:
            comment = []


def _joined(comment: list[str]) -> str:
    return " ".join(line for line in comment if line and not _INTERNAL.match(line))
