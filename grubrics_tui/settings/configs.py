"""The recipes a person can choose from, read lightly: name, kind and description."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class ConfigFile:
    """``name`` is what every command takes: the bare name of a file in ``configs/``, or a path."""

    name: str
    kind: str
    description: str


def list_configs(folder: Path = Path("configs"), here: Path = Path()) -> list[ConfigFile]:
    """Every recipe in ``folder`` and those that lie ``here``; other YAML files are not recipes."""
    named = [_describe(path, path.stem) for path in sorted(folder.glob("*.yaml"))]
    beside = [_describe(path, str(path)) for path in sorted(here.glob("*.y*ml"))]
    return [config for config in [*named, *beside] if config is not None]


def _describe(path: Path, name: str) -> ConfigFile | None:
    section = _read(path).get("grubrics")
    if not isinstance(section, dict):
        return None
    return ConfigFile(name, str(section.get("kind", "?")), str(section.get("description", "")))


def _read(path: Path) -> dict[str, Any]:
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        loaded = yaml.safe_load(text) if "grubrics:" in text else None
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return {}
    return loaded if isinstance(loaded, dict) else {}
