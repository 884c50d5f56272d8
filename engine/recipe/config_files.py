"""Find configs: those in ``configs/`` of the working folder, then those that are packaged.

The folder ``configs/`` of the repository is packaged as ``engine/configs``. Paths in a packaged
config (``data/``, ``checkpoints/``) are relative to the working folder, as in any other config.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError, nearest

CONFIG_DIR = Path("configs")


@dataclass(frozen=True)
class ConfigFile:
    """``name`` is what every command takes: the stem of a named config, or a path."""

    name: str
    kind: str
    description: str


def packaged_configs() -> Path:
    """The folder of the packaged configs; in a checkout its ``configs/``."""
    from importlib.resources import files  # 5 ms, which only commands with a config need.

    installed = Path(str(files("engine"))) / CONFIG_DIR
    return installed if installed.is_dir() else installed.parents[1] / CONFIG_DIR


def config_folders() -> list[Path]:
    """Where a config is looked for by its name, in this order."""
    packaged = packaged_configs()
    is_here = CONFIG_DIR.is_dir() and packaged.is_dir() and CONFIG_DIR.samefile(packaged)
    return [CONFIG_DIR] if is_here else [CONFIG_DIR, packaged]


def find_config(name_or_path: str) -> Path:
    """The file of a config: a path, or the stem of a file in one of ``config_folders``."""
    direct = Path(name_or_path)
    if direct.is_file():
        return direct
    if direct.parent == Path():
        for folder in config_folders():
            named = folder / f"{direct.name.removesuffix('.yaml')}.yaml"
            if named.is_file():
                return named
    raise _unknown_config(direct)


def config_names() -> list[str]:
    """The names of all configs that are found by their stem."""
    return sorted(
        {
            path.stem
            for folder in config_folders()
            for path in _yaml_files(folder)
            if is_config(path)
        }
    )


def list_configs(here: Path = Path()) -> list[ConfigFile]:
    """The configs in ``configs/``, those in the folder ``here``, then the packaged ones.

    Other YAML files are not configs, and a packaged one is hidden by one of the same name.
    """
    own, *packaged = ({path.stem: path for path in _yaml_files(each)} for each in config_folders())
    others = {name: path for more in packaged for name, path in more.items() if name not in own}
    beside = {str(path): path for path in sorted(here.glob("*.y*ml"))}
    listed = [_describe(path, name) for name, path in {**own, **beside, **others}.items()]
    return [config for config in listed if config is not None]


def is_config(path: Path) -> bool:
    return path.is_file() and "grubrics:" in path.read_text(encoding="utf-8", errors="replace")


def _yaml_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.yaml"))


def _unknown_config(given: Path) -> UsageError:
    """An error that says where it was looked for, and the nearest config or those that exist."""
    beside = sorted(given.parent.glob("*.y*ml")) if given.parent.is_dir() else []
    known = {path.stem: str(path) for path in beside if is_config(path)}
    folders = f"{given.parent}/"
    if given.parent == Path():
        known |= {name: name for name in config_names()}
        folders = ", ".join(["this folder", *(f"{folder}/" for folder in config_folders())])
    close = nearest(given.stem, known)
    hint = f"known: {', '.join(sorted(known.values())[:8])}" if known else "there is none"
    if close is not None:
        hint = f"did you mean '{known[close]}'?"
    return UsageError(f"config '{given}' does not exist; {hint} (searched {folders})")


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
