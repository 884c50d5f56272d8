"""Find the files outside of a run that decide what a launch executes and where it sends keys, and
whether somebody else could have written them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError
from engine.base.yaml_files import read_yaml
from engine.config.load import Config
from engine.config.places import DATA_KEYS, local_folder, model_name
from engine.config.scoring import reward_function
from engine.reward.own.files import code_files, hidden_libraries, libraries_hidden_by
from engine.reward.own.function import FILE, PACKAGE, RewardFunction
from engine.run.run import Run
from engine.run.trust import Case, UntrustedError, files_objection

_LONGEST_PATH = 4096
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_WRITTEN = "actor_rollout_ref.rollout.prometheus.file"
"""verl writes this file and reads nothing from it. Its default is in Ray's folder, which everybody
may write while a session of Ray runs."""


def require_own_code(config: Config) -> None:
    """Raise UntrustedError if somebody else could have written the code of a config."""
    if (case := code_objection(config)) is not None:
        raise UntrustedError(case)


def code_objection(config: Config) -> Case | None:
    """Return what a person must see and agree to before a launch, or None for nothing."""
    return files_objection(f"config '{config.name}'", config.path, executed_files(config))


def executed_files(config: Config) -> list[Path]:
    """Return the files that decide what a launch of ``config`` executes.

    The config, its reward function with its imports, every other file that a value names, and the
    code of a model with ``trust_remote_code``. Files of a run are left out:
    ``engine.run.trust.require`` decides on the run as a whole.
    """
    files = [config.path]
    if (function := reward_function(config)) is not None:
        # Python searches the function's folder for imports, then the working folder.
        files += code_files(function, everywhere=True)
        files += [*hidden_libraries(function), *libraries_hidden_by(Path())]
    paths = [*dict.fromkeys([*files, *_named_files(config)])]
    if any(key.endswith("trust_remote_code") and on for key, on in config.values.items()):
        folder = local_folder(model_name(config), os.environ)
        paths += sorted(folder.glob("*.py")) if folder else []
    return [path for path in paths if not any(Run(f).is_one() for f in path.absolute().parents)]


def _named_files(config: Config) -> Iterator[Path]:
    for key, value in config.values.items():
        if key in (*DATA_KEYS, _WRITTEN):
            continue
        for text in _texts(value):
            is_module = key.endswith("external_lib")
            path = _find_source(f"{PACKAGE}{text}" if is_module else text)
            if path is not None and _is_file(path):
                yield from (path, *_named_by(path))


def _named_by(path: Path) -> Iterator[Path]:
    """Return the files that a file of settings names, such as the classes of tools."""
    if path.suffix not in (".yaml", ".yml", ".json"):
        return
    with suppress(UsageError):
        for text in _texts(read_yaml(path)):
            module = text.rpartition(".")[0] if _DOTTED.fullmatch(text) else None
            for found in (Path(text), module and _find_source(f"{PACKAGE}{module}")):
                if found and _is_file(found):
                    yield found


def _is_file(path: Path) -> bool:
    """Most values name no file, and some, such as a chat template, are too long for a name."""
    try:
        return path.is_file()
    except OSError:
        return False


def _find_source(text: str) -> Path | None:
    """Return the file that a value names by its path or as a module, without importing it."""
    if text.startswith(PACKAGE):
        return RewardFunction(text).find_file()
    return Path(text.removeprefix(FILE)).expanduser()


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str) and 0 < len(value) < _LONGEST_PATH and "\0" not in value:
        yield value
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)
