"""A small run that fails accuses the infrastructure; one that passes, the production config."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.base import jsonl
from engine.launch.lineage import Comparison, verdict
from engine.run.finding import Change, Evidence, Finding, Fix, Severity
from engine.run.run import Attempt
from engine.run.state import RunState

GIB = 2**30
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


def test_a_repro_that_passes_is_the_production_configuration() -> None:
    given = verdict(FAILED, found("cuda_oom_training"), DONE, [])
    assert given.outcome == "production config"
    assert "cuda_oom_training" in given.text


def test_a_repro_that_fails_otherwise_is_infrastructure_that_comes_first() -> None:
    given = verdict(FAILED, found("cuda_oom_training"), FAILED, found("data_missing_or_schema"))
    assert (given.outcome, given.others) == ("infrastructure", ("data_missing_or_schema",))
    assert "another way" in given.text


def test_a_repro_that_fails_alone_does_not_accuse_its_run() -> None:
    given = verdict(DONE, [], FAILED, found("data_missing_or_schema"))
    assert given.outcome == "infrastructure"
    assert "the run has no alerts" in given.text


def test_a_repro_that_fails_without_a_finding_is_infrastructure() -> None:
    assert verdict(FAILED, [], FAILED, []).outcome == "infrastructure"


def test_a_finding_of_severity_info_is_not_a_cause() -> None:
    noise = found("wandb_network", severity=Severity.INFO)
    given = verdict(DONE, noise, DONE, noise)
    assert (given.outcome, given.exit_code) == ("nothing wrong", 0)


@pytest.mark.parametrize("state", [STOPPED, RunState("lost"), RunState("running")])
def test_a_repro_that_did_not_end_has_no_verdict(state: RunState) -> None:
    given = verdict(FAILED, [], state, found("judge_auth"))
    assert (given.outcome, given.exit_code) == ("undecided", 3)


def test_an_unhealthy_finished_run_is_still_explained_by_its_findings() -> None:
    given = verdict(DONE, found("reward_zero_or_flat"), DONE, found("reward_zero_or_flat"))
    assert (given.outcome, given.exit_code) == ("infrastructure", 1)
    assert "the reward" in given.text


def too_fast(rate: float = 3.0) -> Finding:
    change = Change("config", "training.learning_rate", 2e-5, rate)
    return Finding(
        "kl_or_grad_blowup.rate", Severity.ERROR, "too fast", "because",
        (Evidence("the rate", values={"training.learning_rate": rate}),),
        (Fix("Lower it", (change,)),),
    )  # fmt: skip


def test_a_config_value_that_the_repro_shares_is_not_an_infrastructure_problem() -> None:
    given = verdict(DONE, [too_fast()], DONE, [too_fast(), *found("reward_zero_or_flat")])
    assert (given.outcome, given.exit_code) == ("kept value", 1)
    assert "training.learning_rate=3.0" in given.text and "Apply its fix" in given.text


def test_a_value_that_any_shared_alert_names_is_the_cause() -> None:
    both = [*found("loss_nan"), too_fast(30)]
    assert verdict(FAILED, both, FAILED, both).outcome == "kept value"


def test_a_value_that_only_the_run_shows_counts_if_the_small_run_kept_it() -> None:
    run = [replace(too_fast(30), followed_by=tuple(found("loss_nan")))]
    kept, lowered = (Comparison({"training.learning_rate": rate}) for rate in (30, 1e-5))
    assert verdict(FAILED, run, FAILED, found("loss_nan"), kept).outcome == "kept value"
    assert verdict(FAILED, run, FAILED, found("loss_nan"), lowered).outcome == "infrastructure"


OWN = Comparison(own_files=("rewards/rw.py",), reduced="20 of 320 scored rollouts")


def raised(place: str) -> list[Finding]:
    proof = Evidence(f'group a rollout 0: KeyError: no rubric ({place}) | "see other.py:3"')
    return [replace(one, evidence=(proof,)) for one in found("reward_function_error")]


def test_an_exception_in_the_runs_own_file_is_neither_config_nor_infrastructure() -> None:
    alone = verdict(FAILED, raised("rw.py:6"), DONE, [], OWN)
    assert (alone.outcome, alone.exit_code) == ("own code", 0)
    assert "rewards/rw.py:6" in alone.text and "20 of 320 scored rollouts" in alone.text
    again = verdict(FAILED, raised("rw.py:6"), FAILED, raised("rw.py:6"), OWN)
    assert (again.outcome, again.exit_code) == ("own code", 1)


@pytest.mark.parametrize("place", ["other.py:6", "/lib/verl/utils/rw.py.txt:6", "xrw.py:6"])
def test_an_exception_elsewhere_does_not_accuse_the_runs_own_file(place: str) -> None:
    assert verdict(FAILED, raised(place), DONE, [], OWN).outcome == "production config"


def test_the_frames_of_a_traceback_name_the_runs_own_file() -> None:
    proofs = (Evidence("KeyError: 'a'"), Evidence("raised in /w/rewards/rw.py:score"))
    tools = [replace(one, evidence=proofs) for one in found("tool_calls.raised")]
    assert verdict(FAILED, tools, DONE, [], OWN).outcome == "own code"


def test_a_small_run_that_missed_the_failing_rows_does_not_accuse_the_config() -> None:
    missed = Comparison(missed="15 rows of step 6, the step in which the run failed")
    given = verdict(FAILED, found("data_missing_or_schema"), DONE, [], missed)
    assert (given.outcome, given.exit_code) == ("undecided", 3)
    assert "15 rows of step 6" in given.text


@pytest.mark.parametrize("is_resumable", [True, False])
def test_only_a_run_with_a_checkpoint_can_be_resumed(is_resumable: bool) -> None:
    compared = Comparison(is_resumable=is_resumable)
    text = verdict(FAILED, found("judge_rate_limit"), DONE, [], compared).text
    assert ("can be resumed" in text) == is_resumable


def test_a_value_named_below_its_consequence_also_counts() -> None:
    folded = [
        replace(one, followed_by=(too_fast(),)) for one in found("kl_or_grad_blowup.gradient")
    ]
    assert verdict(DONE, folded, DONE, [too_fast()]).outcome == "kept value"


def test_the_same_class_for_another_reason_is_infrastructure() -> None:
    grew = found("kl_or_grad_blowup.gradient")
    assert verdict(DONE, grew, DONE, [too_fast()]).outcome == "infrastructure"


def test_the_first_shared_alert_is_the_cause() -> None:
    given = verdict(
        FAILED, [*found("judge_auth"), too_fast()], FAILED, [*found("judge_auth"), too_fast()]
    )
    assert (given.outcome, given.shared[0]) == ("infrastructure", "judge_auth")


@pytest.mark.parametrize(
    "id",
    ["judge_rate_limit", "judge_auth.not_found", "wandb_network", "checkpoint_disk_full",
     "port_in_use", "model_not_found_or_hub.gated", "job_cancelled_or_interrupted.killed"],
)  # fmt: skip
def test_an_outage_that_is_over_is_not_the_configs_fault(id: str) -> None:
    given = verdict(FAILED, found(id, "reward_zero_or_flat"), DONE, [])
    assert (given.outcome, given.exit_code) == ("passed", 0)
    assert "config is not to blame" in given.text and id.split(".")[0] in given.text


@pytest.mark.parametrize("id", ["judge_content_filter", "loss_nan", "context_length_exceeded"])
def test_a_problem_that_a_config_can_cause_stays_with_the_config(id: str) -> None:
    assert verdict(FAILED, found(id, "judge_rate_limit"), DONE, []).outcome == "production config"


@pytest.mark.parametrize(
    "reason",
    ["exit code 1 at step 3 of 9: no space left on device; 0 MiB free at /x",
     "the machine was restarted",
     "killed by SIGKILL (by hand, or out of memory?) at step 3 of 9"],
)  # fmt: skip
def test_a_cause_from_outside_is_read_from_the_verdict_as_well(reason: str) -> None:
    assert verdict(RunState("failed", reason=reason), [], DONE, []).outcome == "passed"


@pytest.mark.parametrize(("own", "outcome"), [(2, "passed"), (20, "production config")])
@pytest.mark.parametrize("id", ["host_oom.killed", "cuda_oom_training"])
def test_memory_held_by_others_is_not_the_configs_fault(
    tmp_path: Path, id: str, own: int, outcome: str
) -> None:
    attempt = Attempt(tmp_path)
    gpu = {"mem_used": 23 * GIB, "mem_total": 24 * GIB, "run_mem": own * GIB}
    sample = {"mem_used": 23 * GIB, "mem_total": 24 * GIB, "run": {"pss": own * GIB}, "gpus": [gpu]}
    jsonl.append(attempt.system, {"v": 1, "t": 1.0, **sample})
    given = verdict(FAILED, found(id), DONE, [], Comparison(attempt=attempt))
    assert given.outcome == outcome
    assert ("other processes" in given.text) == (outcome == "passed")
