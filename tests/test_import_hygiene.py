"""What must not be loaded: start-up time and memory depend on it."""

from __future__ import annotations

import functools
import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.long

CODE = "import json, sys; import {module}\n{then}\nprint(json.dumps(sorted(sys.modules)))"


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
