"""The estimate of a run beside the peaks, the checkpoint and the calls that the run had."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.base import jsonl
from engine.checks.estimate.judge import Calls, JudgeUse
from engine.checks.estimate.memory import GIB
from engine.checks.estimate.report import Estimate, Measured, estimate, measured_of
from engine.config.load import load_config
from engine.run.run import Run
from engine.run.state import RunState, write_state
from tests.engine.report.runs import log_steps, make_run
from tests.engine.run.checkpoints.checkpoint_files import save
from tests.paths import CONFIGS


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = make_run(tmp_path)
    run.attempt(1).path.mkdir()
    log_steps(run, [{"judge/calls": 24.0}, {"judge/calls": 26.0}])
    return run


@pytest.fixture
def expected(tmp_path: Path) -> Estimate:
    config = load_config(str(CONFIGS / "verl_grpo.yaml"), [], {})
    return estimate(config, {}, tmp_path / "none", 80 * GIB)


def sample(run: Run, attempt: int = 1, cards: tuple[float, ...] = (), **host: Any) -> None:
    run.attempt(attempt).path.mkdir(exist_ok=True)
    gpus = [{"run_mem": int(gib * GIB)} for gib in cards]
    jsonl.append(run.attempt(attempt).system, {"v": 1, "gpus": gpus, "run": host})


def measured(run: Run, expected: Estimate) -> dict[str, Measured]:
    return {each.name: each for each in measured_of(run, expected)}


@pytest.mark.row("A21")
def test_the_peak_is_the_largest_of_all_cards_and_attempts(run: Run, expected: Estimate) -> None:
    sample(run, cards=(40.0, 64.0))
    sample(run, attempt=2, cards=(50.0, 1.0))
    peak = measured(run, expected)["memory of one GPU"]
    assert expected.sizes is not None
    assert (peak.estimate, peak.measured) == (expected.sizes.memory.peak.total, 64.0 * GIB)
    assert peak.error == pytest.approx(58.2 / 64 - 1, abs=1e-3)


@pytest.mark.row("A21")
def test_without_samples_of_a_card_the_part_of_pytorch_is_named(
    run: Run, expected: Estimate
) -> None:
    log_steps(run, [{}, {}, {"perf/max_memory_reserved_gb": 16.5}])
    peak = measured(run, expected)["memory of one GPU"]
    assert peak.measured == 16.5 * GIB and "PyTorch" in peak.note


def test_host_memory_counts_shared_pages_once(run: Run, expected: Estimate) -> None:
    sample(run, rss=9, pss=4)
    sample(run, rss=3)
    assert measured(run, expected)["host memory"].measured == 4


def test_host_memory_of_a_cpu_run_has_no_error(run: Run, expected: Estimate) -> None:
    sample(run, rss=9)
    on_gpu = measured(run, expected)["host memory"]
    on_cpu = measured(run, replace(expected, device="cpu"))["host memory"]
    assert on_gpu.error is not None
    assert (on_cpu.error, on_cpu.is_partial) == (None, True)


def test_a_checkpoint_is_compared_without_the_final_model(
    run: Run, expected: Estimate, tmp_path: Path
) -> None:
    now = time.time()  # A checkpoint without a stamp is that of the run that ran meanwhile.
    write_state(run, RunState("finished", started=now - 60, ended=now + 60, step=20))
    save(tmp_path / "checkpoints", 20)
    files = (tmp_path / "checkpoints" / "global_step_20").rglob("*")
    size = sum(path.stat().st_size for path in files if path.is_file())
    assert measured(run, expected)["checkpoint"].measured == size


def test_calls_of_the_judge_are_a_mean_over_the_steps(run: Run, expected: Estimate) -> None:
    calls = Calls(step=30, steps=2, validation=0, validations=0)
    use = JudgeUse(calls, 8, 4, None, None, None, None, (), None)
    found = measured(run, replace(expected, judge=use))["judge calls per step"]
    assert (found.estimate, found.measured) == (30.0, 25.0)
    assert found.error == pytest.approx(0.2)


def test_what_was_not_estimated_has_no_error(run: Run, expected: Estimate) -> None:
    sample(run, cards=(1.0,), rss=5)
    found = measured(run, replace(expected, sizes=None))
    assert {each.error for each in found.values()} == {None}


def test_a_run_without_steps_measured_nothing(run: Run, expected: Estimate) -> None:
    run.train_log.unlink()
    assert measured_of(run, expected) == []
