"""Check a manifest: every field has its type or is missing, so that readers need not check it.

A manifest is a file that may have been edited, copied from another machine, or damaged.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from engine.base import jsonl
from engine.run.kinds import COMMAND, KINDS

_DEEPEST = 32
"""No written field is nested deeper; readers use recursion."""

_CHECKPOINT_KEYS = frozenset(kind.checkpoint_key for kind in KINDS.values())

_RELATIONS = {"reproduction": "repro"}
"""What a screen calls a relation, where the manifest has another word."""

_FORMER_RELATIONS = {"remedy": "fix"}
"""Words of manifests that earlier versions wrote."""


def checked(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest with valid fields only; an empty one stays empty.

    Null values and values of the wrong type count as missing. ``attempts`` is always a list of
    dicts with an integer ``number``, and ``config`` a dict of dicts with ``value`` and ``origin``.
    Texts for display are safe to display. The values of ``config``, commands and paths stay as they
    were written, because they are used.
    """
    if not raw:
        return {}
    return {"attempts": [], "config": {}, **_fields(raw, _FIELDS)}


def in_file(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the config file for the keys that were overridden since.

    A derived run records them at its launch; for other runs they follow from the overrides.
    """
    if "in_file" in manifest:
        return dict(manifest["in_file"])
    return {change["key"]: change["before"] for change in manifest.get("changes") or ()}


def changed_values(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The overrides whose value differs from that of the file."""
    changes = manifest.get("changes") or ()
    return [change for change in changes if repr(change["before"]) != repr(change["after"])]


def format_changes(manifest: Mapping[str, Any]) -> list[str]:
    """``changed_values`` as ``lr=3e-05``: of each key the recorded end, which a launch accepts.

    The checkpoint folder that a launch gives a run is left out: it follows from the run's name.
    """
    return [
        f"{change.get('end') or change['key']}={_format_value(change['after'])}"
        for change in changed_values(manifest)
        if not _is_own_folder(change, manifest.get("id"))
    ]


def _is_own_folder(change: Mapping[str, Any], run_id: str | None) -> bool:
    """Whether the override is a checkpoint folder with the name of the run, or with its end: the
    folder of ``RUN-repro`` is ``repro``, that of an ablation's ``ABLATION-ARM-s1`` is ``ARM-s1``.
    """
    if change["key"] not in _CHECKPOINT_KEYS or not run_id:
        return False
    folder = str(change["after"]).rstrip("/").rpartition("/")[2]
    return bool(folder) and f"-{run_id}".endswith(f"-{folder}")


def _format_value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def parent_phrase(manifest: Mapping[str, Any]) -> str:
    """``fix of RUN``, ``repro of RUN`` or ``relaunch of RUN``; empty for a run without a parent."""
    parent = manifest.get("parent") or {}
    relation = str(parent.get("relation"))
    return f"{_RELATIONS.get(relation, relation)} of {parent['run']}" if parent else ""


def values_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The effective values of a run, by dotted key."""
    return {key: entry.get("value") for key, entry in (manifest.get("config") or {}).items()}


def given_variables(manifest: Mapping[str, Any]) -> list[str]:
    """``NAME=value`` of what a command was given besides the environment of its shell."""
    return [f"{name}={value}" for name, value in (manifest.get("variables") or {}).items()]


def command_of(manifest: Mapping[str, Any]) -> list[str]:
    """The command line of a run without a config, with the variables before it; empty for others
    and for adopted ones."""
    argv = manifest.get("argv")
    if manifest.get("kind") != COMMAND or not isinstance(argv, list) or "adopted" in manifest:
        return []
    return [*given_variables(manifest), *argv]


def _fields(raw: Mapping[str, Any], readers: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
    """Fields with a reader as the reader returns them, other fields as plain JSON."""
    fields = {key: readers.get(key, _plain)(value) for key, value in raw.items()}
    return {key: value for key, value in fields.items() if value is not None or key not in readers}


def _plain(value: Any, depth: int = _DEEPEST) -> Any:
    """A JSON value without NaN and without values that are nested too deeply."""
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
    """A JSON value for display only."""
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


_MOVED = {
    "engine.pipelines.runner": "engine.launch.pipelines.runner",
    "engine.preflight.gate": "engine.checks.gate",
}
"""Modules in the commands of earlier manifests, by the name that they had then."""


def _words(value: Any) -> list[str] | None:
    """A command as it was written: it can be executed, and is not safe to show."""
    if not isinstance(value, list) or not value:
        return None
    words = [_MOVED.get(word, word) for word in value if isinstance(word, str) and "\0" not in word]
    return words if len(words) == len(value) else None


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
    fields = ("key", "before", "after", "origin")
    return [
        {key: _shown(change.get(key)) for key in fields} | _end_of(change)
        for change in value
        if isinstance(change, dict) and jsonl.line(change.get("key"))
    ]


def _end_of(change: Mapping[str, Any]) -> dict[str, str]:
    """The recorded end of the key, if it is one."""
    key, end = jsonl.line(change.get("key")) or "", jsonl.line(change.get("end"))
    return {"end": end} if end and f".{key}".endswith(f".{end}") else {}


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


def _record(readers: Mapping[str, Callable[[Any], Any]]) -> Callable[[Any], dict[str, Any] | None]:
    return lambda value: _fields(value, readers) if isinstance(value, dict) else None


def _locations(value: Any) -> list[str] | None:
    return [path for path in value if jsonl.location(path)] if isinstance(value, list) else None


def _parent(value: Any) -> dict[str, str] | None:
    """The parent of a derived run; both fields or none."""
    if not isinstance(value, dict):
        return None
    fields = {key: jsonl.line(value.get(key)) for key in ("run", "relation")}
    fields["relation"] = _FORMER_RELATIONS.get(fields["relation"] or "", fields["relation"])
    return {key: text for key, text in fields.items() if text} if all(fields.values()) else None


def _variables(value: Any) -> dict[str, str] | None:
    """Valid environment variables."""
    if not isinstance(value, dict):
        return None
    return {
        name: text
        for name, text in value.items()
        if name and "=" not in name and isinstance(text, str) and "\0" not in name + text
    }


def _attempts(value: Any) -> list[dict[str, Any]]:
    attempts = value if isinstance(value, list) else []
    checked = [_fields(attempt, _OF_ATTEMPT) for attempt in attempts if isinstance(attempt, dict)]
    return [attempt for attempt in checked if "number" in attempt]


_OF_SURROUNDINGS: Mapping[str, Callable[[Any], Any]] = {
    "recipe_file": _files,
    "data": _files,
    "code": _files,
    "reward_inputs": _files,
    "tools": _files,
    "model": _files,
}

_OF_ADOPTED: Mapping[str, Callable[[Any], Any]] = {
    "path": jsonl.location,
    "logs": _locations,
    "process": _mapping,
    "started": jsonl.moment,
}

_OF_ATTEMPT: Mapping[str, Callable[[Any], Any]] = {
    "number": jsonl.integer,
    "started": jsonl.moment,
    "argv": _words,
    "from_step": jsonl.integer,
    "from": jsonl.location,
    "surroundings": _record(_OF_SURROUNDINGS),
}

_FIELDS: Mapping[str, Callable[[Any], Any]] = {
    **_OF_SURROUNDINGS,
    "id": jsonl.line,
    "mark": jsonl.line,
    "folder": _mapping,
    "name": jsonl.line,
    "recipe": jsonl.line,
    "config_path": jsonl.location,
    "kind": jsonl.line,
    "variables": _variables,
    "deterministic": _variables,
    "description": jsonl.line,
    "argv": _words,
    "cwd": jsonl.location,
    "created": jsonl.moment,
    "config": _config,
    "fingerprint": jsonl.line,
    "changes": _changes,
    "in_file": _shown_mapping,
    "seeds": _mapping,
    "total_steps": jsonl.integer,
    "world_size": jsonl.integer,
    "checkpoint_dir": jsonl.location,
    "queue": _shown_mapping,
    "gpus": jsonl.integer,
    "metrics": jsonl.line,
    "format": jsonl.line,
    "ray": jsonl.line,
    "slurm": _words,
    "adopted": _record(_OF_ADOPTED),
    "parent": _parent,
    "pipeline": _mapping,
    "wandb": _shown_mapping,
    "attempts": _attempts,
}
