"""The files outside of a run that a launch executes, or that say what it executes and where it
sends keys; and whether somebody else could have written them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.own_reward.files import code_files, hidden_libraries, libraries_hidden_by
from engine.own_reward.function import FILE, PACKAGE, RewardFunction
from engine.recipe.places import DATA_KEYS, local_folder, model_name
from engine.recipe.recipe import Recipe
from engine.recipe.scoring import reward_function
from engine.runs.rundir import RunDir
from engine.runs.trust import Case, UntrustedError, files_objection

_LONGEST_PATH = 4096


def require_own_code(recipe: Recipe) -> None:
    """Raise UntrustedError for a recipe whose code somebody else could have written."""
    if (case := code_objection(recipe)) is not None:
        raise UntrustedError(case)


def code_objection(recipe: Recipe) -> Case | None:
    """What has to be shown and agreed to before a recipe is launched; None when nothing has."""
    return files_objection(f"recipe '{recipe.name}'", recipe.path, executed_files(recipe))


def executed_files(recipe: Recipe) -> list[Path]:
    """The recipe, its reward function with what that imports, every other file that a value names,
    and the code of a model that may bring its own. Not what belongs to a run: that is decided for
    the run as a whole (``engine.runs.trust.require``)."""
    found = dict.fromkeys([recipe.path, *_reward_files(recipe), *_named_files(recipe)])
    return [path for path in [*found, *_model_code(recipe)] if not _is_of_run(path)]


def _reward_files(recipe: Recipe) -> list[Path]:
    """Imports are looked for in the function's folder first, and then in the working folder."""
    if (function := reward_function(recipe)) is None:
        return []
    hidden = (*hidden_libraries(function), *libraries_hidden_by(Path()))
    return [*code_files(function, everywhere=True), *hidden]


def _named_files(recipe: Recipe) -> Iterator[Path]:
    for key, value in recipe.values.items():
        if key in DATA_KEYS:
            continue
        for text in _texts(value):
            is_module = key.endswith("external_lib")
            path = _source(f"{PACKAGE}{text}" if is_module else text)
            if path is not None and path.is_file():
                yield path


def _source(text: str) -> Path | None:
    """The file that a value names, by its path or as a module; nothing is imported."""
    if text.startswith(PACKAGE):
        return RewardFunction(text).find_file()
    return Path(text.removeprefix(FILE)).expanduser()


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str) and 0 < len(value) < _LONGEST_PATH and "\0" not in value:
        yield value
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def _model_code(recipe: Recipe) -> list[Path]:
    """The modules in the model's folder, which ``trust_remote_code`` imports."""
    asked = any(key.endswith("trust_remote_code") and on for key, on in recipe.values.items())
    folder = local_folder(model_name(recipe), os.environ) if asked else None
    return sorted(folder.glob("*.py")) if folder else []


def _is_of_run(path: Path) -> bool:
    return any(RunDir(folder).is_one() for folder in path.absolute().parents)
