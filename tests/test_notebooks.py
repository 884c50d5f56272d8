"""The notebooks of the docs run from top to bottom, and hold no output."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from tests.grubrics_tui.world import make_world, standing_clock
from tests.paths import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def cells(notebook: Path) -> list[dict[str, Any]]:
    read = json.loads(notebook.read_text())
    assert read["nbformat"] == 4
    return [cell for cell in read["cells"] if cell["cell_type"] == "code"]


def execute(source: str, names: dict[str, Any]) -> Any:
    """Run a cell and return the value of its last line, if that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


@pytest.mark.row("H36")
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_in_a_project(notebook: Path, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    with standing_clock(tmp_path):
        make_world()
        names: dict[str, Any] = {}
        for cell in cells(notebook):
            value = execute("".join(cell["source"]), names)
            assert value is None or len(repr(value)) > 2


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_holds_no_output(notebook: Path) -> None:
    for cell in cells(notebook):
        assert cell["outputs"] == [] and cell["execution_count"] is None


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS
