"""Named compositions of training data, read from ``training_presets.yaml``, where configs are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from engine.base.errors import UsageError, unknown_name
from engine.data.adapters import get_adapter
from engine.recipe.config_files import CONFIG_DIR, packaged_configs

DEFAULT_PRESETS = CONFIG_DIR / "training_presets.yaml"
"""Where there is none, the packaged one is read."""

Share = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class DatasetSpec(BaseModel):
    """One dataset of a preset. Paths are relative to the working directory."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    weight: Share = 1.0
    path: Path | None = None
    meta_eval_path: Path | None = None
    cache: Path | None = None


class Preset(BaseModel):
    """``single`` mixes ``datasets``; ``curriculum`` mixes two groups anew for each phase.

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
        raw: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
        presets = PresetFile.model_validate(raw)
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{path}: {key}: {first['msg']}") from error
    for preset in presets.presets.values():
        for dataset in preset.all_datasets():
            get_adapter(dataset)
    presets.get(None)
    return presets
