"""What differs between runs, from their manifests: their configuration, and what they ran on.

And whether what differs keeps their rewards from being compared.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from engine.base import jsonl
from engine.base.text import format_command, format_config_value
from engine.reward.own.files import code_values, data_values, tool_values
from engine.run.host.surroundings import flat
from engine.run.kinds import find_kind
from engine.run.manifest import FullManifest, Manifest, Setting, Settings

_NAMES = {
    "recipe_file": "config file",
    "environment": "software",
    "data": "data files",
    "code": "reward function",
    "reward_inputs": "reward inputs",
    "tools": "tools",
    "model": "base model",
}
_SAID_BY_THE_HASH = "bytes"
_HASH = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{28,52}\b")
"""Of a file or of a commit."""


@dataclass(frozen=True)
class Cell:
    """A value that one run has; ``origin`` is default, file, cli, environment or implied, if
    known."""

    value: object
    origin: str = ""

    def to_json(self) -> dict[str, object]:
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
        """Section and key: ``optim.lr`` of a config, ``config file: sft.yaml sha256`` of what a
        run ran on."""
        return ("." if self.of_config else ": ").join(filter(None, (self.section, self.key)))


def config_differences(manifests: Sequence[FullManifest]) -> list[Difference]:
    """The config keys whose values differ, by section; a different origin alone does not count.

    Left out are defaults of keys that another run lacks (between two kinds of configs, every one of
    them would differ), and keys that no run set and that follow from other values, which are shown.
    A run of which no configuration is known differs in nothing.
    """
    configs = [_config(manifest) for manifest in manifests]
    derived = frozenset[str]().union(*(derived_keys(config) for config in configs))
    chosen = {key for config in configs for key, setting in config.items() if setting.is_chosen}
    keys = sorted({key for config in configs for key in config} - (derived - chosen))
    known = [config for config in configs if config]
    return [
        _difference(key, [config.get(key) for config in configs])
        for key in keys
        if _differ([config.get(key) for config in known])
    ]


def trained_values(manifests: Sequence[FullManifest]) -> list[dict[str, object]]:
    """The effective values of each run by dotted key, with the hashes of the data, of an own reward
    function and of tools, and without keys that follow from others in one of the runs.

    Empty for a run whose configuration is unknown.
    """
    configs = [_config(manifest) for manifest in manifests]
    derived = frozenset[str]().union(*(derived_keys(config) for config in configs))
    return [
        {
            **{key: setting.value for key, setting in config.items() if key not in derived},
            **(data_values(manifest) if config else {}),
            **(code_values(manifest) if config else {}),
            **(tool_values(manifest) if config else {}),
        }
        for manifest, config in zip(manifests, configs, strict=True)
    ]


def environment_differences(manifests: Sequence[FullManifest]) -> list[Difference]:
    """Packages, variables, git, hardware, config file and data that differ; ``SHELL`` comes last.

    If a fact changed between attempts of a run, its value reads ``before → after``.
    """
    facts = [_surroundings(manifest) for manifest in manifests]
    differences = []
    for path in sorted({path for facts_of_run in facts for path in facts_of_run}):
        values = [facts_of_run.get(path) for facts_of_run in facts]
        known = [facts_of_run.get(path) for facts_of_run in facts if facts_of_run]
        if path[0] == "model" and None in known:
            continue  # Another model, which the configuration names.
        if any(value != known[0] for value in known):
            section, key = _section_and_key(path)
            cells = tuple(None if value is None else Cell(value) for value in values)
            differences.append(Difference(section, key, cells, of_config=False))
    return sorted(differences, key=lambda difference: _SECTIONS.index(difference.section))


def differences_of_groups(
    differences: Sequence[Difference], members: Sequence[Sequence[int]]
) -> tuple[Difference, ...]:
    """The differences between groups of runs, with a cell for each group.

    ``members``: the indices of each group's runs. A cell lists the values of runs that differ
    within a group.
    """
    rows = (
        replace(row, cells=tuple(_common([row.cells[i] for i in group]) for group in members))
        for row in differences
    )
    return tuple(row for row in rows if len(set(map(_value_of, row.cells))) > 1)


def _common(cells: Sequence[Cell | None]) -> Cell | None:
    """One cell for several runs."""
    first = cells[0]
    if all(_value_of(cell) == _value_of(first) for cell in cells):
        return first
    values = dict.fromkeys(
        "not set" if cell is None else format_config_value(cell.value) for cell in cells
    )
    return Cell(", ".join(values), "" if first is None else first.origin)


def _value_of(cell: Cell | None) -> str | None:
    return None if cell is None else format_config_value(cell.value)


def short_text(value: object) -> str:
    """The value with the beginnings of hashes, so that two of them fit into a cell."""
    return _HASH.sub(r"\1…", format_config_value(value))


def _config(manifest: FullManifest) -> Settings:
    """The config; of a command, its command line."""
    if words := manifest.command:
        return {**manifest.config, "command": Setting(format_command(words), "cli")}
    return manifest.config


def _differ(settings: Sequence[Setting | None]) -> bool:
    present = [setting for setting in settings if setting is not None]
    if len(present) < len(settings):
        return any(setting.is_chosen for setting in present)
    first = present[0].value  # 1 equals 1.0, but not true.
    return any(
        setting.value != first or isinstance(setting.value, bool) != isinstance(first, bool)
        for setting in present
    )


def _difference(key: str, settings: Sequence[Setting | None]) -> Difference:
    section, _, name = (jsonl.line(key) or "?").partition(".")
    cells = (
        None if setting is None else Cell(setting.value, setting.origin) for setting in settings
    )
    return Difference(section if name else "", name or section, tuple(cells))


SHELL = "shell"
"""Variables for paths and logging, which cannot change the training."""

_SECTIONS = (
    "git",
    "config file",
    "data files",
    "reward function",
    "reward inputs",
    "tools",
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


def _surroundings(manifest: Manifest) -> dict[tuple[str, ...], object]:
    """Each fact of the run's attempts, one after the other where it changed."""
    later = [attempt.surroundings for attempt in manifest.attempts if attempt.surroundings]
    snapshots = [flat(snapshot) for snapshot in (manifest, *later)]
    paths = {path for snapshot in snapshots for path in snapshot}
    return {
        path: value
        for path in paths
        if path[-1] != _SAID_BY_THE_HASH
        and (value := _over_time([snapshot.get(path) for snapshot in snapshots])) is not None
    }


