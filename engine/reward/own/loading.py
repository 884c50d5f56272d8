"""Import a user's own function into this process. Only ``engine.reward.own.child`` does.

The file is imported the way ``python FILE`` would: files beside it can be imported by their names.
Where a run kept copies of them, their text is what is executed, under the original's name, so that
``__file__`` and data files beside it work.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Literal

from engine.base import files


@dataclass(frozen=True)
class Contract:
    """``given``: what every call gets, by name. ``returns``: a number or a mapping with a
    ``score``, or a mapping of JSON values."""

    given: tuple[str, ...]
    returns: Literal["score", "record"]
    caller: str


SCORE = Contract(
    ("data_source", "solution_str", "ground_truth", "extra_info"), "score", "as verl does"
)
RECORD = Contract(("seed", "index"), "record", "to make a record")

_INSTALLED = {"site-packages", "dist-packages"}
"""Folders of libraries: a virtual environment may lie beside the function."""


_LONGEST_ERROR = 500


class LoadError(Exception):
    """The function cannot be used. The message is one line with file and line."""


@dataclass(frozen=True)
class Source:
    """What a process of the function receives at its start. ``copies`` by original path."""

    file: str
    module: str | None
    name: str
    kwargs: Mapping[str, Any]
    search: tuple[str, ...]
    copies: Mapping[str, str] = field(default_factory=dict)
    contract: Contract = SCORE

    @property
    def folder(self) -> Path:
        """The function's own folder; lines of code below it are named in errors."""
        return Path(self.file).parent


def load(source: Source) -> Callable[..., Any]:
    """The function, ready to be called with keyword arguments. Raises LoadError."""
    sys.dont_write_bytecode = True
    # A function that asks for its arguments finds none of ours.
    sys.argv = [source.file]
    own = [] if source.module else [str(source.folder)]
    sys.path[:] = [*own, *source.search, *sys.path]
    sys.meta_path.insert(0, _KeptFinder(source.copies))
    module = _imported(source)
    function = getattr(module, source.name, None)
    if function is None:
        names = [
            name
            for name, value in vars(module).items()
            if inspect.isfunction(value) and not name.startswith("_")
        ]
        close = difflib.get_close_matches(source.name, names, n=1)
        has = f"it has {', '.join(names[:8]) or 'none'}"
        hint = f"did you mean '{close[0]}'?" if close else has
        raise LoadError(f"{_short(source)} has no function '{source.name}'; {hint}")
    if not callable(function):
        raise LoadError(f"{_short(source)}: '{source.name}' is not a function")
    _require_signature(source, function)
    return function  # type: ignore[no-any-return]


def where_raised(error: BaseException, folder: Path) -> str | None:
    """``gsm8k.py:12``: the innermost line of the function's own code that an error came from."""
    if isinstance(error, SyntaxError) and (
        place := own_line(error.filename or "", error.lineno, folder)
    ):
        return place
    frames = traceback.walk_tb(error.__traceback__)
    lines = (own_line(frame.f_code.co_filename, number, folder) for frame, number in frames)
    return next(reversed([line for line in lines if line]), None)


def own_line(path: str, line: int | None, folder: Path) -> str | None:
    """``gsm8k.py:12``, relative to the function's own folder; None for code from elsewhere."""
    inside = Path(path).is_relative_to(folder) and not _INSTALLED & {*Path(path).parts}
    return f"{Path(path).relative_to(folder)}:{line}" if inside else None


def own_modules(folder: Path) -> tuple[str, ...]:
    """The files that this process has imported below ``folder``, relative to it, and in the rest of
    the working directory, absolute; without libraries and this project."""
    paths = {getattr(module, "__file__", None) for module in [*sys.modules.values()]}
    files = [Path(path) for path in paths if path and path.endswith(".py")]
    inside = {str(path.relative_to(folder)) for path in files if _is_own(path, folder)}
    project = Path(__file__).parents[2]
    outside = {
        str(path)
        for path in files
        if _is_own(path, Path.cwd())
        and not path.is_relative_to(folder)
        and not path.is_relative_to(project)
    }
    return (*sorted(inside), *sorted(outside))


def _is_own(path: Path, folder: Path) -> bool:
    return own_line(str(path), 0, folder) is not None


