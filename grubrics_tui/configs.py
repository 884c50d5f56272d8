"""The recipes a person can choose from, read lightly: name, kind and description."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class ConfigFile:
    name: str
    kind: str
    description: str


def list_configs(folder: Path = Path("configs")) -> list[ConfigFile]:
    """Every recipe in ``folder``, by name; other YAML files are not recipes."""
    found = [_describe(path) for path in sorted(folder.glob("*.yaml"))]
    return [config for config in found if config is not None]


def _describe(path: Path) -> ConfigFile | None:
    section = _read(path).get("grubrics")
    if not isinstance(section, dict):
        return None
    return ConfigFile(path.stem, str(section.get("kind", "?")), str(section.get("description", "")))


def _read(path: Path) -> dict[str, Any]:
    import yaml

    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return {}
    return loaded if isinstance(loaded, dict) else {}
