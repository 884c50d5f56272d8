"""The files of a reward function: its code, what that imports, and the files that it reads.

Nothing is executed. Code is found by reading ``import`` statements, also those inside functions;
modules whose name is computed at run time are not found. Files that it reads (tables, word lists,
configurations) are found by the texts in the code that name them; names that are put together at
run time are not found, except a folder and a file that are each named (``"data" / "w.json"``).
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator, Mapping
from importlib.machinery import PathFinder
from itertools import product
from pathlib import Path

from engine.base import files
from engine.base.errors import UsageError, nearest
from engine.reward.own.function import RewardFunction
from engine.run.host.environment import fingerprint
from engine.run.manifest import FileFacts, Files, Manifest
from engine.run.run import Run

_MOST_FILES = 500
_MOST_INPUTS = 100
_MOST_FOLDERS = 20
_LONGEST_NAME = 255
LARGEST = 10 << 20
_PACKAGES = "site-packages"
_OWN_CODE = Path(__file__).parents[2]
_IMPORTERS = ("import_module", "__import__")


def code_files(function: RewardFunction | None, *, everywhere: bool = False) -> list[Path]:
    """The code files, the function's own first; empty without one. Paths are relative if its is.

    ``everywhere``: also what is imported from the working directory outside the function's folder,
    but not what a file of this program imports: this process executes it already.
    """
    file = function.find_file() if function is not None else None
    if function is None or file is None:
        return []
    # The folder in which absolute imports are looked for: that of the file, or of its package.
    top = file.parent
    for _ in range((function.module or "").count(".") + (file.name == "__init__.py")):
        top = top.parent
    roots = tuple(dict.fromkeys([top, file.parent, _relative_cwd(file)]))
    paths: dict[Path, None] = {}
    package = file.parent / "__init__.py"
    waiting = [file, *([package] if function.module and package.is_file() else [])]
    while waiting and len(paths) < _MOST_FILES:
        path = waiting.pop(0)
        if path in paths:
            continue
        paths[path] = None
        if everywhere and path.absolute().is_relative_to(_OWN_CODE):
            continue
        waiting += [
            module
            for name in _imported_names(path, top)
            for root in roots
            for module in _module_files(root, name)
            if everywhere or module.is_relative_to(file.parent)
        ]
    return list(paths)


def find_function(file: Path, name: str | None) -> str:
    """The name of the reward function in ``file``: ``name``, or ``compute_score``, or its only one.

    UsageError if the file cannot be read as Python, or has no such function.
    """
    try:
        tree = ast.parse(files.read_regular(file, LARGEST))
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror or error}") from error
    except (SyntaxError, ValueError, RecursionError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) else ""
        raise UsageError(f"{file}{line} is not Python: {type(error).__name__}") from error
    public = [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name[0] != "_"
    ]
    wanted = name or RewardFunction.name
    if wanted in {*public, *_assigned_names(tree)}:
        return wanted
    if name is None and len(public) == 1:
        return public[0]
    has = ", ".join(public[:8]) or "none"
    close = nearest(wanted, public) or "FUNCTION"
    raise UsageError(f"{file} has no function '{wanted}' (it has {has}); name it: {file}:{close}")


def _assigned_names(tree: ast.Module) -> Iterator[str]:
    """Names that the module gets by an assignment or an import: an alias, a partial, an object."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)


def hidden_libraries(function: RewardFunction) -> list[Path]:
    """Modules in the function's own folder that have the name of a library: the folder comes first
    in the search, so that whoever imports the library gets them."""
    file = function.find_file()
    if file is None or function.module is not None:
        return []
    return libraries_hidden_by(file.parent)


def libraries_hidden_by(folder: Path) -> list[Path]:
    """Modules in a folder that have the name of a library of another folder."""
    elsewhere = [path for path in sys.path if path and Path(path).resolve() != folder.resolve()]
    modules = [*folder.glob("*.py"), *(path.parent for path in folder.glob("*/__init__.py"))]
    return sorted(path for path in modules if _is_library(path.stem, elsewhere))


def _is_library(name: str, search: list[str]) -> bool:
    if name in sys.stdlib_module_names:
        return True
    spec = PathFinder.find_spec(name, search) if name.isidentifier() else None
    return spec is not None and _PACKAGES in Path(spec.origin or "").parts


def kept_copies(file: Path, folder: Path) -> Mapping[str, str]:
    """The copies that ``keep_code`` made in ``folder`` of the function in ``file`` and of what it
    imports, by the real path of their originals. These may be edited or gone."""
    if not folder.is_dir():
        return {}
    home = file.absolute().parent
    return {
        str((home / copy.relative_to(folder)).resolve()): str(copy.resolve())
        for copy in folder.rglob("*.py")
    }


def keep_code(function: RewardFunction, folder: Path) -> None:
    """Copy the files into ``folder``, with their paths in the function's own folder. OSError."""
    paths = code_files(function)
    for path in paths:
        keep_copy(path, folder, path.relative_to(paths[0].parent))


def keep_copy(path: Path, folder: Path, name: Path) -> None:
    """Copy a file into ``folder`` of a run under a relative ``name``. OSError."""
    for parent in reversed(name.parents):
        files.make_folder(folder / parent)
    with os.fdopen(files.open_to_append(folder / name), "wb") as handle:
        handle.write(files.read_regular(path, LARGEST))


