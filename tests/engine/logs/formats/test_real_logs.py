"""Real output of verl, TRL and agent_stable_slo, where it lies beside the checkout."""

from __future__ import annotations

import json

import pytest

from engine.logs.formats.external_run import open_external, read_steps
from engine.logs.formats.series import read_columns, series
from engine.run.history.train_log import history
from tests.paths import SHARED

LOGS = SHARED / "logs"
VERL = LOGS / "verl-0.9.1"

pytestmark = pytest.mark.skipif(not LOGS.is_dir(), reason="no sample logs beside the checkout")

SOURCES = [
    ("verl-0.9.1/grpo_cpu_20steps_1thread.out", "verl", "grpo", 20, "actor/pg_loss"),
    ("verl-0.9.1/grpo_cpu_2ranks_kl.out", "verl", "grpo", None, "actor/pg_loss"),
    ("verl-0.9.1/grpo_cpu_resume_pty.typescript", "verl", "grpo", 2, "actor/pg_loss"),
    ("verl-0.9.1/sft_cpu_2ranks.out", "verl", "sft", 20, "train/loss"),
    ("verl-0.9.1/fail_reward_nan.out", "verl", "grpo", 3, "reward/mean"),
    ("verl-0.9.1/trl_grpo.out", "hf", "grpo", 20, "reward/mean"),
    ("verl-0.9.1/trl_sft.out", "hf", "sft", 20, "train/loss"),
    ("verl-0.9.1/trl_grpo.files", "hf-state", "grpo", 20, "reward/mean"),
    ("verl-0.9.1/trl_sft.files/trainer_state.json", "hf-state", "sft", 20, "train/loss"),
    ("agent-stable-slo/mistral_7b_250.jsonl", "slo", "grpo", 250, "reward/mean"),
    ("agent-stable-slo/qwen25_0.5b_grpo_log.jsonl", "slo", "grpo", 25, "reward/mean"),
]


@pytest.mark.parametrize(("name", "key", "kind", "count", "metric"), SOURCES)
def test_every_source_is_known_and_read_whole(
    name: str, key: str, kind: str, count: int | None, metric: str
) -> None:
    run = open_external(LOGS / name)
    assert (run.format.key, run.kind.name) == (key, kind)
    columns = read_columns(str(LOGS / name), LOGS)
    assert count is None or len(columns.times) == count
    assert len(series(columns, metric)) == len(columns.times)


def test_the_console_and_the_file_logger_of_one_run_say_the_same() -> None:
    console = history(read_steps(VERL / "grpo_cpu_20steps_1thread.out"))
    logged = history(read_steps(VERL / "grpo_cpu_20steps_1thread.files" / "tiny"))
    assert [step.step for step in console] == [step.step for step in logged]
    for one, other in zip(console, logged, strict=True):
        assert one.metrics == pytest.approx(other.metrics)


def test_trl_prints_what_its_state_file_holds_to_four_digits() -> None:
    printed = read_columns(str(VERL / "trl_grpo.out"), LOGS)
    kept = read_columns(str(VERL / "trl_grpo.files"), LOGS)
    for metric in ("reward/mean", "reward/std", "actor/loss", "actor/grad_norm"):
        for (step, text), (same, value) in zip(
            series(printed, metric), series(kept, metric), strict=True
        ):
            assert step == same
            assert text == pytest.approx(value, rel=1e-3, abs=1e-9)


def test_every_number_of_an_slo_log_is_the_files() -> None:
    path = LOGS / "agent-stable-slo" / "qwen25_0.5b_grpo_log.jsonl"
    raw = [json.loads(line) for line in path.read_text().splitlines()]
    columns = read_columns(str(path), LOGS)
    assert [v for _, v in series(columns, "reward/mean")] == [r["mean_reward"] for r in raw]
    assert [v for _, v in series(columns, "timing_s/step")] == [r["step_ms"] / 1000 for r in raw]
