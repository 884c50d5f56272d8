"""A report that is read repeatedly while runs go on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.measure.ablations.plan import AblationPlan, current_run
from engine.measure.ablations.report import ReportReader, read_report
from engine.run.history import metrics
from engine.run.run import Run
from tests.engine.report.runs import log_steps
from tests.grubrics_tui.sample_ablation import FAILED, STEPS, make_ablation

pytestmark = pytest.mark.long

ROOT = Path("runs")


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AblationPlan:
    monkeypatch.chdir(tmp_path)
    return make_ablation(ROOT, 1_767_312_000.0)


def run_of(plan: AblationPlan, arm: str, seed: int) -> Run:
    job = next(job for job in plan.jobs() if (job.arm, job.seed) == (arm, seed))
    run = current_run(job, ROOT)
    assert run is not None
    return run


def test_what_has_not_changed_reads_as_at_first(plan: AblationPlan) -> None:
    reader = ReportReader(plan, ROOT)
    assert reader.read().to_json() == reader.read().to_json() == read_report(plan, ROOT).to_json()


def test_a_new_validation_changes_the_mean_of_its_arm(plan: AblationPlan) -> None:
    reader = ReportReader(plan, ROOT)
    before = {row.name: row.mean for row in reader.read().rows}
    line = {"v": 1, "step": STEPS + 1, "attempt": 1, "t": 0.0, "metrics": {"val/reward": 0.91}}
    jsonl.append(run_of(plan, "lr=1e-3", 1).train_log, line)
    after = {row.name: row.mean for row in reader.read().rows}
    assert [name for name in before if before[name] != after[name]] == ["lr=1e-3"]


def test_the_tokens_of_a_run_add_up_until_a_step_does_not_name_them(plan: AblationPlan) -> None:
    run = run_of(plan, "lr=1e-3", 1)
    run.train_log.unlink()
    log_steps(run, [{metrics.TOKENS[0]: 100.0}, {metrics.TOKENS[0]: 50.0}, {}, {"val/reward": 0.5}])
    rows = {row.name: row for row in read_report(plan, ROOT).rows}
    assert rows["lr=1e-3"].runs[0].tokens == {1: 100, 2: 150}


def test_the_report_of_another_baseline_compares_with_that_arm(plan: AblationPlan) -> None:
    rows = {row.name: row for row in ReportReader(plan, ROOT).read("lr=1e-3").rows}
    assert rows["lr=1e-3"].comparison is None
    assert rows["base"].verdict == "worse"


def test_an_arm_that_fails_alike_is_named_each_time(plan: AblationPlan) -> None:
    reader = ReportReader(plan, ROOT)
    reasons = [{row.name: row.stopped for row in reader.read().rows}[FAILED] for _ in range(2)]
    assert reasons[0] is not None
    assert reasons[0].startswith("the first 2 seeds failed")
    assert reasons[0] == reasons[1]


def test_arms_can_be_compared_by_another_metric_that_they_log(plan: AblationPlan) -> None:
    name = "val-aux/rows/exact/mean@1"
    for arm, value in (("base", 0.4), ("lr=1e-3", 0.9)):
        for seed in plan.seeds:
            line = {"v": 1, "step": STEPS + 1, "attempt": 1, "t": 0.0}
            value += 0.01
            metrics_of_step = {name: value}
            jsonl.append(run_of(plan, arm, seed).train_log, {**line, "metrics": metrics_of_step})
    report = read_report(plan, ROOT, name)
    rows = {row.name: row for row in report.rows}
    assert name in report.measure and not report.lower_is_better
    assert rows["lr=1e-3"].mean is not None and rows["lr=1e-3"].mean.mean > 0.9
    with pytest.raises(UsageError, match="did you mean 'val/reward'"):
        read_report(plan, ROOT, "val/rewards")


def test_arms_with_other_settings_of_the_reward_say_so_beside_that_metric(
    plan: AblationPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart = {"lr=1e-3": "its answers are scored by something else"}
    monkeypatch.setattr("engine.measure.ablations.report.why_incomparable", lambda _: apart)
    rows = {row.name: row for row in read_report(plan, ROOT, "val/reward").rows}
    assert rows["lr=1e-3"].comparison is not None and rows["lr=1e-3"].remark
    assert rows["base"].remark is None


def test_a_plan_that_gives_up_arms_keeps_its_metric(plan: AblationPlan) -> None:
    with pytest.raises(UsageError, match="--stop-worse"):
        read_report(replace(plan, stop_worse=True), ROOT, "val/reward")