def input_files(function: RewardFunction | None) -> list[Path]:
    """The files in order of mention, relative if the function's own file is and they are below its
    folder or the working directory."""
    paths: dict[Path, None] = {}
    for code in code_files(function):
        for path in _named_paths(code):
            if path.suffix not in (".py", ".pyc", ".so") and path.is_file():
                paths[path] = None
            if len(paths) >= _MOST_INPUTS:
                return list(paths)
    return list(paths)


def keep_inputs(function: RewardFunction, folder: Path) -> None:
    """Copy those in the function's own folder into ``folder``, as a record: the function reads the
    originals. Large ones are left out. OSError."""
    for path in input_files(function):
        home = code_files(function)[0].parent
        if path.is_relative_to(home) and path.stat().st_size <= LARGEST:
            keep_copy(path, folder, path.relative_to(home))


def _relative_cwd(file: Path) -> Path:
    return Path.cwd() if file.is_absolute() else Path()


def _imported_names(path: Path, top: Path) -> Iterator[str]:
    """Absolute names of the modules that a file may import, best known first."""
    package = path.parent.relative_to(top).parts if path.is_relative_to(top) else ()
    for node in _walk(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from _from_names(node, package)
        elif isinstance(node, ast.Call) and (name := _literal_import(node)):
            yield name


def _from_names(node: ast.ImportFrom, package: tuple[str, ...]) -> Iterator[str]:
    """Of ``from a import b`` both ``a`` and ``a.b``: only the import knows which is a module."""
    if node.level > len(package) + 1:
        return
    base = package[: len(package) - node.level + 1] if node.level else ()
    module = ".".join([*base, *([node.module] if node.module else [])])
    if module:
        yield module
    yield from (".".join(filter(None, (module, alias.name))) for alias in node.names)


def _literal_import(node: ast.Call) -> str | None:
    called = node.func.attr if isinstance(node.func, ast.Attribute) else None
    called = node.func.id if isinstance(node.func, ast.Name) else called
    first = node.args[0] if node.args else None
    if called not in _IMPORTERS or not isinstance(first, ast.Constant):
        return None
    return first.value if isinstance(first.value, str) else None


def _module_files(root: Path, name: str) -> Iterator[Path]:
    """What importing ``name`` from ``root`` executes: the packages on the way, and the module."""
    folder = root
    for part in name.split("."):
        if not part.isidentifier():
            return
        module, package = folder / f"{part}.py", folder / part / "__init__.py"
        if package.is_file():
            yield package
        elif module.is_file():
            yield module
            return
        folder = folder / part


def _named_paths(code: Path) -> Iterator[Path]:
    """Paths that the texts in ``code`` may mean, with and without the folders that it names."""
    values = [node.value for node in _walk(code) if isinstance(node, ast.Constant)]
    texts = [value for value in values if isinstance(value, str) and value.isprintable()]
    names = list(dict.fromkeys(text for text in texts if 0 < len(text) <= _LONGEST_NAME))
    roots = list(dict.fromkeys([code.parent, _relative_cwd(code)]))
    inner = [name for name in names if name not in (".", "..", "/")]
    folders = [root / name for root, name in product(roots, inner) if (root / name).is_dir()]
    for root, name in product([*roots, *folders[:_MOST_FOLDERS]], names):
        if Path(name).suffix:
            yield Path(os.path.normpath(root / name))


def _walk(code: Path) -> Iterator[ast.AST]:
    """The nodes of a file's syntax tree; none of a file that cannot be read or is not Python."""
    try:
        return ast.walk(ast.parse(files.read_regular(code, LARGEST)))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return iter(())


OF_CODE, OF_INPUTS, OF_TOOLS, OF_DATA = "reward function", "reward input", "tools", "data file"
"""Names of files among the values of a configuration."""


def code_values(manifest: Manifest) -> dict[str, str]:
    """``{"reward function rw.py": sha256}`` by path in the function's folder, and the files that it
    reads by path: the parts of a configuration that are not keys."""
    names = _names(manifest.code)
    return {
        **{f"{OF_CODE} {names[path]}": facts.digest for path, facts in manifest.code.items()},
        **{f"{OF_INPUTS} {path}": facts.digest for path, facts in manifest.reward_inputs.items()},
    }


def tool_values(manifest: Manifest) -> dict[str, str]:
    """``{"tools tools.py": sha256}``: with other tools a run has other conversations, whose rewards
    are on the same scale."""
    return {f"{OF_TOOLS} {path}": facts.digest for path, facts in manifest.tools.items()}


def data_values(manifest: Manifest) -> dict[str, str]:
    """``{"data file data/train.parquet": sha256}``: runs of one configuration on different data do
    not repeat each other."""
    return {f"{OF_DATA} {path}": facts.digest for path, facts in manifest.data.items()}


def executed_code(run: Run, files: Files, cwd: Path) -> dict[str, FileFacts]:
    """Fingerprints of what a new attempt would execute: the run's copies, if there are any."""
    executed = {}
    for path, name in _names(files).items():
        copy = run.code / name
        source = copy if copy.is_file() else cwd / path
        if source.is_file():
            executed[path] = fingerprint(source)
    return executed


def edited_code(files: Files, cwd: Path) -> Iterator[str]:
    """The files that were removed or edited since the launch."""
    for path, facts in files.items():
        if not (cwd / path).is_file() or fingerprint(cwd / path).digest != facts.digest:
            yield path


def _names(files: Files) -> dict[str, Path]:
    """Each file relative to the folder of the first, as its copy is called."""
    folder = Path(next(iter(files), "")).parent
    inside = (path for path in files if Path(path).is_relative_to(folder))
    return {path: Path(path).relative_to(folder) for path in inside}
