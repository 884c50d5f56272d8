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
    """A config for a list; commands take its ``name``: the stem of the file, or a path."""

    name: str
    kind: str
    description: str


@dataclass(frozen=True)
class YamlFile:
    """What a YAML file in ``configs/`` can be: ``mark`` is in its text."""

    noun: str
    mark: str

    def is_in(self, path: Path) -> bool:
        """Return whether a file is one, by its text."""
        return path.is_file() and self.mark in path.read_text(encoding="utf-8", errors="replace")


CONFIG = YamlFile("config", "grubrics:")
PIPELINE = YamlFile("pipeline", "stages:")


def packaged_configs() -> Path:
    """Return the folder of the packaged configs; in a checkout, its ``configs/``."""
    from importlib.resources import files  # 5 ms, which only commands with a config need.

    installed = Path(str(files("engine"))) / CONFIG_DIR
    return installed if installed.is_dir() else installed.parents[1] / CONFIG_DIR


def config_folders() -> list[Path]:
    """Return the folders that are searched for a config by its name, in this order."""
    packaged = packaged_configs()
    is_checkout = CONFIG_DIR.is_dir() and packaged.is_dir() and CONFIG_DIR.samefile(packaged)
    return [CONFIG_DIR] if is_checkout else [CONFIG_DIR, packaged]


def find_config(name_or_path: str, what: YamlFile = CONFIG) -> Path:
    """Return the file of a config, given its path or its stem in one of ``config_folders``.

    UsageError for a name that none has, with the nearest file that is ``what``.
    """
    direct = Path(name_or_path)
    if direct.is_file():
        return direct
    if direct.parent == Path():
        for folder in config_folders():
            named = folder / f"{direct.name.removesuffix('.yaml')}.yaml"
            if named.is_file():
                return named
    raise _unknown_config(direct, what)


def config_names(what: YamlFile = CONFIG) -> list[str]:
    """Return the names of all configs in ``config_folders``, or of other files there."""
    return sorted(
        {
            path.stem
            for folder in config_folders()
            for path in _yaml_files(folder)
            if what.is_in(path)
        }
    )


def list_configs() -> list[ConfigFile]:
    """Return the configs in ``configs/``, those in this folder, then the packaged ones.

    Other YAML files are left out. A config in ``configs/`` hides a packaged one of the same name.
    """
    local, *packaged = (
        {path.stem: path for path in _yaml_files(each)} for each in config_folders()
    )
    paths = local | {str(path): path for path in sorted(Path().glob("*.y*ml"))}
    for configs in packaged:
        paths |= {name: path for name, path in configs.items() if name not in local}
    sections = {name: _read(path).get("grubrics") for name, path in paths.items()}
    return [
        ConfigFile(name, str(section.get("kind", "?")), str(section.get("description", "")))
        for name, section in sections.items()
        if isinstance(section, dict)
    ]


def _yaml_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.yaml"))


def _unknown_config(path: Path, what: YamlFile) -> UsageError:
    """Return an error with the nearest config, or those that exist, and the folders searched."""
    missing = f"{what.noun} '{path}' does not exist"
    if path.exists():
        missing = f"{path} is no regular file, so it is no {what.noun}"
    files = sorted(path.parent.glob("*.y*ml")) if path.parent.is_dir() else []
    configs = {file.stem: str(file) for file in files if what.is_in(file)}
    folders = f"{path.parent}/"
    known = config_names(what)
    if path.parent != Path() and path.stem in known:
        # Guides name a packaged config by its path in a clone of its repository.
        hint = f"did you mean '{path.stem}', without folder and ending?"
        return UsageError(f"{missing}; {hint}")
    if path.parent == Path():
        configs |= {name: name for name in known}
        folders = ", ".join(["this folder", *(f"{folder}/" for folder in config_folders())])
    close = nearest(path.stem, configs)
    hint = f"known: {', '.join(sorted(configs.values())[:8])}" if configs else "there is none"
    if close is not None:
        hint = f"did you mean '{configs[close]}'?"
    return UsageError(f"{missing}; {hint} (searched {folders})")


def _read(path: Path) -> dict[str, Any]:
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        loaded = yaml.safe_load(text) if "grubrics:" in text else None
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return {}
    return loaded if isinstance(loaded, dict) else {}
