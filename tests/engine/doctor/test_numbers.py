"""Series, reward records and config of a run directory, merge_numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.doctor.diagnose import diagnose_run
from engine.doctor.live import NumberDiagnosis
from engine.run.run import Run
from engine.run.state import RunState
from tests.engine.doctor.metrics.curves import alerts, columns, healthy
from tests.engine.doctor.rewards.records import failing, scored, write

RUNNING = RunState("running")


def make_run(folder: Path, **values: Any) -> Run:
    (folder / "attempt_1").mkdir()
    config = {key: {"value": value, "origin": "cli"} for key, value in values.items()}
    manifest = {"v": 1, "kind": "grpo", "config": config, "attempts": [{"number": 1}]}
    jsonl.write_json(folder / "manifest.json", manifest)
    return Run(folder)


def test_a_healthy_run_has_no_alert(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    write(tmp_path / "attempt_1", scored, range(1, 20))
    assert alerts(NumberDiagnosis(run).findings(RUNNING, columns(healthy(1, 20)))) == []


def test_a_run_without_anything_has_none(tmp_path: Path) -> None:
    assert NumberDiagnosis(Run(tmp_path)).findings(RUNNING, columns({"reward/mean": []})) == []


def test_a_rate_that_breaks_the_model_is_the_root_of_all_that_follows(tmp_path: Path) -> None:
    run = make_run(tmp_path, **{"actor_rollout_ref.actor.optim.lr": 0.2})
    curves = healthy(2, 40)
    curves["actor/grad_norm"][20:] *= 1000
    findings = NumberDiagnosis(run).findings(RUNNING, columns(curves))
    assert alerts(findings) == ["kl_or_grad_blowup.rate"]
    assert [consequence.id for consequence in findings[0].followed_by] == [
        "kl_or_grad_blowup.gradient"
    ]


def test_a_new_attempt_begins_with_records_of_its_own(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    write(tmp_path / "attempt_1", failing("auth"), range(1, 2))
    diagnosis, logged = NumberDiagnosis(run), columns({"reward/mean": [0.1]})
    assert alerts(diagnosis.findings(RUNNING, logged)) == ["judge_auth"]
    (tmp_path / "attempt_2").mkdir()
    write(tmp_path / "attempt_2", scored, range(1, 4))
    assert alerts(diagnosis.findings(RUNNING, logged)) == []


def test_a_reward_record_leads_the_console_line_that_repeats_it(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    message = "ValueError: the reward function returned nan"
    write(tmp_path / "attempt_1", failing("other", message), range(1, 2))
    console = f"Traceback (most recent call last):\n  File 'x.py', line 3, in f\n{message}\n"
    (tmp_path / "attempt_1" / "console.log").write_text(console)
    assert diagnose_run(run)[0].id == "reward_function_error.nan"