def one_line(error: BaseException) -> str:
    """``ValueError: what it says``, shortened and without control characters: it goes into every
    record of a rollout, and onto terminals."""
    try:
        text = " ".join(str(error.msg if isinstance(error, SyntaxError) else error).split())
    except Exception:  # The function's own class may fail at that, too.
        text = ""
    text = "".join(mark if mark.isprintable() else "?" for mark in text)
    text = text if len(text) <= _LONGEST_ERROR else f"{text[:_LONGEST_ERROR]}..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def defined_at(function: Callable[..., Any], folder: Path) -> str | None:
    """``gsm8k.py:3``, where the function begins."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return own_line(code.co_filename, code.co_firstlineno, folder) if code else None


def _imported(source: Source) -> ModuleType:
    try:
        if source.module:
            return importlib.import_module(source.module)
        # The file's own name, so that other files can import it, unless a library has that name.
        name = Path(source.file).stem
        if name in sys.modules or name in sys.stdlib_module_names or not name.isidentifier():
            name = "reward_function"
        copy = source.copies.get(str(Path(source.file).resolve()), source.file)
        loader = _KeptLoader(name, source.file, copy)
        spec = importlib.util.spec_from_file_location(name, loader.path, loader=loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        loader.exec_module(module)
        return module
    except BaseException as error:  # SystemExit and KeyboardInterrupt of the file are its faults
        place = where_raised(error, source.folder) or _short(source)
        raise LoadError(f"{place}: {one_line(error)}{_advice(error, source)}") from error


def _advice(error: BaseException, source: Source) -> str:
    if isinstance(error, ImportError) and "relative import" in str(error):
        by_name = "; a file that is named by its path belongs to no package: import files beside it"
        module = ", or set reward.custom_reward_function.path=pkg://PACKAGE.MODULE"
        return f"{by_name} by their names{module if source.contract == SCORE else ''}"
    if isinstance(error, SystemExit):
        return " while it was imported"
    return ""


def _require_signature(source: Source, function: Callable[..., Any]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    contract = source.contract
    try:
        signature.bind(**{**dict.fromkeys(contract.given), **source.kwargs})
    except TypeError as error:
        place = defined_at(function, source.folder) or _short(source)
        more = f", and reward_kwargs {', '.join(source.kwargs)}" if source.kwargs else ""
        raise LoadError(
            f"{place}: {source.name}{signature} cannot be called {contract.caller}, with "
            f"{', '.join(contract.given)} by name{more}: {error}"
        ) from error


def _short(source: Source) -> str:
    return Path(source.file).name


class _KeptLoader(SourceFileLoader):
    """Executes the text of ``copy`` as the module of ``path``; compiled files are not looked at."""

    def __init__(self, name: str, path: str, copy: str) -> None:
        super().__init__(name, path)
        self._copy = copy

    def get_code(self, fullname: str) -> CodeType:
        return compile(files.read_regular(Path(self._copy)), self.path, "exec", dont_inherit=True)


class _KeptFinder:
    """Finds modules like Python does, and loads those that a run kept from their copies, also
    where the original is gone."""

    def __init__(self, copies: Mapping[str, str]) -> None:
        self._copies = copies
        self._folders = {folder for original in copies for folder in Path(original).parents}
        self._names = {path.stem for path in (*map(Path, copies), *self._folders)}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        last = name.rpartition(".")[2]
        if last not in self._names:
            return None
        for folder in sys.path if path is None else path:
            if spec := self._kept(name, Path(folder, last)):
                return spec
            found = PathFinder.find_spec(name, [str(folder)], target)
            if found is not None and found.loader is not None:
                return None
        return None

    def _kept(self, name: str, place: Path) -> ModuleSpec | None:
        """The copy of the package or else the module that is, or was, at ``place``."""
        for file in (place / "__init__.py", place.with_name(f"{place.name}.py")):
            copy = self._copies.get(str(file.resolve()))
            if copy is not None:
                loader = _KeptLoader(name, str(file), copy)
                inside = [str(place)] if file.stem == "__init__" else None
                return importlib.util.spec_from_file_location(
                    name, file, loader=loader, submodule_search_locations=inside
                )
        if place.exists() or place.resolve() not in self._folders:
            return None
        namespace = ModuleSpec(name, None, is_package=True)
        namespace.submodule_search_locations = [str(place)]
        return namespace
