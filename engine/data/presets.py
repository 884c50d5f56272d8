"""Named compositions of training data, read from ``training_presets.yaml``, where configs are."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from engine.base.errors import UsageError, unknown_name
from engine.base.yaml_files import read_yaml
from engine.config.config_files import CONFIG_DIR, packaged_configs
from engine.data.adapters import get_adapter

DEFAULT_PRESETS = CONFIG_DIR / "training_presets.yaml"
"""Where there is none, the packaged one is read."""

T = TypeVar("T")
Share = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class DatasetSpec(BaseModel):
    """One dataset of a preset. Paths are relative to the working directory."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    weight: Share = 1.0
    path: Path | None = None
    meta_eval_path: Path | None = None
    cache: Path | None = None


class Preset(BaseModel):
    """``single`` mixes ``datasets``; ``curriculum`` mixes two groups again for each phase.

    ``phases`` are (verifiable, open) proportions.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["single", "curriculum"] = "single"
    description: str = ""
    recommended_for: str = ""
    datasets: dict[str, DatasetSpec] = {}
    verifiable: dict[str, DatasetSpec] = {}
    open: dict[str, DatasetSpec] = {}
    phases: list[tuple[Share, Share]] = []
    prefix: str = "mixed_"

    @model_validator(mode="after")
    def _complete(self) -> Preset:
        if self.type == "single" and not self.datasets:
            raise ValueError("a single preset needs 'datasets'")
        if self.type == "curriculum" and not (self.verifiable and self.open and self.phases):
            raise ValueError("a curriculum preset needs 'verifiable', 'open' and 'phases'")
        return self

    def all_datasets(self) -> dict[str, DatasetSpec]:
        """Every dataset the preset draws from."""
        return {**self.datasets, **self.verifiable, **self.open}


class PresetFile(BaseModel):
    """All presets, the one used by default, and the held-out questions none of them may use."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    active_preset: str
    holdout: Path | None = None
    presets: dict[str, Preset]

    def get(self, name: str | None) -> tuple[str, Preset]:
        """The preset called ``name``, or the active one, with its name."""
        chosen = name or self.active_preset
        if chosen not in self.presets:
            raise unknown_name("preset", chosen, self.presets)
        return chosen, self.presets[chosen]


def load_presets(path: Path = DEFAULT_PRESETS) -> PresetFile:
    """Read and check a presets file; UsageError in one line when it cannot be used."""
    if path == DEFAULT_PRESETS and not path.is_file():
        path = packaged_configs() / path.name
    if not path.is_file():
        raise UsageError(f"{path} does not exist")
    try:
        presets = PresetFile.model_validate(read_yaml(path))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{path}: {key}: {first['msg']}") from error
    for preset in presets.presets.values():
        for dataset in preset.all_datasets():
            get_adapter(dataset)
    presets.get(None)
    return presets


def mix(
    pools: Mapping[str, Sequence[T]], weights: Mapping[str, float], total: int | None, seed: int
) -> list[T]:
    """Shuffled rows of all ``pools`` in the proportions of ``weights``.

    Weights are normalized; pools of weight 0 are left out. Without ``total`` the result is as large
    as the scarcest pool allows. A pool smaller than its share is drawn with replacement.
    """
    used = {name: weight for name, weight in weights.items() if weight > 0}
    for name in used:
        if not pools[name]:
            raise UsageError(f"dataset '{name}' has no usable rows to mix")
    counts = shares({name: len(pools[name]) for name in used}, used, total)
    chooser = random.Random(seed)
    rows: list[T] = []
    for name in used:
        pool, count = pools[name], counts[name]
        rows += (
            chooser.sample(pool, count) if count <= len(pool) else chooser.choices(pool, k=count)
        )
    chooser.shuffle(rows)
    return rows


def shares(
    sizes: Mapping[str, int], weights: Mapping[str, float], total: int | None
) -> dict[str, int]:
    """Rows to take of each pool: its weight's part of ``total``, rounded to the nearest."""
    scale = sum(weights.values())
    if scale <= 0:
        raise UsageError("the weights of a mix must sum to more than 0")
    parts = {name: weight / scale for name, weight in weights.items()}
    if total is None:
        total = min(int(sizes[name] / part) for name, part in parts.items())
    return {name: round(total * part) for name, part in parts.items()}
