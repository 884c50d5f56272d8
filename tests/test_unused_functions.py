"""Every private function is used: a rule that nobody calls finds nothing."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.paths import ROOT

pytestmark = pytest.mark.long


def unused(package: Path) -> set[str]:
    """Private functions and methods of a package whose name is not used anywhere in it."""
    defined: dict[str, Path] = {}
    used: set[str] = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                is_private = node.name.startswith("_") and not node.name.startswith("__")
                if is_private and not node.decorator_list:  # A decorator may register it.
                    defined[node.name] = path
            elif isinstance(node, ast.Name):
                used.add(node.id)
            elif isinstance(node, ast.Attribute):
                used.add(node.attr)
    return {
        f"{path.relative_to(package)}: {name}" for name, path in defined.items() if name not in used
    }


def test_an_unused_function_is_found(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text("def _lost(): ...\ndef _called(): ...\n_called()\n")
    assert unused(tmp_path) == {"rules.py: _lost"}


@pytest.mark.parametrize("package", ["engine", "grubrics_tui"])
def test_every_private_function_is_used(package: str) -> None:
    assert unused(ROOT / package) == set()
