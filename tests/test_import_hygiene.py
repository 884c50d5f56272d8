"""What must not be loaded: start-up time and memory depend on it."""

from __future__ import annotations

import ast
import functools
import json
import subprocess
import sys

import pytest

from tests.paths import ROOT

pytestmark = pytest.mark.long

CODE = "import json, sys; import {module}\n{then}\nprint(json.dumps(sorted(sys.modules)))"


ENGINE = ROOT / "engine"
EVERY_COMMAND = "from grubrics_tui.commands.shared.command import commands; commands()"


@functools.cache
def loaded_by(module: str, then: str = "pass") -> frozenset[str]:
    code = CODE.format(module=module, then=then)
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return frozenset(json.loads(out.stdout))


@pytest.mark.parametrize(
    "heavy", ["textual", "torch", "ray", "verl", "transformers", "pyarrow", "pydantic"]
)
def test_the_command_line_starts_without(heavy: str) -> None:
    assert heavy not in loaded_by("grubrics_tui.cli", EVERY_COMMAND)


def test_a_command_imports_no_other_command() -> None:
    find = "from grubrics_tui.commands.shared.command import find_command; find_command('show')"
    folder = "grubrics_tui.commands."
    modules = {name for name in loaded_by("grubrics_tui.cli", find) if name.startswith(folder)}
    assert {name for name in modules if "shared" not in name} == {f"{folder}show"}


def test_the_list_of_commands_reads_no_yaml_and_draws_nothing() -> None:
    loaded = loaded_by("grubrics_tui.cli", EVERY_COMMAND)
    assert not {"yaml", "rich", "grubrics_tui.settings.actions"} & loaded


@pytest.mark.parametrize("heavy", ["torch", "ray", "verl", "transformers", "openai"])
def test_the_screen_starts_without(heavy: str) -> None:
    assert heavy not in loaded_by("grubrics_tui.app.app")


@pytest.mark.parametrize("heavy", ["textual", "torch", "pydantic", "numpy", "pyarrow", "omegaconf"])
def test_the_supervisor_runs_without(heavy: str) -> None:
    assert heavy not in loaded_by("engine.supervise.supervisor")


TELLING = {
    *(f"engine/base/errors.py:{name}" for name in ("tell", "guarded")),
    *(f"engine/supervise/follower.py:{name}" for name in ("say", "JobFollower")),
}
"""The line of a note or an error on stderr; the console of a run, which its follower writes."""


def test_only_programs_of_the_engine_print() -> None:
    """No function that another file of the engine imports prints, or calls one that does."""
    trees = {path: ast.parse(path.read_text()) for path in ENGINE.rglob("*.py")}
    imported = {
        f"{node.module.replace('.', '/')}.py:{alias.name}"
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    printing = {
        f"{path.relative_to(ROOT)}:{name}"
        for path, tree in trees.items()
        if "train" not in path.parts
        for name in printing_in(tree)
    }
    assert printing & imported == TELLING


def printing_in(tree: ast.Module) -> set[str]:
    """The functions and classes of a file that print, or that call one of these."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    calls = {node.name: called_in(node) for node in tree.body if isinstance(node, kinds)}
    printing = {"print"}
    while more := {name for name, called in calls.items() if called & printing} - printing:
        printing |= more
    return printing - {"print"}


def test_only_training_processes_read_arguments_with_argparse() -> None:
    readers = {
        str(path.relative_to(ROOT))
        for path in (*ENGINE.rglob("*.py"), *(ROOT / "grubrics_tui").rglob("*.py"))
        if "ArgumentParser" in called_in(ast.parse(path.read_text()))
    }
    assert {name for name in readers if not name.startswith("engine/train/")} == set()


def called_in(tree: ast.AST) -> set[str]:
    """The names of the functions that a program calls."""
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {call.id if isinstance(call, ast.Name) else getattr(call, "attr", "") for call in calls}
