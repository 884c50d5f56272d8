"""Real logs of other people's runs: what happened is named, and healthy runs have no alert."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.doctor.metrics import metric_findings
from engine.logs.formats.external_run import read_steps
from engine.run.history.columns import Columns
from engine.run.history.train_log import history
from tests.engine.doctor.metrics.curves import alerts, find
from tests.paths import SHARED

LOGS = SHARED / "logs"
SLO = LOGS / "agent-stable-slo"
VERL = LOGS / "verl-0.9.1"
UNHEALTHY = {"fail_reward_nan"}

pytestmark = pytest.mark.skipif(not LOGS.is_dir(), reason="the logs are not part of the project")


def read(path: Path) -> Columns:
    result = Columns()
    for step in history(read_steps(path)):
        result.add(step)
    return result


def test_a_policy_that_collapses_at_step_4() -> None:
    findings = metric_findings(read(SLO / "qwen25_0.5b_grpo_log.jsonl"))
    assert alerts(findings) == ["collapse_entropy_or_length.length"]
    assert findings[0].onset_step == 4
    assert find(findings, "collapse_entropy_or_length.reward").onset_step == 3


def test_a_saturated_run_is_worth_knowing_and_no_alert() -> None:
    findings = metric_findings(read(SLO / "mistral_7b_250.jsonl"))
    assert [finding.id for finding in findings] == ["reward_zero_or_flat.saturated"]
    assert (findings[0].onset_step, alerts(findings)) == (0, [])


@pytest.mark.parametrize("suffix", [".out", ".files/tiny"])
def test_a_reward_that_is_nan_while_the_run_ends_with_exit_code_0(suffix: str) -> None:
    (root,) = metric_findings(read(VERL / f"fail_reward_nan{suffix}"))
    assert (root.id, root.onset_step) == ("reward_function_error.nan", 1)


def test_no_other_run_has_an_alert_in_its_numbers() -> None:
    paths = [*VERL.glob("*.out"), *VERL.glob("*.files/tiny"), *VERL.glob("*/trainer_state.json")]
    looked_at = 0
    for path in paths:
        if path.stem in UNHEALTHY or path.parent.stem in UNHEALTHY:
            continue
        try:
            columns = read(path)
        except UsageError:
            continue
        looked_at += len(columns.times) > 0
        assert alerts(metric_findings(columns)) == [], path
    assert looked_at > 20
