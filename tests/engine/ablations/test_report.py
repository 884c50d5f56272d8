"""A report that is read repeatedly while runs go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.ablations.plan import AblationPlan, current_run
from engine.ablations.report import ReportReader, read_report
from engine.base import jsonl
from engine.history import metrics
from engine.runs.rundir import RunDir
from tests.engine.reports.runs import log_steps
from tests.grubrics_tui.sample_ablation import FAILED, STEPS, make_ablation

pytestmark = pytest.mark.long

ROOT = Path("runs")


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AblationPlan:
    monkeypatch.chdir(tmp_path)
    return make_ablation(ROOT, 1_767_312_000.0)


def run_of(plan: AblationPlan, arm: str, seed: int) -> RunDir:
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
