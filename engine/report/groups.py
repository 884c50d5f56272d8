"""Runs that differ only in their seeds form a group, which a comparison shows as one column."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import takewhile

import numpy as np

from engine.base.quantities import format_count
from engine.base.typed import to_json
from engine.config.frozen import decides_training
from engine.report.differences import trained_values
from engine.run.history.columns import Column, Floats
from engine.run.history.plot import Band, Line, Values
from engine.run.kinds import find_kind
from engine.run.manifest import FullManifest

_SHORTEST_NAME = 4
_SEED = re.compile(r"(?:.*[._])?(?:seed|data_seed|random_seed)")
_NAME = re.compile(r"(?:.*\.)?(?:run_name|run_id|exp_name|experiment_name|\w+_dir|report_to)")
"""Keys of other trainers that only name a run or the folders that it writes to."""


@dataclass(frozen=True)
class Group:
    """One column of a comparison. ``members`` are indices of runs; a seed is None if unknown."""

    name: str
    members: tuple[int, ...]
    seeds: tuple[int | None, ...]

    @property
    def units(self) -> tuple[object, ...]:
        """What pairs the members with those of another group: their seeds if all are known and
        differ; else nothing."""
        distinct = set(self.seeds)
        is_paired = None not in distinct and len(distinct) == len(self.seeds)
        return self.seeds if is_paired else tuple(f"run {index}" for index in self.members)

    @property
    def label(self) -> str:
        """The seeds, as far as they are known."""
        if None in self.seeds:
            return format_count(len(self.members), "run")
        return ", ".join(map(str, self.seeds))

    def to_json(self, ids: Sequence[str]) -> dict[str, object]:
        return {
            "name": self.name,
            "runs": [ids[index] for index in self.members],
            "seeds": list(self.seeds),
        }


Grouping = Callable[[Sequence[str], Sequence[FullManifest]], tuple[Group, ...]]
"""Makes groups of runs, from their IDs and manifests."""


def find_groups(ids: Sequence[str], manifests: Sequence[FullManifest]) -> tuple[Group, ...]:
    """The runs in groups that train alike except for their seeds, in order of their first runs.

    A repetition with the same seed begins another group: it was made because something else has
    changed. A run whose configuration or seed is unknown is a group of its own.
    """
    members: dict[tuple[str, int], list[int]] = {}
    repeated: Counter[tuple[str, int | None]] = Counter()
    for index, values in enumerate(trained_values(manifests)):
        seed = seed_of(manifests[index])
        is_known = values and seed is not None
        identity = _identity(manifests[index], values) if is_known else f"run {index}"
        members.setdefault((identity, repeated[identity, seed]), []).append(index)
        repeated[identity, seed] += 1
    by_seed = [
        sorted(runs, key=lambda index: seed_of(manifests[index]) or 0) for runs in members.values()
    ]
    return _named(ids, manifests, by_seed)


def group_each(ids: Sequence[str], manifests: Sequence[FullManifest]) -> tuple[Group, ...]:
    """Every run as a group of its own."""
    return _named(ids, manifests, [[index] for index in range(len(ids))])


def group_by_name(names: Mapping[str, str]) -> Grouping:
    """Groups that a person chose: ``names`` has the group of a run by the run's ID. Other runs are
    on their own."""

    def grouping(ids: Sequence[str], manifests: Sequence[FullManifest]) -> tuple[Group, ...]:
        members: dict[str, list[int]] = {}
        for index, run in enumerate(ids):
            members.setdefault(names.get(run, run), []).append(index)
        return tuple(_group(name, manifests, chosen) for name, chosen in members.items())

    return grouping


def group_line(
    columns: Sequence[Column],
    label: str,
    ink: str,
    *,
    key: str = "",
    clock: Column | None = None,
    until: int | None = None,
) -> Line:
    """A metric of a group up to the step ``until``: of one run as it was logged, of several their
    mean at the steps that all of them have.

    The mean has bands: one standard deviation of a sample (n - 1) to each side, and from the lowest
    to the highest run. Runs that never logged the metric are left out. A mean over some of the runs
    would jump where one of them ends; where one of them logged no number, the line has a gap.
    """
    if len(columns) == 1:
        (column,) = columns
        size = _size(column.steps, until)
        x, y = column.steps[:size], column.values[:size]
        return Line(x, y, label, ink=ink, key=key, clock=clock, source=column)
    logged = [each for each in columns if np.isfinite(each.values).any()] or columns
    intersect = partial(np.intersect1d, assume_unique=True)
    shared = reduce(intersect, [each.steps for each in logged])
    gaps = [each.steps[np.isnan(each.values)] for each in columns]
    steps = np.unique(np.concatenate([shared, *gaps]))
    steps = steps[: _size(steps, until)]
    values = np.stack([each.at(steps, np.nan) for each in logged])
    mean, low, high = values.mean(axis=0), values.min(axis=0), values.max(axis=0)
    std = values.std(axis=0, ddof=min(1, len(logged) - 1))
    bands = (
        Band("spread", mean - std, mean + std, (Values(steps, std, "std"),)),
        Band("extremes", low, high, (Values(steps, low, "min"), Values(steps, high, "max"))),
    )
    return Line(steps, mean, label, ink=ink, key=key, clock=clock, bands=bands)


def _size(steps: Floats, until: int | None) -> int:
    return steps.size if until is None else int(np.searchsorted(steps, until, side="right"))


def _identity(manifest: FullManifest, values: Mapping[str, object]) -> str:
    """What runs of a group have in common, as text."""
    kind = find_kind(manifest.kind)
    seeds = frozenset(kind.seed_keys) if kind else frozenset[str]()
    common = {
        key: value
        for key, value in values.items()
        if key not in seeds
        and (decides_training(key) or key.startswith("data.val_file"))
        and not _SEED.fullmatch(key)
        and not _NAME.fullmatch(key)
    }
    facts = [manifest.kind, common, to_json(manifest.model)]
    return json.dumps(facts, sort_keys=True, default=str)


def _named(
    ids: Sequence[str], manifests: Sequence[FullManifest], members: Sequence[Sequence[int]]
) -> tuple[Group, ...]:
    names = [_common_name([ids[index] for index in group]) for group in members]
    distinct = [
        name if names.count(name) == 1 else f"{ids[group[0]]} +{len(group) - 1}"
        for name, group in zip(names, members, strict=True)
    ]
    pairs = zip(distinct, members, strict=True)
    return tuple(_group(name, manifests, group) for name, group in pairs)


def _group(name: str, manifests: Sequence[FullManifest], members: Sequence[int]) -> Group:
    return Group(name, tuple(members), tuple(seed_of(manifests[index]) for index in members))


def _common_name(ids: Sequence[str]) -> str:
    """The ID of a single run; ``base-s*`` for ``base-s1`` and ``base-s2``."""
    if len(ids) == 1:
        return ids[0]
    common = common_beginning(ids)
    return f"{common}*" if len(common) >= _SHORTEST_NAME else f"{ids[0]} +{len(ids) - 1}"


def common_beginning(names: Sequence[str]) -> str:
    """What all names begin with."""
    alike = takewhile(lambda characters: len(set(characters)) == 1, zip(*names, strict=False))
    return "".join(characters[0] for characters in alike)


def seed_of(manifest: FullManifest) -> int | None:
    """The seed by which a run is paired with others; None if it is unknown."""
    config, kind = manifest.config, find_kind(manifest.kind)
    keys = (*(kind.seed_keys if kind else ()), *filter(_SEED.fullmatch, sorted(config, key=len)))
    value = next((config[key].value for key in keys if key in config), None)
    return value if isinstance(value, int) else None
