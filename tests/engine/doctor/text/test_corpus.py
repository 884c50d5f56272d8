"""Logs of other people's runs with known causes, where a copy of them lies beside the project."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.doctor.diagnose import diagnose_file
from tests.paths import SHARED

pytestmark = pytest.mark.long

CORPUS = SHARED / "corpus" / "dev.jsonl"
VERL = SHARED / "logs" / "verl-0.9.1"
FIRST_RIGHT = 0.95
HEALTHY = "healthy_noise"


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[set[str], list[str]]]:
    """Of every case the classes that would be right, and the categories of the alerts."""
    if not CORPUS.is_file():
        pytest.skip("no corpus beside the project")
    log = tmp_path_factory.mktemp("corpus") / "console.log"
    result = []
    for line in CORPUS.read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        log.write_text(case["log"], encoding="utf-8")
        alerts = [finding.category for finding in diagnose_file(log) if finding.severity.is_alert]
        result.append(({case["label"], *case.get("secondary", [])}, alerts))
    return result


def test_the_first_finding_is_right(answers: list[tuple[set[str], list[str]]]) -> None:
    failing = [(wanted, alerts) for wanted, alerts in answers if HEALTHY not in wanted]
    right = [bool(alerts) and alerts[0] in wanted for wanted, alerts in failing]
    assert sum(right) / len(right) >= FIRST_RIGHT


def test_healthy_logs_raise_no_alert(answers: list[tuple[set[str], list[str]]]) -> None:
    assert [alerts for wanted, alerts in answers if HEALTHY in wanted and alerts] == []


FAILED = {
    "fail_bad_hydra_key.err": "config_error",
    "fail_missing_parquet.err": "data_missing_or_schema",
    "fail_reward_raises.err": "reward_function_error",
    "fail_reward_nan.out": "reward_function_error",
    "fail_sigint_driver.err": "job_cancelled_or_interrupted",
    "fail_sigterm_driver.err": "job_cancelled_or_interrupted",
    "fail_ray_attach_auth_mode_unset.err": "ray_start_or_worker_died",
    "fail_stale_ray_current_cluster.err": "ray_start_or_worker_died",
    "grpo_cpu_fail_microbatch_indivisible.err": "config_error",
    "grpo_cpu_fsdp1.err": "training_setup_error",
    "grpo_vanilla_missing_cachetools.err": "python_env_import",
    "grpo_vanilla_nogpu.err": "ray_start_or_worker_died",
    "sft_fail_kill9_worker.err": "host_oom",
    "sft_fail_missing_parquet.err": "data_missing_or_schema",
    "sft_fail_sigint.err": "job_cancelled_or_interrupted",
    "vllm_cpu_fail_head_dim16.out": "vllm_init_failure",
    "vllm_cpu_standalone_torchvision_mismatch.err": "vllm_init_failure",
}


@pytest.mark.parametrize(("name", "category"), FAILED.items())
def test_a_failed_verl_run_gets_its_cause(name: str, category: str) -> None:
    if not (VERL / name).is_file():
        pytest.skip("no logs beside the project")
    assert diagnose_file(VERL / name)[0].category == category


def healthy_logs() -> list[Path]:
    names = ("grpo_cpu_*", "sft_cpu_*", "trl_*", "model_merger_*", "vllm_cpu_standalone.*")
    result = [path for name in names for path in sorted(VERL.glob(name)) if path.is_file()]
    failed = ("fail", "fsdp1", ".meta", ".files")
    return [path for path in result if not any(word in path.name for word in failed)]


@pytest.mark.parametrize("log", healthy_logs(), ids=lambda log: log.name)
def test_a_healthy_verl_run_raises_no_alert(log: Path) -> None:
    assert [finding.id for finding in diagnose_file(log) if finding.severity.is_alert] == []
