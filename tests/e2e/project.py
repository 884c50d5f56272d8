"""A project folder, and the command line in it."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from grubrics_tui.cli import main
from tests.paths import ROOT

CLI = (sys.executable, "-m", "grubrics_tui")
ODD_FOLDER = 'it\'s a "test"; $(touch pwned) `touch pwned` & a|b é'
"""The name of a folder that a shell would run as commands, creating files named ``pwned``."""
ODD_TEXT = "say \"hi\"; $(touch pwned) `touch pwned` ../x | & * 'é'"

GROUPS_OF_4 = (
    "actor_rollout_ref.rollout.n=4",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=16",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=16",
)
"""Half as many rollouts as ``grpo_tiny`` has: a step takes 1 instead of 1.7 seconds of CPU time."""


@dataclass(frozen=True)
class Project:
    """A folder with everything the command line expects around it."""

    path: Path

    @property
    def env(self) -> dict[str, str]:
        return {"PYTHONPATH": str(ROOT)}

    def run(
        self, *arguments: str, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in this process, which costs a tenth of a program of its own.

        What the command starts, such as a supervisor, are processes as ever.
        """
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
        command = ["grubrics-tui", *arguments]
        with (
            chdir(self.path),
            patch.dict(os.environ, {**self.env, **(env or {})}),
            patch.object(sys, "argv", command),
            Path(os.devnull).open() as nothing,
            patch.object(sys, "stdin", nothing),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            try:
                main()
            except SystemExit as ended:
                code = int(ended.code or 0)
        said = (_content(stream) for stream in (out, err))
        return subprocess.CompletedProcess(command, code, *said)

    def run_program(
        self, *arguments: str, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run ``grubrics-tui`` as a program of its own, as a person does."""
        return self.python("-m", "grubrics_tui", *arguments, env=env)

    def python(
        self, *arguments: str, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.path,
            env={**os.environ, **self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    def json(self, *arguments: str, expect: Sequence[int] = (0,)) -> Any:
        """The answer of a command with ``--json``."""
        result = self.run(*arguments, "--json")
        assert result.returncode in expect, result.stderr or result.stdout
        return json.loads(result.stdout)


def _content(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


def copied(project: Project, path: Path) -> Project:
    """Copy a project without its runs."""
    shutil.copytree(project.path, path, ignore=shutil.ignore_patterns("runs"))
    return Project(path)


def make_project(path: Path) -> Project:
    shutil.copytree(ROOT / "configs", path / "configs")
    return Project(path)


def files_of_executed_names(folder: Path) -> list[Path]:
    """The files that a shell creates when it is given one of the odd names above."""
    return [path for path in folder.rglob("*") if path.name == "pwned"]
