"""What a command was given before its name is a part of the run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from engine.base import jsonl
from engine.run.run import Run

PLAN = """
import json, sys
from pathlib import Path
from engine.launch.command import plan_command, plan_command_again
from engine.run.run import Run
runs = Path(sys.argv[1])
again = plan_command_again(Run(runs / "first"), runs) if len(sys.argv) > 2 else None
print(json.dumps(dict((again or plan_command([sys.executable, "a.py"], runs)).variables)))
"""


def variables(runs: Path, *again: str, **given: str) -> dict[str, str]:
    """Those of a plan whose process was given some that its parent does not have."""
    command = [sys.executable, "-c", PLAN, str(runs), *again]
    answer = subprocess.run(
        command, env={**os.environ, **given}, capture_output=True, check=True, cwd=runs.parent
    )
    found: dict[str, str] = json.loads(answer.stdout)
    return found


def test_variables_before_the_command_are_kept_without_secrets(tmp_path: Path) -> None:
    given = variables(tmp_path / "runs", STEPS="150", HF_TOKEN="hf_" + "a1" * 17, SHLVL="9")
    assert given["STEPS"] == "150" and not {"HF_TOKEN", "SHLVL", "PATH"} & given.keys()


def test_a_command_runs_again_with_its_variables_or_those_given_now(tmp_path: Path) -> None:
    run = Run(tmp_path / "runs" / "first")
    run.path.mkdir(parents=True)
    command = [sys.executable, "a.py"]
    attempts = [{"number": 1, "argv": command}]
    known = {"kind": "command", "argv": command, "cwd": str(tmp_path), "attempts": attempts}
    jsonl.write_json(run.manifest_file, {"v": 1, **known, "variables": {"STEPS": "150", "LR": "1"}})
    again = variables(run.path.parent, "again", LR="2")
    assert (again["STEPS"], again["LR"]) == ("150", "2")
