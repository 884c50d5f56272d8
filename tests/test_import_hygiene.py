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


TELLING = {"engine/base/errors.py", "engine/logs/log_scan.py", "engine/supervise/follower.py"}
"""The line of an error or a note on stderr; what a scanning process and a follower print."""
DATA_PROGRAMS = {
    f"engine/data/{name}.py"
    for name in ("analyze", "precompute", "prepare", "prepare_sft", "tiny_world")
}


def test_only_programs_of_the_engine_print() -> None:
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in ENGINE.rglob("*.py")}
    printing = {name for name, text in texts.items() if "print" in called_in(text)}
    programs = {name for name, text in texts.items() if '__name__ == "__main__"' in text}
    assert {name for name in printing - programs - TELLING if "/train/" not in name} == set()


def test_only_training_processes_and_data_programs_read_arguments_with_argparse() -> None:
    readers = {
        str(path.relative_to(ROOT))
        for path in (*ENGINE.rglob("*.py"), *(ROOT / "grubrics_tui").rglob("*.py"))
        if "ArgumentParser" in called_in(path.read_text())
    }
    assert {name for name in readers - DATA_PROGRAMS if "/train/" not in name} == set()


def called_in(text: str) -> set[str]:
    """The names of the functions that a program calls."""
    calls = [node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    return {call.id if isinstance(call, ast.Name) else getattr(call, "attr", "") for call in calls}
