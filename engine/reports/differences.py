"""What differs between runs: their configuration, and what they ran on. From their manifests."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

from engine.base import jsonl
from engine.host.surroundings import PARTS, flat
from engine.recipe.keys import flatten, verl_defaults

Manifest = Mapping[str, Any]

_NAMES = {
    "recipe_file": "recipe file",
    "environment": "software",
    "data": "data files",
    "code": "reward function",
    "reward_inputs": "reward inputs",
    "model": "base model",
}
_SAID_BY_THE_HASH = "bytes"
_HASH = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{28,52}\b")
"""Of a file or of a commit."""


@dataclass(frozen=True)
class Cell:
    """A value that one run has; ``origin`` is default, file, cli, environment or implied, if
    known."""

    value: Any
    origin: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"value": _tidy(self.value), "origin": self.origin or None}


@dataclass(frozen=True)
class Difference:
    """One key with its value in each run; None where a run has no such key. Safe to show."""

    section: str
    key: str
    cells: tuple[Cell | None, ...]
    of_config: bool = True

    @property
    def name(self) -> str:
        """Section and key: ``optim.lr`` of a config, ``recipe file: sft.yaml sha256`` of what a
        run ran on."""
        return ("." if self.of_config else ": ").join(filter(None, (self.section, self.key)))


def config_differences(manifests: Sequence[Manifest]) -> list[Difference]:
    """The config keys whose values differ, by section; the same value from elsewhere does not.

    Defaults of keys that another run does not have at all are left out: every one of them would
    differ between recipes of two kinds. So is what follows from other values in one of the runs
    and was set in none: the values that it follows from are shown.
    """
    configs = [_config(manifest) for manifest in manifests]
    derived = frozenset[str]().union(*(derived_keys(config) for config in configs))
    chosen = {key for config in configs for key, one in config.items() if _is_chosen(one)}
    keys = sorted({key for config in configs for key in config} - (derived - chosen))
    rows = ((key, [config.get(key) for config in configs]) for key in keys)
    return [_difference(key, entries) for key, entries in rows if _differ(entries)]


def environment_differences(manifests: Sequence[Manifest]) -> list[Difference]:
    """Packages, variables, git, hardware, recipe file and data that differ; ``SHELL`` comes last.

    Where a resumed run changed something on the way, its value reads ``before → after``.
    """
    facts = [_surroundings(manifest) for manifest in manifests]
    found = []
    for path in sorted({path for each in facts for path in each}):
        values = [each.get(path) for each in facts]
        if path[0] == "model" and None in values:
            continue  # Another model, which the configuration names.
        if any(value != values[0] for value in values):
            section, key = _place(path)
            cells = tuple(None if value is None else Cell(value) for value in values)
            found.append(Difference(section, key, cells, of_config=False))
    return sorted(found, key=lambda one: _SECTIONS.index(one.section))


def text_of(value: Any) -> str:
    """A value as one line, as it would stand in a config file."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return f"[{', '.join(text_of(item) for item in value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {text_of(item)}" for key, item in value.items()) + "}"
    return jsonl.line(str(value)) or "''"


def short_text(value: Any) -> str:
    """``text_of`` with the beginnings of hashes, so that two of them fit into a cell."""
    return _HASH.sub(r"\1…", text_of(value))


def _config(manifest: Manifest) -> Mapping[str, Mapping[str, Any]]:
    """``{"value": ..., "origin": ...}`` by key; what is not of that form is left out."""
    config = manifest.get("config")
    entries = config.items() if isinstance(config, dict) else ()
    return {key: entry for key, entry in entries if isinstance(entry, dict) and "value" in entry}


def _is_chosen(entry: Mapping[str, Any]) -> bool:
    return entry.get("origin") not in ("default", "implied")


def _differ(entries: Sequence[Mapping[str, Any] | None]) -> bool:
    present = [entry for entry in entries if entry is not None]
    if len(present) < len(entries):
        return any(_is_chosen(entry) for entry in present)
    return any(not _same(entry["value"], present[0]["value"]) for entry in present)


def _difference(key: str, entries: Sequence[Mapping[str, Any] | None]) -> Difference:
    section, _, rest = (jsonl.line(key) or "?").partition(".")
    cells = (
        None if entry is None else Cell(entry["value"], jsonl.line(entry.get("origin")) or "")
        for entry in entries
    )
    return Difference(section if rest else "", rest or section, tuple(cells))


def _same(one: Any, other: Any) -> bool:
    """``1`` and ``true`` are not the same, ``1`` and ``1.0`` are."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


SHELL = "shell"
"""Variables that say where things lie and who logs what: no value of theirs can change training."""

_SECTIONS = (
    "git",
    "recipe file",
    "data files",
    "reward function",
    "reward inputs",
    "base model",
    "packages",
    "variables",
    "software",
    "hardware",
    SHELL,
)
_OF_THE_SHELL = re.compile(
    r"(?:VIRTUAL_ENV|CONDA_|WANDB_|GRUBRICS_(?:RUNS|RUN_ID|ATTEMPT_DIR)$|RAY_TMPDIR$|RAY_ADDRESS$"
    r"|HF_(?:HOME|TOKEN|HUB_CACHE|DATASETS_CACHE|ASSETS_CACHE|HUB_OFFLINE)$|CUDA_(?:HOME|PATH)"
    r"|\w+_(?:API_KEY|CACHE_DIR|LOG_LEVEL|LOGGING_LEVEL)$)"
)


def _surroundings(manifest: Manifest) -> dict[tuple[str, ...], Any]:
    """Each fact of the run's attempts, one after the other where it changed."""
    attempts = manifest.get("attempts")
    later = [
        attempt["surroundings"]
        for attempt in (attempts if isinstance(attempts, list) else [])
        if isinstance(attempt, dict) and isinstance(attempt.get("surroundings"), dict)
    ]
    snapshots = [flat(snapshot, PARTS) for snapshot in (manifest, *later)]
    paths = {path for snapshot in snapshots for path in snapshot}
    return {
        path: value
        for path in paths
        if path[-1] != _SAID_BY_THE_HASH
        and (value := _over_time([snapshot.get(path) for snapshot in snapshots])) is not None
    }


def _over_time(values: Sequence[Any]) -> Any:
    changed = [values[0], *(b for a, b in pairwise(values) if a != b)]
    if len(changed) == 1:
        return _devices(values[0])
    return " → ".join(text_of(_devices(value)) for value in changed)


def _devices(value: Any) -> Any:
    """A list of GPUs as ``2 x NVIDIA H100``."""
    if not isinstance(value, list):
        return value
    names = Counter(
        str(item.get("name")) if isinstance(item, dict) else str(item) for item in value
    )
    return ", ".join(f"{count} x {name}" for name, count in names.items()) or "none"


def _place(path: tuple[str, ...]) -> tuple[str, str]:
    """Section and key of a fact."""
    part, *rest = path
    if part == "environment" and rest and rest[0] in ("packages", "variables"):
        part, *rest = rest
    if part == "variables" and rest and _OF_THE_SHELL.match(rest[0]):
        part = SHELL
    key = " ".join(jsonl.line(name) or "?" for name in rest)
    return _NAMES.get(part, part), key or _NAMES.get(part, part)


def _tidy(value: Any) -> Any:
    """A JSON value whose texts can be shown."""
    if isinstance(value, str):
        return jsonl.line(value)
    if isinstance(value, Mapping):
        return {jsonl.line(str(key)) or "": _tidy(item) for key, item in value.items()}
    if isinstance(value, Iterable):
        return [_tidy(item) for item in value]
    return value


Config = Mapping[str, Mapping[str, Any]]
"""Value and origin by dotted key, as in a manifest."""


def derived_keys(config: Config) -> frozenset[str]:
    """The keys whose values nobody set and that follow from other values.

    Earlier versions recorded the origin of a default that refers to another key as ``default``.
    """
    return frozenset(_derived(config))


def _derived(config: Config) -> Iterator[str]:
    for key, entry in config.items():
        origin = entry.get("origin")
        if origin == "implied" or (origin == "default" and key in _references()):
            yield key


@cache
def _references() -> frozenset[str]:
    """The keys whose default in verl is a reference to another key."""
    return frozenset(key for key, value in flatten(verl_defaults()) if "${" in str(value))
