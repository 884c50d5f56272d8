"""Store the config with the run as it was launched, so that later edits do not change the run.

``recipe.yaml`` in the run directory holds every value that somebody set, whether in the file, on
the command line or in the environment. The trainer of every attempt reads this file.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from engine.base.files import content_hash
from engine.config.compose import effective, verl_config
from engine.config.keys import flatten, tables, unflatten
from engine.config.load import Config
from engine.config.scoring import reward_function, tools_code
from engine.config.sft_compose import sft_values
from engine.reward.own.files import OF_CODE, OF_DATA, OF_INPUTS, OF_TOOLS, code_files, input_files
from engine.run.kinds import GRPO, SFT, Kind
from engine.run.manifest import Setting, Settings
from engine.run.run import Run


def training_values(config: Config) -> dict[str, Any]:
    """Return the effective values that determine the trained parameters.

    Left out are the values that only determine where a run is stored and how it is monitored:
    supervision, loggers and names, output folders, the frequency of checkpoints and validation, the
    number of checkpoints retained, the checkpoint to resume, the processes that load data, the
    concurrency and timeouts of the judge, profilers, and Ray's settings. Two runs that differ only
    in these may share a checkpoint folder. The number of steps is included: learning rate schedules
    depend on it.
    """
    grpo = config.kind == GRPO
    values = dict(flatten(verl_config(config, Path()))) if grpo else dict(config.values)
    return {key: value for key, value in values.items() if decides_training(key)}


def decides_training(key: str) -> bool:
    """Whether the trained parameters may depend on the value of ``key``; see
    ``training_values``."""
    return _not_training().match(key) is None


@cache
def _not_training() -> re.Pattern[str]:
    return re.compile("|".join(tables()["not_training"]))


def code_hashes(config: Config) -> dict[str, str]:
    """Return the hashes of the config's own reward function, of what it reads, and of tools.

    The keys are those of ``code_values`` and ``tool_values``, which read the
    hashes of a run.
    """
    function = reward_function(config)
    files = code_files(function)
    names = {path: path.relative_to(files[0].parent) for path in files}
    return {
        **{f"{OF_CODE} {name}": content_hash(path) for path, name in names.items()},
        **{f"{OF_INPUTS} {path}": content_hash(path) for path in input_files(function)},
        **{f"{OF_TOOLS} {path}": content_hash(path) for path in tools_code(config)},
    }


def training_data_hashes(config: Config) -> dict[str, str]:
    """Return the hashes of the training files; validation does not change the parameters.

    The keys are those of ``data_values``, which reads the hashes of a run.
    """
    names = config.listed(config.kind.train_files_key)
    paths = [Path(str(name)).expanduser() for name in names if name]
    return {f"{OF_DATA} {path}": content_hash(path) for path in paths if path.is_file()}


def training_fingerprint(config: Config) -> str:
    """SHA-256 of ``training_values``, of the training files and of the config's own reward
    function, in hex."""
    files = {**training_data_hashes(config), **code_hashes(config)}
    values = {**training_values(config), **files}
    text = json.dumps(values, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def manifest_config(config: Config, attempt_dir: Path) -> dict[str, Setting]:
    """Return every value that the trainer gets, with its origin, as the manifest stores them.

    The keys of verl's SFT trainer, whose configuration follows from the config, begin with
    ``verl.``.
    """
    complete = effective(config, attempt_dir)
    settings = {
        key: Setting(value, complete.origins.get(key, "default"), key in config.secret_references)
        for key, value in complete.values.items()
    }
    if config.kind == SFT:
        for key, value in sft_values(config, attempt_dir).items():
            settings[f"{VERL}{key}"] = Setting(value, "implied")
    return settings


VERL = "verl."


def in_file(config: Config) -> dict[str, Any]:
    """Return the values that a person's file had for the keys that were overridden since.

    The ``recipe.yaml`` of a run contains the run's overrides; the manifest beside it holds the
    values that they replaced.
    """
    replaced = {change.key: change.before for change in config.changes}
    run = Run(config.path.parent)
    earlier = run.read_manifest().values_in_file if run.config_file == config.path else {}
    return {**replaced, **earlier}


LAUNCHED = "# What this run was launched with. Edits are overwritten; launch a new run instead."


def pinned_config(settings: Settings, comment: str = LAUNCHED) -> str:
    """Return the YAML of a config with the values of ``settings``, below ``comment``.

    Implied values are left out: every attempt computes them again.
    """
    chosen = {
        key: setting.value if setting.reference else _literal(setting.value)
        for key, setting in settings.items()
        if setting.is_chosen
    }
    return f"{comment}\n" + OmegaConf.to_yaml(OmegaConf.create(unflatten(chosen)))


def _literal(value: Any) -> Any:
    """Return ``value`` with ``${`` escaped: its references were resolved at the launch."""
    if isinstance(value, str):
        return value.replace("${", "\\${")
    if isinstance(value, dict):
        return {key: _literal(item) for key, item in value.items()}
    return [_literal(item) for item in value] if isinstance(value, list) else value


def pinned_argv(kind: Kind, path: Path) -> list[str]:
    """Return the command of a trainer that reads ``path`` and ignores ``ENVIRONMENT_KEYS``."""
    return [sys.executable, "-m", kind.trainer, "--config", str(path), "--no-env"]
