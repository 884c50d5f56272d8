"""A project folder of its own, and the command line in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.paths import ROOT

CLI = (sys.executable, "-m", "grubrics_tui")


@dataclass(frozen=True)
class Project:
    """A folder with everything the command line expects around it."""

    path: Path

    @property
    def env(self) -> dict[str, str]:
        return {"PYTHONPATH": str(ROOT)}

    def run(
        self, *arguments: str, env: Mapping[str, str] | None = None, seconds: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """The command line, to its end."""
        return self.python("-m", "grubrics_tui", *arguments, env=env, seconds=seconds)

    def python(
        self, *arguments: str, env: Mapping[str, str] | None = None, seconds: float = 300
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.path,
            env={**os.environ, **self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
        )

    def json(self, *arguments: str, expect: Sequence[int] = (0,), seconds: float = 300) -> Any:
        """What a command says with ``--json``."""
        done = self.run(*arguments, "--json", seconds=seconds)
        assert done.returncode in expect, done.stderr or done.stdout
        return json.loads(done.stdout)


def copied(project: Project, path: Path) -> Project:
    """The same project without its runs, as one whose runs are elsewhere."""
    shutil.copytree(project.path, path, ignore=shutil.ignore_patterns("runs"))
    return Project(path)


def make_project(path: Path) -> Project:
    shutil.copytree(ROOT / "configs", path / "configs")
    return Project(path)
