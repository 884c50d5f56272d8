"""The tiny demo in a folder of its own, for benchmarks that train and evaluate on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
SFT = "sft"
MODEL = Path("checkpoints/grubrics-transfer/sft-tiny/final")


@dataclass(frozen=True)
class TinyProject:
    """A project folder. Its runs are kept: what has finished is not trained again."""

    path: Path

    def prepare(self) -> None:
        """Make the data and train the SFT model, as ``grubrics-tui demo`` does."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.python("-m", "engine.data.tiny_world")
        self.train(SFT, "sft_tiny")

    def train(self, run: str, config: str, *overrides: str) -> None:
        if self.state(run) != "finished":
            self.call("launch", config, *overrides, "--name", run, "--wait")

    def train_grpo(self, run: str, seed: int, *overrides: str) -> None:
        """A run of ``grpo_tiny`` with a checkpoint folder of its own."""
        own = (f"trainer.experiment_name={run}", f"grubrics.seed={seed}", f"data.seed={seed}")
        self.train(run, "grpo_tiny", *own, *overrides)

    def state(self, run: str) -> str | None:
        return self.read_state(run).get("state")

    def read_state(self, run: str) -> dict[str, Any]:
        """The content of a run's state.json; empty before there is one."""
        file = self.path / "runs" / run / "state.json"
        return json.loads(file.read_text()) if file.is_file() else {}

    def call(self, *arguments: str) -> Any:
        """The answer of a command of grubrics-tui with ``--json``."""
        return json.loads(self.python("-m", "grubrics_tui", *arguments, "--json"))

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """A command of grubrics-tui that goes on beside this process, without output."""
        return subprocess.Popen(
            [sys.executable, "-m", "grubrics_tui", *arguments],
            cwd=self.path,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def python(self, *arguments: str) -> str:
        """What a program prints. Exits with all of its output if it fails."""
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.path,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            sys.exit(f"{' '.join(arguments)}: {done.stderr}{done.stdout}")
        return done.stdout


def environment() -> dict[str, str]:
    path = f"{REPOSITORY}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    return {**os.environ, "PYTHONPATH": path}
