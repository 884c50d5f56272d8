"""Statistics of scored answers: the numbers of usual summaries, and failures apart from answers."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.report.answer_summary import (
    COLUMNS,
    read_answers,
    read_rollouts,
    summarize_rows,
)
from engine.run.run import Run
from tests.paths import SHARED

REAL_LOG = SHARED / "logs" / "agent-stable-slo" / "mistral_7b_250.jsonl"
INVALID = (11, 44, 48, 91, 241)
"""The rows of that log whose answers are not valid; all others have the reward 2."""
ONE_ANSWER = 2 / 250 + 1e-9
"""What one answer adds to the mean: resamples of another generator may differ by it."""


def row(reward: float | None = 2.0, **others: Any) -> Mapping[str, Any]:
    return {"reward": reward, "json_valid": int(bool(reward)), "tokens_out": 30, **others}


@pytest.mark.row("H28")
def test_the_interval_is_the_published_one_of_a_run_of_250_steps() -> None:
    rows = [row(0.0 if step in INVALID else 2.0) for step in range(250)]
    summary = summarize_rows("log", rows)
    assert summary.reward_mean == pytest.approx(1.96, abs=1e-6)
    assert summary.reward_ci_lower == pytest.approx(1.92, abs=ONE_ANSWER)
    assert summary.reward_ci_upper == pytest.approx(1.992, abs=ONE_ANSWER)
    assert summary.json_valid_rate == pytest.approx(0.98, abs=1e-6)


@pytest.mark.row("H28")
@pytest.mark.skipif(not REAL_LOG.exists(), reason="needs the shared logs")
def test_the_real_log_of_that_run_has_the_published_numbers() -> None:
    summary = dataclasses.asdict(summarize_rows("log", read_answers(REAL_LOG)))
    expected = {
        "rows": 250,
        "infra_errors": 0,
        "json_valid_rate": 0.98,
        "latency_p95_ms": 966.766,
        "latency_p99_ms": 1469.691,
        "reward_mean": 1.96,
    }
    assert {name: summary[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    ends = (summary["reward_ci_lower"], summary["reward_ci_upper"])
    assert ends == pytest.approx((1.92, 1.992), abs=ONE_ANSWER)


@pytest.mark.row("H28")
def test_percentiles_are_values_of_the_rows() -> None:
    rows = [row(latency_ms=float(ms), ttft_ms=4.0) for ms in range(100, 0, -1)]
    summary = summarize_rows("log", rows)
    assert (summary.latency_p95_ms, summary.latency_p99_ms) == (95.0, 99.0)
    assert summary.ttft_avg_ms == 4.0


@pytest.mark.row("H28")
@pytest.mark.parametrize(
    "failed",
    [row(0.0, tokens_out=-1), row(0.0, tokens_out=0), {"reward": None, "error": "timeout"}],
)
def test_a_row_without_tokens_or_with_an_error_is_no_answer(failed: Mapping[str, Any]) -> None:
    summary = summarize_rows("log", [row(1.0), failed, row(1.0)])
    assert (summary.rows, summary.infra_errors) == (3, 1)
    assert (summary.reward_mean, summary.json_valid_rate) == (1.0, 1.0)


def test_only_failures_have_no_mean() -> None:
    summary = summarize_rows("log", [row(0.0, tokens_out=-1)])
    assert summary.infra_errors == 1 and summary.reward_mean is summary.reward_ci_lower is None


def test_an_answer_with_reward_and_a_note_of_an_error_is_an_answer() -> None:
    assert summarize_rows("log", [row(0.0, error="wrong unit")]).infra_errors == 0


def test_a_file_of_something_else_is_refused() -> None:
    with pytest.raises(UsageError, match=r"log: no line is a JSON object with a number 'reward'"):
        summarize_rows("log", [{"step": 1}])


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        read_answers(tmp_path / "missing.jsonl")


def test_nan_and_torn_lines_are_no_rewards(tmp_path: Path) -> None:
    lines = [json.dumps(row(1.0)), '{"reward": NaN, "json_valid": 0}', '{"reward": 5', ""]
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    summary = summarize_rows("log", read_answers(tmp_path / "log.jsonl"))
    assert (summary.reward_mean, summary.json_valid_rate) == (1.0, 0.5)


def test_a_repeated_step_of_a_run_counts_once(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    for attempt, steps in ((1, (1, 2)), (2, (2, 3))):
        run.attempt(attempt).path.mkdir(parents=True)
        for step in steps:
            record = {"split": "train", "step": step, "reward": attempt, "parts": {"valid": 1.0}}
            jsonl.append(run.attempt(attempt).reward, record)
        jsonl.append(run.attempt(attempt).reward, {"split": "val", "step": 3, "reward": 9})
        jsonl.append(run.attempt(attempt).reward, {"split": True, "step": 3, "reward": 7})
    rows = read_rollouts(run)
    assert [(each["step"], each["reward"]) for each in rows] == [(1, 1), (2, 2), (3, 2)]
    assert summarize_rows("run", rows).json_valid_rate == 1.0
    assert [each["reward"] for each in read_rollouts(run, "val")] == [9]


def test_the_columns_are_those_of_the_usual_table() -> None:
    assert {*COLUMNS} >= {
        "file",
        "json_valid_rate",
        "latency_p95_ms",
        "latency_p99_ms",
        "reward_ci_lower",
        "reward_ci_upper",
        "reward_mean",
        "ttft_avg_ms",
    }
