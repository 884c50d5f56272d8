"""Prepare the two training files of a curriculum from the preset ``curriculum``."""

from __future__ import annotations

import json
from pathlib import Path

from engine.base.errors import UsageError, tell
from engine.config.curriculum import KEY
from engine.config.load import Config
from engine.config.schedule import require_followed
from engine.data.prepare import PrepareOptions, group_paths, prepare_preset
from engine.data.presets import load_presets
from engine.run.host.programs import typed_module

PRESET = "curriculum"


def with_prepared_files(config: Config, *, dry_run: bool = False) -> Config:
    """Return the config with files that exist: its own two, or those of the preset beside its file.

    Those of the preset are written if one is missing, with rows that have gold scores; what is
    said meanwhile goes to stderr. UsageError, before anything is written, for a config without
    a curriculum or of SFT, for one that names two other files of which one is missing, and with
    ``dry_run`` if files would have to be written.
    """
    if not config.get(KEY):
        raise UsageError(f"{config.path}: data is generated for a curriculum only; set {KEY}")
    if not config.kind.has_rollouts:
        raise UsageError(f"{config.path}: {KEY} is for GRPO, not for {config.kind.title}")
    named = [Path(file).expanduser() for file in config.listed("data.train_files")]
    if len(named) == 2 and all(file.is_file() for file in named):
        return config
    name, preset = load_presets().get(PRESET)
    files = group_paths(preset, named[0].parent)
    missing = [str(file) for file in files if not file.is_file()]
    if len(named) == 2 and tuple(named) != files:
        absent = next(file for file in named if not file.is_file())
        raise UsageError(f"{absent} does not exist, and is not generated; {_command(files[0])}")
    chosen = config.with_overrides([f"data.train_files={json.dumps([str(f) for f in files])}"])
    require_followed(chosen)
    if missing and dry_run:
        raise UsageError(
            f"{missing[0]} does not exist; a dry run writes none. {_command(files[0])}"
        )
    if missing:
        options = PrepareOptions(
            output_dir=files[0].parent,
            only_cached=True,
            use_contrastive=bool(config.get("reward_config.use_contrastive")),
            holdout=load_presets().holdout,
        )
        for line in prepare_preset(name, preset, options).format_lines():
            tell(line)
    return chosen


def _command(file: Path) -> str:
    program = f"{typed_module('engine.data.prepare')} preset --name {PRESET} --only-cached"
    return f"To prepare {file.name}: {program} --output_dir {file.parent}"
