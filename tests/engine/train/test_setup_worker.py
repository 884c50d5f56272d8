"""A worker starts as Ray's own script would start it, with the same arguments and variables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.train import setup_worker

PYTHON = "--language=PYTHON"
PRINTED = ("COLOR", "EXPANDED", "UNSET")
WORKER = f"""
import os, sys
print(sys.argv[1:], [os.environ.get(name) for name in {PRINTED}], sys.flags.isolated)
"""
CONTEXTS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "variables": {"env_vars": {"COLOR": "a b", "EXPANDED": "${HUE}-$HUE", "UNSET": "x${NO_SUCH}"}},
    "an interpreter with options": {"py_executable": f"{sys.executable} -I"},
    "what only Ray knows": {"command_prefix": ["COLOR=blue"], "py_executable": sys.executable},
}


def started(script: Path, context: dict[str, Any], tmp_path: Path) -> str:
    """What the worker prints that the script starts."""
    worker = tmp_path / "worker.py"
    worker.write_text(WORKER)
    text = json.dumps({"env_vars": {}, "py_executable": None, "command_prefix": [], **context})
    arguments = ["--x=it's", f"{setup_worker.CONTEXT}{text}", PYTHON, "--y=1"]
    done = subprocess.run(
        [sys.executable, str(script), str(worker), *arguments],
        env={**os.environ, "HUE": "red"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", CONTEXTS)
def test_a_worker_starts_as_with_rays_own_script(name: str, tmp_path: Path) -> None:
    ours = started(Path(setup_worker.__file__), CONTEXTS[name], tmp_path)
    assert ours.startswith("""["--x=it's", '--y=1']""")
    assert ours == started(setup_worker.ray_script(), CONTEXTS[name], tmp_path)


def test_the_setup_of_a_usual_worker_imports_nothing_of_ray() -> None:
    context = json.dumps({"env_vars": {"COLOR": "red"}, "py_executable": "true"})
    done = subprocess.run(
        [sys.executable, setup_worker.__file__, f"{setup_worker.CONTEXT}{context}", PYTHON],
        env={**os.environ, "PYTHONPROFILEIMPORTTIME": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert "| json" in done.stderr
    assert "| ray" not in done.stderr
