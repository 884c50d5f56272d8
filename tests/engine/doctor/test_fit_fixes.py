"""What a run is offered can be set in its config."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.base import jsonl
from engine.doctor.diagnose import diagnose_run
from engine.doctor.live import LiveDoctor
from engine.doctor.run_end import fit_fixes, offer_fixes
from engine.run.finding import Change, Finding, Fix, Severity
from engine.run.history.columns import Columns
from engine.run.run import Run
from engine.run.state import RunState
from tests.engine.checks.project import Project, row
from tests.manifests import change_config, change_manifest

OOM = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
MICRO = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"
RECOMPUTE = "actor_rollout_ref.model.enable_gradient_checkpointing"
ADVICE = Fix("buy memory")
FIXES = (
    Fix("smaller", (Change("config", MICRO, 1),)),
    Fix("elsewhere", (Change("environment", "MASTER_PORT", "0"),)),
    Fix("half", (Change("config", "lora.r", 8), Change("config", MICRO, 1))),
    ADVICE,
)
UNHEALTHY = Finding("cuda_oom_training", Severity.CRITICAL, "title", "cause", fixes=FIXES)


def launched(folder: Path, *keys: str) -> Run:
    run = Run(folder)
    run.attempt(1).path.mkdir(parents=True)
    config = {key: {"value": None if key.endswith("init") else 1} for key in keys}
    jsonl.write_json(run.manifest_file, {"v": 1, "attempts": [{"number": 1}], "config": config})
    return run


def titles(found: Finding) -> list[str]:
    return [fix.title for fix in found.fixes]


def test_fixes_on_keys_of_another_kind_of_config_are_left_out(tmp_path: Path) -> None:
    (one,) = fit_fixes([UNHEALTHY], launched(tmp_path, "lora.r"))
    assert titles(one) == ["elsewhere", "buy memory"]


def test_what_followed_is_offered_no_other_keys_either(tmp_path: Path) -> None:
    root = replace(UNHEALTHY, fixes=(), followed_by=(UNHEALTHY,))
    (one,) = fit_fixes([root], launched(tmp_path, "lora.r"))
    assert titles(one.followed_by[0]) == ["elsewhere", "buy memory"]


def test_all_stay_where_the_config_has_the_keys_or_is_not_known(tmp_path: Path) -> None:
    known = launched(tmp_path / "known", "lora.r", MICRO)
    assert (
        fit_fixes([UNHEALTHY], known)
        == fit_fixes([UNHEALTHY], Run(tmp_path / "external"))
        == [UNHEALTHY]
    )


@pytest.mark.parametrize(
    ("key", "now", "proposed", "offered"),
    [
        ("actor_rollout_ref.rollout.gpu_memory_utilization", 0.6, 0.4, 0.4),
        ("actor_rollout_ref.rollout.gpu_memory_utilization", 0.32, 0.4, 0.24),
        ("judge.max_concurrent", 3, 4, 1),
        ("judge.timeout_s", 600, 300, 1200),
        ("judge.timeout_s", 60, 300, 300),
    ],
)
def test_a_usual_value_never_leads_back(
    tmp_path: Path, key: str, now: float, proposed: float, offered: float
) -> None:
    run = launched(tmp_path, key)
    jsonl.write_json(
        run.manifest_file, {"v": 1, "attempts": [{"number": 1}], "config": {key: {"value": now}}}
    )
    unhealthy = replace(UNHEALTHY, fixes=(Fix("a usual one", (Change("config", key, proposed),)),))
    (one,) = fit_fixes([unhealthy], run)
    assert one.fixes[0].changes[0].after == offered


@pytest.mark.parametrize(("key", "offered"), [(RECOMPUTE, True), ("training.n_gpus", False)])
def test_the_doctor_of_a_run_offers_what_fits(tmp_path: Path, key: str, offered: bool) -> None:
    run = launched(tmp_path, key)
    run.attempt(1).console.write_bytes(b"in update_actor\n" + OOM)
    live = LiveDoctor(run).diagnose(RunState("failed", attempt=1, ended=1.0), Columns())
    for (one,) in (diagnose_run(run), live):
        assert any(fix.is_launchable for fix in one.fixes) is offered


def test_a_supervised_run_out_of_memory_is_offered_its_own_keys(tmp_path: Path) -> None:
    own = ("training.per_device_train_batch_size", "training.gradient_checkpointing")
    run = launched(tmp_path, *own)
    run.attempt(1).console.write_bytes(OOM)
    changed = [change.key for fix in diagnose_run(run)[0].fixes for change in fix.changes]
    assert changed == list(own)


RUBRICS = Fix("rubrics", (Change("config", "reward.custom_reward_function.path", None, "rw.py"),))


@pytest.mark.parametrize(("answers", "offered"), [(["good", "bad"], ["rubrics"]), ([], [])])
def test_the_rubric_reward_is_offered_only_for_data_that_it_can_score(
    tmp_path: Path, answers: list[str], offered: list[str]
) -> None:
    made = row(1)
    made["extra_info"].update(answers=answers, gold_scores=[1.0, 0.0][: len(answers)])
    Project(tmp_path).write("train.parquet", [made])
    run = launched(tmp_path / "run", "reward.custom_reward_function.path")
    change_config(run, **{"data.train_files": {"value": "train.parquet"}})
    change_manifest(run, cwd=str(tmp_path))
    (result,) = offer_fixes([replace(UNHEALTHY, fixes=(RUBRICS,))], run, RunState("finished"))
    assert titles(result) == offered
