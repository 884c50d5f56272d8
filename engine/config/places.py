"""Where a config's model, data and checkpoints are on this disk."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from engine.base.quantities import format_stamp
from engine.config import hub
from engine.config.load import Config
from engine.run.host.programs import typed_module
from engine.run.kinds import KINDS

TINY_WORLD = Path("data/tiny")
MAKE_TINY_WORLD = typed_module("engine.data.tiny_world")
"""Makes the demo's data and its tiny model, without a network."""

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def model_name(config: Config) -> str:
    """Return the model of the config: a folder or a hub name."""
    return str(config.get(config.kind.model_key))


def lora_rank(config: Config) -> int:
    """Return the LoRA rank; 0 is full fine-tuning. Of verl's two keys, the first set one counts."""
    model = "actor_rollout_ref.model"
    keys = ("lora.r", f"{model}.lora.rank", f"{model}.lora_rank")
    return next((int(config.get(key)) for key in keys if config.get(key)), 0)


def is_hub_name(name: str) -> bool:
    """Whether ``name`` is meant as ``owner/model`` rather than as a folder."""
    path = Path(name)
    return bool(_HUB_NAME.fullmatch(name)) and not path.exists() and not path.parent.exists()


def local_folder(name: str, env: Mapping[str, str]) -> Path | None:
    """Return the folder of a model: itself, or the newest snapshot in the hub's cache."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    if not is_hub_name(name):
        return None
    folders = hub.snapshots(name, env).glob("*/")
    return max(sorted(folders), key=lambda path: path.stat().st_mtime, default=None)


DATA_KEYS = tuple(
    key for kind in KINDS.values() for key in (kind.train_files_key, kind.val_files_key) if key
)
"""Files that are read as tables: nothing in them is executed."""


def data_files(config: Config) -> list[Path]:
    """Return the files that a config trains and validates on."""
    return [data_path(name) for key in DATA_KEYS for name in config.listed(key) if name]


def data_path(name: object) -> Path:
    """Return the file that a data key of a config names."""
    return Path(str(name)).expanduser()


def checkpoint_dir(config: Config) -> str:
    """Return the checkpoint folder of the config."""
    return str(config.get(config.kind.checkpoint_key))


_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def wandb_name(config: Config, created: float) -> str:
    """Return ``MODEL-TIME-bBATCH-lLENGTH``, for example ``Qwen3-4B-20260101-120000-b64-l1024``.

    The name of a config is the same for all of its runs, so only one that is given with the launch
    replaces it. A final model is called by the folder of its run. Every character is safe in a
    path and in a URL.
    """
    key = config.kind.run_name_key
    if key is not None and config.origins.get(key) == "cli":
        return _safe(str(config.get(key)))
    kind = config.kind
    sizes = {"b": config.get(kind.batch_key), "l": kind.length_key and config.get(kind.length_key)}
    model = model_name(config).rstrip("/").removesuffix("/final").rpartition("/")[2]
    moment = format_stamp(created)
    parts = [f"{letter}{size}" for letter, size in sizes.items() if size is not None]
    return _safe("-".join([model, moment, *parts]))


def _safe(name: str) -> str:
    return _UNSAFE.sub("-", name).strip("-.") or "run"
