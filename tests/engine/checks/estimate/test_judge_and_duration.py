"""Calls are counted, speed and price are measured or unknown, never invented."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.base import jsonl
from engine.checks.check import Check, Subject
from engine.checks.estimate.earlier_runs import (
    JudgeTimes,
    StepTimes,
    duration,
    judge_times,
    step_times,
)
from engine.checks.estimate.judge import JudgeUse, judge_use
from engine.checks.judge import check_judge
from engine.config.load import Config
from engine.config.steps import step_plan
from engine.launch.launcher import manifest, plan
from engine.run.run import Run
from engine.run.state import RunState, write_state
from tests.engine.checks.project import Project, make_project

pytestmark = pytest.mark.long

MODEL = "judge.model=gpt-5-mini"
AZURE = ("judge.provider=azure", MODEL)
PRICES = ("judge.usd_per_million_in=2", "judge.usd_per_million_out=10")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return make_project(tmp_path)


def ran(
    project: Project, config: Config, name: str, *steps: dict[str, Any], began: float = 80.0
) -> Run:
    """A finished run of a config with these metrics in its steps, one every ten seconds."""
    run = Run(project.root / "runs" / name)
    run.attempt(1).path.mkdir(parents=True)
    run.write_manifest(manifest(plan(config, "other", project.root / "runs")))
    for number, metrics in enumerate(steps, 1):
        line = {"v": 1, "step": number, "attempt": 1, "t": 100.0 + 10 * number, "metrics": metrics}
        jsonl.append(run.train_log, line)
    write_state(run, RunState("finished", started=began, ended=began + 120))
    return run


def use(config: Config, known: JudgeTimes | None = None) -> JudgeUse:
    counted = step_plan(config)
    assert counted is not None
    return judge_use(config, counted, known)


def test_a_call_for_every_rollout_and_every_validation_answer(project: Project) -> None:
    calls = use(project.config()).calls
    # 4 prompts x 4 rollouts, 6 steps; validation before and at steps 3 and 6, 3 rows each
    assert (calls.step, calls.steps, calls.validation, calls.total) == (16, 6, 9, 105)


def test_the_offline_judge_costs_nothing(project: Project) -> None:
    assert use(project.config()).cost == 0


def test_without_price_or_tokens_the_cost_is_unknown_and_says_why(project: Project) -> None:
    result = use(project.config("grpo", *AZURE))
    assert result.cost is None
    assert any("usd_per_million_in" in why for why in result.unknown)
    priced = use(project.config("grpo", *AZURE, *PRICES))
    assert priced.cost is None and "tokens of a call" in priced.unknown


def test_tokens_times_price_is_the_cost(project: Project) -> None:
    known = JudgeTimes("before", latency=3.0, tokens_in=1000.0, tokens_out=500.0)
    result = use(project.config("grpo", *AZURE, *PRICES), known)
    assert result.cost == pytest.approx(105 * (1000 * 2 + 500 * 10) / 1e6)


def test_no_step_is_shorter_than_its_rounds_of_calls(project: Project) -> None:
    result = use(project.config("grpo", "judge.max_concurrent=5"), JudgeTimes("b", 3.0, None, None))
    assert result.rounds == 4  # 16 calls, 5 at once
    assert result.least_step == 12.0


def test_the_calls_in_flight_that_a_target_needs(project: Project) -> None:
    result = use(project.config(), JudgeTimes("b", 3.0, None, None))
    assert result.concurrency_for(12.0) == 4  # 16 x 3 s in 12 s
    assert result.concurrency_for(0.1) == 16  # more than there are calls helps nobody
    assert use(project.config()).concurrency_for(12.0) is None


def test_latency_and_tokens_come_from_a_run_with_the_same_judge(project: Project) -> None:
    metrics = {"judge_api_latency_s": 2.0, "judge/calls": 4, "judge/tokens_in": 400.0}
    ran(project, project.config("grpo", *AZURE), "before", metrics, metrics)
    runs = project.root / "runs"
    result = judge_times(project.config("grpo", *AZURE, "data.train_batch_size=8"), runs)
    assert result == JudgeTimes("before", 2.0, 100.0, None)
    assert judge_times(project.config(), runs) is None


def test_a_run_of_the_same_config_says_more_than_a_newer_one_of_another(project: Project) -> None:
    config, runs = project.config(), project.root / "runs"
    ran(project, config, "same", {"judge_api_latency_s": 2.0, "judge/calls": 4})
    unhealthy = project.config("grpo", "actor_rollout_ref.actor.optim.lr=3")
    ran(
        project,
        unhealthy,
        "unhealthy",
        {"judge_api_latency_s": 9.0, "judge/calls": 4},
        began=1000.0,
    )
    assert judge_times(config, runs) == JudgeTimes("same", 2.0, None, None)
    assert judge_times(unhealthy, runs) == JudgeTimes("unhealthy", 9.0, None, None)
    other = project.config("grpo", "actor_rollout_ref.rollout.n=8")
    assert judge_times(other, runs) == JudgeTimes("unhealthy", 9.0, None, None)


def test_hours_come_from_measured_steps(project: Project) -> None:
    config, steps = project.config(), [{"timing_s/step": value} for value in (9.0, 2.0, 4.0)]
    ran(project, config, "before", *steps)
    known = step_times(config, project.root / "runs")
    assert known is not None and known.same_config
    assert (known.first, known.later_mean, known.start) == (9.0, 3.0, 110.0 - 80.0 - 9.0)
    assert duration(6, known).seconds == 21 + 9 + 5 * 3


def test_a_config_of_the_same_size_will_do_another_size_will_not(project: Project) -> None:
    steps = [{"timing_s/step": 2.0}] * 3
    ran(project, project.config(), "before", *steps)
    runs = project.root / "runs"
    similar = step_times(project.config("grpo", "trainer.total_training_steps=3"), runs)
    assert similar is not None and not similar.same_config
    larger = project.config("grpo", "actor_rollout_ref.rollout.n=8")
    assert step_times(larger, runs) is None


def test_sft_which_logs_no_step_times_is_measured_by_the_times_of_its_lines(
    project: Project,
) -> None:
    config = project.config("sft")
    ran(project, config, "before", *[{"train/loss": 1.0}] * 4)
    known = step_times(config, project.root / "runs")
    assert known is not None and known.same_config
    assert (known.steps, known.first, known.later_mean, known.start) == (4, 10.0, 10.0, 20.0)
    assert duration(4, known).seconds == 140.0 - 80.0


def test_two_steps_are_no_basis(project: Project) -> None:
    ran(project, project.config(), "before", {"timing_s/step": 2.0}, {"timing_s/step": 2.0})
    assert step_times(project.config(), project.root / "runs") is None


def test_without_a_basis_no_time_is_told() -> None:
    result = duration(100, None)
    assert (result.seconds, result.hours, result.basis) == (None, None, None)
    assert duration(None, StepTimes("x", True, 3, None, 1.0, 1.0, 1.0)).seconds is None


def checked(project: Project, *overrides: str) -> Check:
    return check_judge(Subject(project.config("grpo", *overrides), {}, project.root / "runs"))


def test_the_preflight_shows_the_arithmetic_of_the_limit(project: Project) -> None:
    result = checked(project, "judge.max_concurrent=5")
    assert result.status == "ok"
    assert (
        "16 calls/step at concurrency 5 (all 8 reward workers together) = 4 rounds"
        in result.message
    )


def test_the_arithmetic_of_a_stand_in_that_takes_no_time_adds_up(project: Project) -> None:
    ran(project, project.config(), "before", {"judge_api_latency_s": 2.72e-5, "judge/calls": 16})
    result = checked(project, "judge.max_concurrent=4")
    assert "4 rounds x 27.2 µs = 0.109 ms at least" in result.message


def test_a_judge_that_makes_every_step_slow_is_a_warning_with_the_fix(project: Project) -> None:
    slow = {"judge_api_latency_s": 100.0, "judge/calls": 16}
    ran(project, project.config("grpo", *AZURE), "before", slow)
    result = checked(project, *AZURE, "judge.max_concurrent=2")
    assert result.status == "warn"
    assert "8 rounds x 100 s = 800 s at least" in result.message
    assert result.fix == "judge.max_concurrent=6"
    assert "105 calls in all, 9 of them in 3 validations, cost unknown" in result.message
