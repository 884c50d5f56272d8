"""The files that a reward function reads: tables, word lists, configurations beside it.

Found by the texts in its code that name a file, so nothing is executed. Names that are put together
at run time are not found, but for a folder and a file that are each named (``"data" / "w.json"``).
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from engine.base import files
from engine.own_reward.code import LARGEST, code_files, keep_copy
from engine.own_reward.function import RewardFunction

_MOST_FILES = 100
_MOST_FOLDERS = 20
_LONGEST_NAME = 255


def input_files(function: RewardFunction | None) -> list[Path]:
    """The files in order of mention, relative if the function's own file is and they lie below its
    folder or the working directory."""
    found: dict[Path, None] = {}
    for code in code_files(function):
        for path in _named(code):
            if path.suffix not in (".py", ".pyc", ".so") and path.is_file():
                found[path] = None
            if len(found) >= _MOST_FILES:
                return list(found)
    return list(found)


def keep_inputs(function: RewardFunction, folder: Path) -> None:
    """Copy those that lie in the function's own folder into ``folder``, as a record: the function
    reads the originals. Large ones are left out. OSError."""
    for path in input_files(function):
        own = code_files(function)[0].parent
        if path.is_relative_to(own) and path.stat().st_size <= LARGEST:
            keep_copy(path, folder, path.relative_to(own))


def _named(code: Path) -> Iterator[Path]:
    """Paths that the texts in ``code`` may mean, with and without the folders that it names."""
    names = list(dict.fromkeys(_texts(code)))
    here = Path.cwd() if code.is_absolute() else Path()
    roots = list(dict.fromkeys([code.parent, here]))
    folders = [root / name for root, name in product(roots, names) if _is_folder(root, name)]
    for root, name in product([*roots, *folders[:_MOST_FOLDERS]], names):
        if Path(name).suffix:
            yield Path(os.path.normpath(root / name))


def _is_folder(root: Path, name: str) -> bool:
    return name not in (".", "..", "/") and (root / name).is_dir()


def _texts(code: Path) -> Iterator[str]:
    try:
        tree = ast.parse(files.read_regular(code, LARGEST))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, str) and value.isprintable() and 0 < len(value) <= _LONGEST_NAME:
            yield value