def _over_time(values: Sequence[object]) -> object:
    changed = [values[0], *(b for a, b in pairwise(values) if a != b)]
    if len(changed) == 1:
        return _devices(values[0])
    return " → ".join(format_config_value(_devices(value)) for value in changed)


def _devices(value: object) -> object:
    """A list of GPUs as ``2 x NVIDIA H100``."""
    if not isinstance(value, list):
        return value
    names = Counter(
        str(item.get("name")) if isinstance(item, dict) else str(item) for item in value
    )
    return ", ".join(f"{count} x {name}" for name, count in names.items()) or "none"


def _section_and_key(path: tuple[str, ...]) -> tuple[str, str]:
    """Section and key of a fact."""
    part, *names = path
    if part == "environment" and names and names[0] in ("packages", "variables"):
        part, *names = names
    if part == "variables" and names and _OF_THE_SHELL.match(names[0]):
        part = SHELL
    key = " ".join(jsonl.line(name) or "?" for name in names)
    return _NAMES.get(part, part), key or _NAMES.get(part, part)


def _tidy(value: object) -> object:
    """A JSON value with texts that are safe to display."""
    if isinstance(value, str):
        return jsonl.line(value)
    if isinstance(value, Mapping):
        return {jsonl.line(str(key)) or "": _tidy(item) for key, item in value.items()}
    if isinstance(value, Iterable):
        return [_tidy(item) for item in value]
    return value


def derived_keys(config: Settings) -> frozenset[str]:
    """The keys that were not set and follow from other values."""
    return frozenset(key for key, setting in config.items() if setting.origin == "implied")


_MAKES_REWARDS = re.compile(
    r"reward_config\..*|judge\.(?:provider|model|base_url|max_tokens|temperature)"
    r"|(?:reward\.)?custom_reward_function\..*|reward\.reward_manager\..*"
    r"|reward\.reward_kwargs\..*"
    r"|reward\.reward_model\.(?:enable|model_path)"
)


def reward_differences(manifests: Sequence[FullManifest]) -> tuple[str, ...]:
    """The keys, and files of a reward function, that put the rewards of the runs on different
    scales. Files are compared only between runs that record them.

    SFT has no rewards, and limits of the judge's speed do not change a reward.
    """
    kinds = ((manifest, find_kind(manifest.kind)) for manifest in manifests)
    rewarded = [manifest for manifest, kind in kinds if kind is None or kind.has_rollouts]
    if len(rewarded) < 2:
        return ()
    codes = [code_values(manifest) for manifest in rewarded]
    names = sorted({name for code in codes for name in code})
    edited = [name for name in names if len({code.get(name) for code in codes if code}) > 1]
    differing = [difference.name for difference in config_differences(rewarded)]
    if all(codes):
        # Reward functions of the configs score: settings of the judge have no effect.
        judge = ("judge.", "reward_config.")
        differing = [key for key in differing if not key.startswith(judge)]
    keys = (
        key
        for key in differing
        # verl copies its older section of that name into the newer one.
        if _MAKES_REWARDS.fullmatch(key) and f"reward.{key}" not in differing
    )
    return (*keys, *edited)


def format_reward_differences(keys: Sequence[str]) -> str:
    """One line for display; empty if the rewards can be compared."""
    if not keys:
        return ""
    names = ", ".join(keys[:4]) + (f" and {len(keys) - 4} more" if len(keys) > 4 else "")
    verb = "differs" if len(keys) == 1 else "differ"
    return f"rewards are not on the same scale: {names} {verb}"


_NAMED = 3


def different_kinds(manifests: Sequence[FullManifest]) -> tuple[str, ...]:
    """The kinds of the runs, in the order of the runs; empty if all are of one kind."""
    kinds = (manifest.kind for manifest in manifests if manifest.kind)
    distinct = tuple(dict.fromkeys(kinds))
    return distinct if len(distinct) > 1 else ()


def shared_metrics(names: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """The metrics that every run has logged, sorted. ``names`` are those of each run."""
    sets = [frozenset(names_of_run) for names_of_run in names]
    return tuple(sorted(frozenset.intersection(*sets))) if sets else ()


def format_kinds(kinds: Sequence[str], shared: Sequence[str]) -> str:
    """One line for display; empty if the runs are of one kind."""
    if not kinds:
        return ""
    names = ", ".join(shared[:_NAMED]) or "no metric"
    suffix = f" and {len(shared) - _NAMED} more" if len(shared) > _NAMED else ""
    return (
        f"different kinds ({', '.join(kinds)}): apart from steps and times, they share "
        f"{names}{suffix}"
    )
