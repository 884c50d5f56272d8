"""Rollouts without a reward: who is at fault, since when, and what fixes it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.doctor.metrics import RuleContext
from engine.doctor.rewards import RewardDiagnosis, reward_findings
from engine.run.finding import Change
from tests.engine.doctor.rewards.records import Record, failing, scored, write

ERRORS = [
    ("auth", "Error code: 401", "judge_auth"),
    ("auth", "Error code: 402 - Insufficient Balance", "judge_auth.balance"),
    ("not_found", "DeploymentNotFound", "judge_auth.not_found"),
    ("rate_limit", "Error code: 429", "judge_rate_limit"),
    ("rate_limit", "insufficient_quota", "judge_rate_limit.quota"),
    ("timeout", "no answer in 60 s", "judge_timeout_or_connection.timeout"),
    ("connection", "Connection error.", "judge_timeout_or_connection.connection"),
    ("server", "Error code: 503", "judge_timeout_or_connection.server"),
    ("server", "content_filter", "judge_content_filter"),
    ("parse", "no JSON in the reply", "judge_parse_failure"),
    ("other", "Error code: 400 - maximum context length", "context_length_exceeded.judge"),
    ("other", "Error code: 400 - Unsupported parameter", "config_error.judge_request"),
    ("data", "Missing precomputed answers/gold_scores", "data_missing_or_schema.gold"),
    ("other", "ValueError: bad row", "reward_function_error"),
    ("reward_timeout", "no score within 2 s (rw.py:7)", "reward_function_error.timeout"),
    ("other", "ValueError: the reward function returned nan", "reward_function_error.nan"),
]


@pytest.mark.parametrize(("kind", "message", "id"), ERRORS)
def test_the_recorded_class_is_the_cause(tmp_path: Path, kind: str, message: str, id: str) -> None:
    path = write(tmp_path, scored, range(1, 5))
    write(tmp_path, failing(kind, message), range(5, 6))
    (one,) = reward_findings(path)
    assert (one.id, one.severity, one.onset_step) == (id, "critical", 5)
    assert message in one.cause


def test_each_kind_of_failure_of_an_own_reward_counts_its_own_rollouts(tmp_path: Path) -> None:
    messages = (
        "TypeError: returned str 'yes', not a number (rw.py:9)",
        "KeyError: 'answer' (rw.py:4)",
        "ZeroDivisionError: division by zero (rw.py:7)",
    )

    def make(step: int, group: int, rollout: int) -> Record:
        own = {"answer": "72", "judge_scores": None, "gold_scores": None}
        if rollout == 3:
            return scored(step, group, rollout, **own)
        failed = failing("other", messages[rollout])(step, group, rollout)
        return {key: value for key, value in {**failed, **own}.items() if key != "rubric"}

    found = {one.id: one.cause for one in reward_findings(write(tmp_path, make, range(1, 5), 16))}
    text, raised = found["reward_function_error.no_number"], found["reward_function_error"]
    assert "25%" in text and messages[0] in text and "raise" not in text
    assert "50%" in raised and "25% KeyError, 25% ZeroDivisionError" in raised


def test_a_function_that_hung_once_is_told_with_its_line(tmp_path: Path) -> None:
    line = "compute_score gave no score within 2 s (rw.py:7)"

    def make(step: int, group: int, rollout: int) -> Record:
        hung = (step, group, rollout) == (2, 0, 0)
        return (failing("reward_timeout", line) if hung else scored)(step, group, rollout)

    (one,) = reward_findings(
        write(tmp_path, make, range(1, 30)), RuleContext({"grubrics.reward_timeout_s": 2.0})
    )
    assert (one.id, one.severity) == ("reward_function_error.timeout", "warning")
    assert (one.onset_step, "1 call was" in one.cause, line in one.cause) == (2, True, True)
    assert Change("config", "grubrics.reward_timeout_s", 6.0, 2.0) in one.fixes[1].changes


def test_three_rollouts_tell_with_their_place_in_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, failing("auth", "401"), range(1, 2))
    (one,) = reward_findings(path)
    assert len(one.evidence) == 3
    with path.open("rb") as handle:
        handle.seek(one.evidence[1].offset or 0)
        assert b'"rollout": 1' in handle.readline()
    assert "Item: Names the dose" in one.evidence[0].text


def test_a_failing_validation_before_the_first_step_is_noticed(tmp_path: Path) -> None:
    def make(step: int, group: int, rollout: int) -> Record:
        return {**failing("timeout")(step, group, rollout), "split": "val"}

    (one,) = reward_findings(write(tmp_path, make, range(1)))
    assert (one.id, one.onset_step) == ("judge_timeout_or_connection.timeout", 0)
    assert "before step 1" in one.cause


def test_a_few_failures_among_many_are_a_warning(tmp_path: Path) -> None:
    def make(step: int, group: int, rollout: int) -> Record:
        bad = rollout == 0 and group == 0
        return failing("parse")(step, group, rollout) if bad else scored(step, group, rollout)

    (one,) = reward_findings(write(tmp_path, make, range(1, 10)))
    assert (one.id, one.severity) == ("judge_parse_failure", "warning")


def test_a_single_failure_is_none(tmp_path: Path) -> None:
    def make(step: int, group: int, rollout: int) -> Record:
        bad = (step, group, rollout) == (3, 0, 0)
        return failing("server")(step, group, rollout) if bad else scored(step, group, rollout)

    assert reward_findings(write(tmp_path, make, range(1, 5))) == []


def test_a_storm_of_429_that_retries_make_good(tmp_path: Path) -> None:
    def make(step: int, group: int, rollout: int) -> Record:
        tries = ["rate_limit"] * 2 if step >= 4 else []
        return scored(step, group, rollout, attempts=1 + len(tries), failed_attempts=tries)

    context = RuleContext({"judge.max_concurrent": 10, "judge.max_attempts": 4})
    (one,) = reward_findings(write(tmp_path, make, range(1, 8)), context)
    assert (one.id, one.severity, one.onset_step) == ("judge_rate_limit.retries", "warning", 4)
    # Of ten calls at once two of three attempts were refused, so three got through.
    assert one.fixes[0].changes[0].after == 3


def test_attempts_that_fail_in_many_ways_are_told_by_the_commonest(tmp_path: Path) -> None:
    """None of the ways is frequent by itself."""

    def make(step: int, group: int, rollout: int) -> Record:
        kind = ["timeout", "rate_limit", "connection", "server"][rollout]
        tries = [kind] if step >= 3 or group == 0 else []
        return scored(step, group, rollout, attempts=1 + len(tries), failed_attempts=tries)

    (one,) = reward_findings(write(tmp_path, make, range(1, 6)))
    assert one.id.endswith(".retries")
    assert (one.title, one.onset_step) == ("50% of judge calls needed retries", 3)


@pytest.mark.parametrize("kind", ["auth", "not_found", "connection", "server", "parse"])
def test_the_loop_can_be_tried_without_the_judge(tmp_path: Path, kind: str) -> None:
    context = RuleContext({"judge.provider": "openai"})
    (one,) = reward_findings(write(tmp_path, failing(kind), range(1, 2)), context)
    changes = [change for fix in one.fixes for change in fix.changes]
    assert Change("config", "judge.provider", "offline", "openai") in changes


@pytest.mark.parametrize("message", ["ValueError: x", "the reward function returned nan"])
def test_a_broken_function_can_be_put_aside(tmp_path: Path, message: str) -> None:
    context = RuleContext({"reward.custom_reward_function.path": "mine.py"})
    (one,) = reward_findings(write(tmp_path, failing("other", message), range(1, 2)), context)
    (change,) = one.fixes[1].changes
    assert change == Change("config", "reward.custom_reward_function.path", None, "mine.py")


def test_what_has_passed_is_no_finding(tmp_path: Path) -> None:
    path = write(tmp_path, failing("server"), range(1, 3))
    write(tmp_path, scored, range(3, 8))
    assert reward_findings(path) == []


def test_a_growing_file_is_read_on(tmp_path: Path) -> None:
    path = write(tmp_path, scored, range(1, 4))
    diagnosis = RewardDiagnosis(path)
    assert diagnosis.findings() == []
    write(tmp_path, failing("auth"), range(4, 5))
    assert [finding.id for finding in diagnosis.findings()] == ["judge_auth"]


def test_a_torn_line_and_lines_that_are_no_records_do_no_harm(tmp_path: Path) -> None:
    path = write(tmp_path, scored, range(1, 4))
    with path.open("ab") as handle:
        handle.write(
            b'null\n[1]\n{"step": "x", "error": 5}\n{"parts": [1], "judge_scores": 3}\n{"v"'
        )
    assert [finding for finding in reward_findings(path) if finding.severity == "critical"] == []


def test_a_missing_file_has_nothing_to_find(tmp_path: Path) -> None:
    assert reward_findings(tmp_path / "reward.jsonl") == []


def test_texts_that_would_steer_a_terminal_are_harmless_in_the_evidence(tmp_path: Path) -> None:
    hostile = "\x1b]0;title\x07\x1b[2J\u202eabc"

    def make(step: int, group: int, rollout: int) -> Record:
        return {
            **failing("auth", hostile)(step, group, rollout),
            "rubric": hostile,
            "group": hostile,
        }

    (one,) = reward_findings(write(tmp_path, make, range(1, 2)))
    shown = one.cause + "".join(seen.text + str(seen.values) for seen in one.evidence)
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)


def test_a_pipe_in_place_of_the_file_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "reward.jsonl")
    assert reward_findings(tmp_path / "reward.jsonl") == []
