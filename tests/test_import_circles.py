"""No module imports itself by way of others, and no folder imports one above it.

The ``layers`` contracts of ``pyproject.toml`` compare folders; a circle inside a folder is theirs
to allow and not ours. Imports inside functions and under ``TYPE_CHECKING`` count too.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping

import pytest

from tests.paths import ROOT

grimp = pytest.importorskip("grimp")  # what import-linter reads imports with

PACKAGES = ("engine", "grubrics_tui")
Imports = Mapping[str, frozenset[str]]


@pytest.fixture(scope="module", params=PACKAGES)
def package(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def imports(package: str) -> Imports:
    """What each module of the package imports of the package."""
    graph = grimp.build_graph(package, cache_dir=None)
    return {
        module: frozenset(graph.find_modules_directly_imported_by(module))
        for module in graph.modules
    }


def in_circles(imports: Imports) -> set[str]:
    """The modules that remain when those that import nothing that remains are taken away, and those
    that nothing imports that remains: each is in a circle, or between two."""
    left = set(imports)
    while True:
        imported = {name for module in left for name in imports[module]}
        inner = {module for module in left if imports[module] & left and module in imported}
        if inner == left:
            return left
        left = inner


def test_no_module_imports_itself_by_way_of_others(imports: Imports) -> None:
    assert in_circles(imports) == set()


def test_no_folder_imports_one_above_it(package: str, imports: Imports) -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    [contract] = [
        one
        for one in settings["contracts"]
        if one["type"] == "layers" and one["containers"] == [package]
    ]
    floors = [floor.split(" | ") for floor in contract["layers"]]
    height = {name: -n for n, floor in enumerate(floors) for name in floor}
    folders = {module: module.split(".")[1] for module in imports if "." in module}
    upward = [
        f"{module} imports {name}"
        for module, names in imports.items()
        for name in names
        if module in folders and name in folders and height[folders[name]] > height[folders[module]]
    ]
    assert len(height) > 5
    assert upward == []


def test_a_circle_is_noticed() -> None:
    a_circle = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}, "e": set[str]()}
    assert in_circles({name: frozenset(names) for name, names in a_circle.items()}) == {"b", "c"}
