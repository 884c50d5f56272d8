"""One JSON object per step, and STEP_TIMING lines."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import stdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.logs.formats.format import Parser
from engine.logs.formats.json_lines import LlamaFactoryLog, OwnLog, SloLog
from engine.logs.formats.step_timing import StepTiming
from engine.logs.formats.verl import VerlJsonl
from engine.run.history.train_log import Step, history
from tests.engine.logs.formats.samples import FACTORY, SLO, TIMINGS

numbers = st.floats(-1e90, 1e90)


def lines(*records: Any) -> list[bytes]:
    return [json.dumps(record).encode() for record in records]


def test_verl_writes_null_for_nan() -> None:
    (step,) = VerlJsonl().feed(lines({"step": 3, "data": {"critic/score/mean": None, "a": 1}}))
    assert step.metrics == {"critic/score/mean": None, "reward/mean": None, "a": 1.0}


def test_a_group_of_agent_stable_slo_has_a_mean_and_a_spread(tmp_path: Path) -> None:
    (step,) = SloLog(tmp_path / "train_log.jsonl").feed(lines(SLO))
    assert step.metrics == {
        "reward/mean": 1.25,
        "reward/max": 1.5,
        "reward/min": 1.0,
        "reward/std": stdev([1.0, 1.5]),
        "reward/zero_std_share": 0.0,
        "timing_s/step": 2.5,
        "actor/loss": -3.5,
        "advantage": 0.5,
        "json_valid": 1.0,
        "latency_ms": 316.0,
        "tokens_out": 8.0,
    }


def test_one_sample_of_agent_stable_slo_is_its_reward(tmp_path: Path) -> None:
    one = {key: SLO[key] for key in ("step", "reward", "advantage", "json_valid", "latency_ms")}
    (step,) = SloLog(tmp_path / "train_log.jsonl").feed(lines(one))
    assert step.metrics["reward/mean"] == 1.5
    assert "reward/std" not in step.metrics


def test_a_skipped_step_of_agent_stable_slo_logs_a_bare_nan(tmp_path: Path) -> None:
    (step,) = SloLog(tmp_path / "train_log.jsonl").feed(lines({**SLO, "loss": float("nan")}))
    assert step.metrics["actor/loss"] is None


def test_total_steps_and_model_come_from_the_manifest(tmp_path: Path) -> None:
    manifest = {"config": {"steps": 500, "base_model": "qwen"}, "created_at": 1_700_000_000.0}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    about = SloLog(tmp_path / "train_log.jsonl").about()
    assert (about.total_steps, about.model, about.started) == (500, "qwen", 1_700_000_000.0)
    assert SloLog(tmp_path / "moved.jsonl").about().model is None


def test_llama_factory_has_the_step_the_total_and_separate_evaluations() -> None:
    log = LlamaFactoryLog()
    evaluated = {key: value for key, value in FACTORY.items() if key not in ("loss", "lr")}
    result = log.feed(lines(FACTORY, {**evaluated, "eval_loss": 1.5}))
    assert [(step.step, step.metrics) for step in result] == [
        (10, {"train/loss": 1.25, "train/lr": 5e-05, "epoch": 0.25}),
        (10, {"val/loss": 1.5, "epoch": 0.25}),
    ]
    assert log.about().total_steps == 40


def test_step_timing_of_two_workers_is_one_step() -> None:
    parser = StepTiming()
    steps = parser.feed([line.encode() for line in TIMINGS[:2]])
    steps += parser.feed([TIMINGS[2].encode()])
    (step,) = history(steps)
    assert step.step == 2
    assert step.metrics == {
        "gpu_phase_duration_s": 2.2,
        "reward_total_duration_s": 0.5,
        "judge/calls": 8.0,
        "semaphore_wait_s": pytest.approx((0.05 * 6 + 0.25 * 2) / 8),
        "judge_api_latency_s": pytest.approx((0.04 * 6 + 0.08 * 2) / 8),
    }


def test_a_timing_line_without_judge_calls_has_no_latency() -> None:
    line = b"STEP_TIMING step=3 reward_phase: calls=6 wall=0.2s | per_reward=(avg=0.10s)"
    (step,) = StepTiming().feed([line])
    assert step.metrics == {"reward_total_duration_s": 0.2, "judge/calls": 6.0}


@pytest.mark.parametrize(
    "new", [VerlJsonl, OwnLog, LlamaFactoryLog, StepTiming, lambda: SloLog(Path("x.jsonl"))]
)
@given(data=st.lists(st.binary(max_size=100), max_size=4), tail=st.binary(max_size=60))
def test_any_bytes_are_fine(new: Any, data: list[bytes], tail: bytes) -> None:
    parser: Parser = new()
    parser.feed(
        [
            *data,
            b'{"step": 1, ' + tail,
            b'{"current_steps": 1, ' + tail,
            b"STEP_TIMING step=1 gpu_phase=" + tail + b"s",
        ]
    )


@pytest.mark.long
@given(
    st.recursive(
        st.none() | numbers | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_any_json_is_fine(value: Any) -> None:
    records = lines(
        value,
        {"step": value, "data": {}, "metrics": {}},
        {"step": 1, "data": value, "metrics": value, "group_rewards": value},
        {**SLO, "group_rewards": value, "reward": value},
        {**SLO, "mean_reward": value, "loss": value},
        {**FACTORY, "total_steps": value, "loss": value},
    )
    for parser in (VerlJsonl(), OwnLog(), LlamaFactoryLog(), SloLog(Path("train_log.jsonl"))):
        for step in parser.feed(records):
            assert all(v is None or isinstance(v, float) for v in step.metrics.values())


@given(
    st.dictionaries(st.from_regex(r"[a-z]{1,8}/[xyz]{1,8}", fullmatch=True), numbers, min_size=1)
)
def test_written_numbers_come_back(values: dict[str, float]) -> None:
    values = {f"my_{name}": value for name, value in values.items()}
    (logged,) = VerlJsonl().feed(lines({"step": 1, "data": values}))
    (own,) = OwnLog().feed(lines(Step(1, 1, 0.0, values).to_json()))
    (slo,) = SloLog(Path("x")).feed(lines({**SLO, **values}))
    assert logged.metrics == own.metrics == values
    assert values.items() <= slo.metrics.items()
