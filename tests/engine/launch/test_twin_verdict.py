"""A twin that fails accuses the infrastructure, one that passes the production configuration."""

from __future__ import annotations

import pytest

from engine.doctor.finding import Finding, Severity
from engine.launch.twin_verdict import verdict
from engine.runs.state import RunState

DONE = RunState("finished")
FAILED = RunState("failed", reason="exit code 1")
STOPPED = RunState("finished", reason="stopped by user at step 2 of 5")


def found(*ids: str, severity: Severity = Severity.ERROR) -> list[Finding]:
    return [Finding(id, severity, title=id, cause="because") for id in ids]


def test_the_same_class_of_finding_is_infrastructure() -> None:
    given = verdict(FAILED, found("judge_auth.key"), FAILED, found("judge_auth.other"))
    assert given.outcome == "infrastructure"
    assert given.shared == ("judge_auth",)
    assert "the judge" in given.text


def test_a_twin_that_passes_is_the_production_configuration() -> None:
    given = verdict(FAILED, found("cuda_oom_training"), DONE, [])
    assert given.outcome == "production config"
    assert "cuda_oom_training" in given.text


def test_a_twin_that_fails_otherwise_is_infrastructure_that_comes_first() -> None:
    given = verdict(FAILED, found("cuda_oom_training"), FAILED, found("data_missing_or_schema"))
    assert (given.outcome, given.others) == ("infrastructure", ("data_missing_or_schema",))
    assert "another way" in given.text


def test_a_twin_that_fails_alone_does_not_accuse_its_run() -> None:
    given = verdict(DONE, [], FAILED, found("data_missing_or_schema"))
    assert given.outcome == "infrastructure"
    assert "a run that shows nothing wrong" in given.text and "fails too" not in given.text


def test_a_twin_that_fails_without_a_finding_is_infrastructure() -> None:
    assert verdict(FAILED, [], FAILED, []).outcome == "infrastructure"


def test_a_finding_that_is_only_worth_knowing_accuses_nobody() -> None:
    noise = found("wandb_network", severity=Severity.INFO)
    given = verdict(DONE, noise, DONE, noise)
    assert (given.outcome, given.exit_code) == ("nothing wrong", 0)


@pytest.mark.parametrize("state", [STOPPED, RunState("lost"), RunState("running")])
def test_a_twin_that_did_not_run_to_its_end_says_nothing(state: RunState) -> None:
    given = verdict(FAILED, [], state, found("judge_auth"))
    assert (given.outcome, given.exit_code) == ("undecided", 3)


def test_a_sick_run_that_ended_well_is_still_explained_by_its_findings() -> None:
    given = verdict(DONE, found("reward_zero_or_flat"), DONE, found("reward_zero_or_flat"))
    assert (given.outcome, given.exit_code) == ("infrastructure", 1)
    assert "the reward" in given.text
