"""What must not be loaded: start-up time and memory depend on it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

CODE = "import json, sys; import {module}; print(json.dumps(sorted(sys.modules)))"


def loaded_by(module: str) -> set[str]:
    code = CODE.format(module=module)
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(out.stdout))


@pytest.mark.parametrize(
    "heavy", ["textual", "torch", "ray", "verl", "transformers", "pyarrow", "pydantic"]
)
def test_the_command_line_starts_without(heavy: str) -> None:
    assert heavy not in loaded_by("grubrics_tui.cli")


@pytest.mark.parametrize("heavy", ["torch", "ray", "verl", "transformers", "openai"])
def test_the_screen_starts_without(heavy: str) -> None:
    assert heavy not in loaded_by("grubrics_tui.app.app")


@pytest.mark.parametrize("heavy", ["textual", "torch", "pydantic", "numpy", "pyarrow", "omegaconf"])
def test_the_supervisor_runs_without(heavy: str) -> None:
    assert heavy not in loaded_by("engine.supervise.supervisor")
