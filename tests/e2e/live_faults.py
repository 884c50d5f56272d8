"""How a run is made unhealthy, and how an offered fix is done. Faults use these words."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from engine.run.processes import members
from engine.run.run import Run
from tests.e2e import unhealthy_data
from tests.e2e.moody_judge import KEY, Mood, honest
from tests.e2e.project import GROUPS_OF_4
from tests.e2e.ward import Strike, Ward
from tests.waiting import ended

Fix = Callable[[Ward, "Fault", Run], Run]
Preparation = Callable[[Ward], None]

GRPO = (
    "trainer.total_training_steps=4",
    "trainer.val_before_train=false",
    "trainer.test_freq=-1",
    "trainer.save_freq=-1",
    *GROUPS_OF_4,
)
SFT = ("training.max_steps=20",)


@dataclass(frozen=True)
class Fault:
    """What is wrong with a run, the class that the doctor must give it, and what fixes it.

    ``refused`` names the check that would not have let the run start; it is launched past it.
    ``prepare`` changes the project's files before the launch, ``strike`` harms the run while it
    trains and returns when.
    """

    name: str
    finding: str
    overrides: tuple[str, ...]
    fix: Fix
    config: str = "grpo_tiny"
    mood: Mood = honest
    refused: str | None = None
    prepare: Preparation | None = None
    strike: Strike | None = None

    def arguments(self, ward: Ward, name: str) -> list[str]:
        own = f"trainer.experiment_name={name}"
        if self.config == "sft_tiny":
            own = f"training.output_dir=checkpoints/{name}"
        given = (*(SFT if self.config == "sft_tiny" else GRPO), own, *self.overrides)
        places = {
            "judge": ward.judge.url,
            "busy_port": ward.judge.server_address[1],
            "project": str(ward.project.path),
            "name": name,
        }
        return [one.format(**places) for one in given]


# Fixes


def fix(title: str) -> Fix:
    """The finding's fix of that title, which is a change of the config: one key launches it."""

    def fix(ward: Ward, _: Fault, run: Run) -> Run:
        return ward.fixed(run, ward.offered(run, title))

    return fix


def advice(words: str, *overrides: str, mend: Preparation | None = None) -> Fix:
    """A fix that only a person can follow: it is done here, and the run launched again."""

    def fix(ward: Ward, fault: Fault, run: Run) -> Run:
        ward.offered(run, words)
        if mend is not None:
            mend(ward)
        ward.stop(run)
        name = f"{fault.name}-again"
        again = [*fault.arguments(ward, name), *overrides]
        return ward.launch_checked(name, fault.config, again)

    return fix


def resumed(words: str, mend: Preparation | None = None) -> Fix:
    """What went wrong lay outside the run: it goes on from its last checkpoint."""

    def fix(ward: Ward, _: Fault, run: Run) -> Run:
        ward.offered(run, words)
        if mend is not None:
            mend(ward)
        ended(run)
        ward.project.json("resume", run.id)
        return run

    return fix


def write_key(ward: Ward) -> None:
    (ward.project.path / ".env").write_text(f"OPENAI_API_KEY={KEY}\n")


def reward(code: str) -> Preparation:
    """A reward function of the project's own."""

    def write(ward: Ward) -> None:
        text = f"import math\n\n\ndef compute_score(solution_str, **_):\n    {code}\n"
        (ward.project.path / "own_reward.py").write_text(text)

    return write


def train_file(change: Callable[[unhealthy_data.Row], unhealthy_data.Row]) -> Preparation:
    def write(ward: Ward) -> None:
        unhealthy_data.write_with(change, ward.project.path / "unhealthy.parquet")

    return write


def held_out(ward: Ward) -> None:
    unhealthy_data.write_with_held_out_rows(ward.project.path / "unhealthy.parquet")


def small_disk(ward: Ward) -> None:
    """A disk of 100 MB in the project."""
    folder = ward.project.path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=100m", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("no disk can be mounted here")


def make_room(ward: Ward) -> None:
    (ward.project.path / "disk" / "somebody_elses").unlink()


# Strikes


def fill_disk(_: Run) -> float:
    """Somebody else's file takes all the room there is."""
    block = b"\0" * (1 << 20)
    with Path("disk/somebody_elses").open("wb", buffering=0) as handle:
        while True:
            try:
                handle.write(block)
            except OSError:
                return time.time()


def kill(is_meant: Callable[[psutil.Process], bool]) -> Strike:
    """Kill those of the run's processes, as the kernel does when memory is short."""

    def strike(run: Run) -> float:
        pids = [process.pid for process in members(run) if _holds(is_meant, process.pid)]
        assert pids, "there is nothing to kill"
        now = time.time()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return now

    return strike


def trains(process: psutil.Process) -> bool:
    return "ray::WorkerDict" in " ".join(process.cmdline())


def loads_data(process: psutil.Process) -> bool:
    """A loader's worker is a fork of the trainer, and is called as the trainer is."""
    parent = process.parent()
    return (
        parent is not None
        and parent.cmdline() == process.cmdline()
        and any(name in " ".join(process.cmdline()) for name in ("TaskRunner", "engine.train.grpo"))
    )


def _holds(test: Callable[[psutil.Process], bool], pid: int) -> bool:
    try:
        return test(psutil.Process(pid))
    except psutil.Error:
        return False
