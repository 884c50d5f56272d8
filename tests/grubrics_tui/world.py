"""A small project with runs of every kind, for tests that go through all screens.

Nothing in it depends on the machine or the hour: paths are relative, the clock stands still.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.base import jsonl
from engine.checks.check import Check, fail, ok, skip, warn
from engine.run.run import Run
from grubrics_tui.model import machine
from grubrics_tui.model.machine import Machine
from tests.engine.run.history.rollout_files import record, row, write_dump, write_records
from tests.grubrics_tui.sample_run import SampleRun

NOW = 1_767_312_000.0  # 2026-01-02 00:00:00 UTC
RUNS = Path("runs")

CONFIG = """
grubrics: {kind: sft, device: cpu, description: a small warm-up}
model: {path: model}
data: {train_file: train.jsonl, max_seq_length: 64}
training: {output_dir: checkpoints/small, max_steps: 3}
"""

CHECKS = (
    ok("environment", "Python 3.11, torch 2.13.0, verl 0.9.1"),
    ok("config", "12 values differ from verl's defaults"),
    fail("model", "model: no such folder", "training.model.path=data/tiny/model"),
    warn("disk", "3.1 GiB free; the checkpoints take 2.8 GiB", "free some, or save less often"),
    skip("tests", "not asked for; t runs them"),
)

QUESTION = "A patient has had a cough for three weeks.\nWhich questions do you ask first?"
ANSWERS = (
    "1. Asks how long the cough has lasted [2 points]\n2. Asks about fever and night sweats",
    "1. Is polite\n2. Asks how long the cough has lasted",
    "1. Names the medicine at once",
)


@dataclass(frozen=True)
class World:
    """``night`` goes on, ``day`` failed and left rollouts, ``warmup`` is SFT and finished."""

    night: Run
    day: Run
    warmup: Run
    config: str = "small"
    overrides: tuple[str, ...] = ("training.max_steps=9",)
    checks: tuple[Check, ...] = CHECKS
    text: str = ""
    """What an ablation's files say in addition."""

    @property
    def log(self) -> Path:
        return self.day.attempt(1).console


MACHINE = Machine(
    disk_free=31 << 30,
    checkpoints=4 << 30,
    load=1.5,
    cores=8,
    memory_used=6 << 30,
    memory_total=16 << 30,
)


@contextmanager
def standing_clock(folder: Path) -> Iterator[None]:
    """In ``folder``, at ``NOW``, in UTC, on the same machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(time, "time", lambda: NOW)
        patch.setattr(machine, "read_machine", lambda root, gpus: MACHINE)
        patch.setenv("TZ", "UTC")
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        time.tzset()
        yield
    time.tzset()


def make_world() -> World:
    """In the current folder."""
    Path("configs").mkdir()
    Path("configs/small.yaml").write_text(CONFIG)
    Path("configs/other.yaml").write_text(CONFIG.replace("a small", "another"))
    Path("train.jsonl").write_text('{"messages": []}\n' * 12)
    night = _run("grpo-night", started=600, steps=12)
    night.say("running")
    day = _run("grpo-day", started=30_000, steps=9)
    _answer(day.run)
    day.print(
        b"Traceback (most recent call last):",
        b'  File "trainer.py", line 12, in fit',
        b"\x1b[36m(TaskRunnerV1 pid=7)\x1b[0m torch.OutOfMemoryError: CUDA out of memory",
    )
    day.say("failed", exit_code=1, reason="exit code 1 at step 9 of 40: OutOfMemoryError")
    warmup = _run("sft-warmup", started=80_000, steps=60, kind="sft", total=60)
    warmup.say("finished", ended=warmup.started + 60 * 14)
    jsonl.write_json(warmup.run.notes_file, {"v": 1, "tags": ["baseline"], "text": "the first one"})
    return World(night.run, day.run, warmup.run)


def _run(
    name: str, *, started: float, steps: int, kind: str = "grpo", total: int = 40
) -> SampleRun:
    sample = SampleRun.create(RUNS, name, kind=kind, total=total, started=NOW - started)
    sample.grow(steps)
    return sample


def _answer(run: Run) -> None:
    """Two groups of answers at steps 8 and 9, the second one without a spread."""
    attempt = run.attempt(1).path
    for step in (8, 9):
        for group, scores in {"cough": (0.8, 0.2, None), "fever": (0.4, 0.4, 0.4)}.items():
            for n, score in enumerate(scores):
                texts = {"question_id": group, "rubric": ANSWERS[n]}
                write_records(attempt, [record(group, n, score, step, **texts)])
                if score is not None:
                    dumped = {"input": QUESTION, "output": ANSWERS[n]}
                    write_dump(attempt, step, [row(group, n, score) | dumped])
