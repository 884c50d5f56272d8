"""A checkpoint that the host has no memory for is named before it is saved."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base import jsonl
from engine.config.frozen import pinned_config
from engine.config.load import load_config
from engine.doctor.run_files import RunFiles
from engine.run.manifest import Setting
from engine.run.run import Run
from engine.run.state import RunState
from tests.paths import CONFIGS

GIB = 2**30


def training(tmp_path: Path, free: float, *overrides: str) -> Run:
    """A run of the production config on a host of 64 GiB with so many free."""
    config = load_config(str(CONFIGS / "verl_grpo.yaml"), overrides, {})
    run = Run(tmp_path / "runs" / "r")
    run.attempt(1).path.mkdir(parents=True)
    entries = {
        key: Setting(value, config.origins.get(key, "default"))
        for key, value in config.values.items()
    }
    run.config_file.write_text(pinned_config(entries))
    for used in (1.0, 64 - free):
        sample = {"v": 1, "t": 1.0, "mem_total": 64 * GIB, "mem_used": int(used * GIB)}
        jsonl.append(run.attempt(1).system, sample)
    return run


def ids(run: Run, step: int = 1999, state: str = "running") -> list[str]:
    now = RunState(state, step=step, total_steps=2000, attempt=1)  # type: ignore[arg-type]
    return [finding.id for finding in RunFiles(run).findings(now)]


@pytest.mark.row("G52")
def test_too_little_free_memory_before_the_last_save_is_a_finding(tmp_path: Path) -> None:
    run = training(tmp_path, free=10)
    state = RunState("running", step=1999, total_steps=2000, attempt=1)
    (finding,) = RunFiles(run).findings(state)
    assert (finding.id, finding.severity, finding.onset_step) == (
        "host_oom.next_save",
        "warning",
        1999,
    )
    assert "16.2 GiB" in finding.cause and "10.0 GiB of 64.0 GiB are free" in finding.cause


def test_enough_free_memory_is_no_finding(tmp_path: Path) -> None:
    assert ids(training(tmp_path, free=20)) == []


def test_after_the_last_step_and_after_the_end_no_save_is_ahead(tmp_path: Path) -> None:
    run = training(tmp_path, free=10)
    assert ids(run, step=2000) == ids(run, state="failed") == []


def test_a_run_that_saves_nothing_needs_no_memory_for_it(tmp_path: Path) -> None:
    assert ids(training(tmp_path, 10, "trainer.save_freq=-1")) == []
