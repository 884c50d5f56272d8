"""What a manifest may say: every field has its type or is missing, so readers need no doubts.

A manifest is a file that anybody may have edited, copied from elsewhere or torn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from engine.base import jsonl

_DEEPEST = 32
"""No field that is ever written is nested further; readers walk through it by recursion."""

_RELATIONS = {"remedy": "fix", "reproduction": "repro"}


def checked(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest as its readers may rely on it; an empty one stays empty.

    Null and what has the wrong type count as missing. ``attempts`` is always a list of dicts
    with an integer ``number``, and ``config`` a dict of dicts with ``value`` and ``origin``.
    Texts that are only shown are safe to show; the values of ``config``, the commands of
    ``attempts`` and paths are as they were written, for they are used.
    """
    if not raw:
        return {}
    return {"attempts": [], "config": {}, **_fields(raw, _FIELDS)}


def in_file(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What the file that a person wrote says of the keys that were overridden since.

    A run that was made from another one is told at its launch; else its own overrides are all.
    """
    if "in_file" in manifest:
        return dict(manifest["in_file"])
    return {change["key"]: change["before"] for change in manifest.get("changes") or ()}


def changed_values(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The overrides that set another value than the file; others only say it again."""
    changes = manifest.get("changes") or ()
    return [one for one in changes if repr(one["before"]) != repr(one["after"])]


def parent_phrase(manifest: Mapping[str, Any]) -> str:
    """``fix of RUN`` or ``repro of RUN`` for a derived run; empty for any other run."""
    parent = manifest.get("parent") or {}
    relation = str(parent.get("relation"))
    return f"{_RELATIONS.get(relation, relation)} of {parent['run']}" if parent else ""


def values_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The effective values of a run, by dotted key."""
    return {key: entry.get("value") for key, entry in (manifest.get("config") or {}).items()}


def _fields(raw: Mapping[str, Any], readers: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
    """The fields that have a reader as it takes them, the others as plain JSON."""
    found = {key: readers.get(key, _plain)(value) for key, value in raw.items()}
    return {key: value for key, value in found.items() if value is not None or key not in readers}


def _plain(value: Any, depth: int = _DEEPEST) -> Any:
    """A JSON value without NaN and without what lies too deep."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(item, depth - 1) for key, item in value.items()} if depth else None
    if isinstance(value, list):
        return [_plain(item, depth - 1) for item in value] if depth else None
    return value


def _shown(value: Any) -> Any:
    """A JSON value that is only shown."""
    return _tidy(_plain(value))


def _tidy(value: Any) -> Any:
    if isinstance(value, str):
        return jsonl.line(value)
    if isinstance(value, dict):
        return {jsonl.line(key) or "?": _tidy(item) for key, item in value.items()}
    return [_tidy(item) for item in value] if isinstance(value, list) else value


def _mapping(value: Any) -> dict[str, Any] | None:
    return _plain(value) if isinstance(value, dict) else None


def _shown_mapping(value: Any) -> dict[str, Any] | None:
    return _shown(value) if isinstance(value, dict) else None


def _words(value: Any) -> list[str] | None:
    """A command that can be executed."""
    if not isinstance(value, list) or not value:
        return None
    words = [word for word in value if isinstance(word, str) and "\0" not in word]
    return words if len(words) == len(value) else None


def _shown_words(value: Any) -> list[str] | None:
    return None if (words := _words(value)) is None else [jsonl.line(word) or "" for word in words]


def _config(value: Any) -> dict[str, dict[str, Any]] | None:
    if not isinstance(value, dict):
        return None
    return {
        key: {"value": _plain(entry["value"]), "origin": jsonl.line(entry.get("origin")) or ""}
        for key, entry in value.items()
        if isinstance(entry, dict) and "value" in entry
    }


def _changes(value: Any) -> list[dict[str, Any]] | None:
    if not isinstance(value, list):
        return None
    return [
        {key: _shown(change.get(key)) for key in ("key", "before", "after", "origin")}
        for change in value
        if isinstance(change, dict) and jsonl.line(change.get("key"))
    ]


def _files(value: Any) -> dict[str, dict[str, Any]] | None:
    """Fingerprints by path."""
    if not isinstance(value, dict):
        return None
    return {
        path: _plain(facts)
        for path, facts in value.items()
        if jsonl.location(path)
        and isinstance(facts, dict)
        and jsonl.line(facts.get("sha256") or facts.get("sampled_sha256"))
    }


def _surroundings(value: Any) -> dict[str, Any] | None:
    return _fields(value, _OF_SURROUNDINGS) if isinstance(value, dict) else None


def _parent(value: Any) -> dict[str, str] | None:
    """The run this one was made from; both fields or none."""
    if not isinstance(value, dict):
        return None
    found = {key: jsonl.line(value.get(key)) for key in ("run", "relation")}
    return {key: text for key, text in found.items() if text} if all(found.values()) else None


def _variables(value: Any) -> dict[str, str] | None:
    """Variables that an environment takes."""
    if not isinstance(value, dict):
        return None
    return {
        name: text
        for name, text in value.items()
        if name and "=" not in name and isinstance(text, str) and "\0" not in name + text
    }


def _attempts(value: Any) -> list[dict[str, Any]]:
    attempts = value if isinstance(value, list) else []
    found = [_fields(attempt, _OF_ATTEMPT) for attempt in attempts if isinstance(attempt, dict)]
    return [attempt for attempt in found if "number" in attempt]


_OF_SURROUNDINGS: Mapping[str, Callable[[Any], Any]] = {
    "recipe_file": _files,
    "data": _files,
    "code": _files,
    "reward_inputs": _files,
    "model": _files,
}

_OF_ATTEMPT: Mapping[str, Callable[[Any], Any]] = {
    "number": jsonl.integer,
    "started": jsonl.moment,
    "argv": _words,
    "from_step": jsonl.integer,
    "from": jsonl.location,
    "surroundings": _surroundings,
}

_FIELDS: Mapping[str, Callable[[Any], Any]] = {
    **_OF_SURROUNDINGS,
    "id": jsonl.line,
    "mark": jsonl.line,
    "name": jsonl.line,
    "recipe": jsonl.line,
    "config_path": jsonl.location,
    "kind": jsonl.line,
    "variables": _variables,
    "description": jsonl.line,
    "argv": _shown_words,
    "cwd": jsonl.location,
    "created": jsonl.moment,
    "config": _config,
    "fingerprint": jsonl.line,
    "changes": _changes,
    "in_file": _shown_mapping,
    "seeds": _mapping,
    "total_steps": jsonl.integer,
    "checkpoint_dir": jsonl.location,
    "queue": _shown_mapping,
    "ray": jsonl.line,
    "parent": _parent,
    "attempts": _attempts,
}
