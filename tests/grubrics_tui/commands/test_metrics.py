"""``metrics`` prints what there is, and says why a known metric is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.run.state import RunState, write_state
from grubrics_tui.cli import app
from tests.engine.logs.formats.samples import verl_line, write
from tests.grubrics_tui.sample_run import SampleRun


@pytest.fixture
def log(tmp_path: Path) -> str:
    lines = [verl_line(step, {"actor/pg_loss": step / 2, "actor/lr": 0.5}) for step in (1, 2)]
    return str(write(tmp_path / "night.log", *lines))


@pytest.mark.row("V27")
def test_a_metric_that_no_step_has_is_named_beside_the_values_of_the_others(log: str) -> None:
    done = CliRunner().invoke(app, ["metrics", log, "train/value_loss", "train/policy_loss"])
    assert done.exit_code == 0
    assert done.stdout == "train/policy_loss\t1\t0.5\ntrain/policy_loss\t2\t1.0\n"
    assert done.stderr.startswith("train/value_loss") and "n/a: only a critic" in done.stderr


@pytest.mark.row("V27")
def test_as_json_the_reason_stands_beside_the_series(log: str) -> None:
    words = ["metrics", log, "train/kl_loss", "train/learning_rate", "--json"]
    answer = json.loads(CliRunner().invoke(app, words).stdout)
    assert answer["series"] == {"train/learning_rate": [[1, 0.5], [2, 0.5]]}
    assert "use_kl_loss=true" in answer["unavailable"]["train/kl_loss"]


@pytest.mark.row("V26")
def test_every_metric_of_a_dashboard_of_sft_has_values_or_a_reason(tmp_path: Path) -> None:
    logged = {"train/loss": 2.5, "train/lr": 0.5, "perf/throughput": 90.0}
    log = str(write(tmp_path / "night.log", verl_line(1, logged)))
    names = [
        *("train/loss", "train/learning_rate", "val/loss", "train/epoch", "train/global_step"),
        *("train/throughput", "system/gpu_utilization", "system/memory_usage"),
    ]
    answer = json.loads(CliRunner().invoke(app, ["metrics", log, *names, "--json"]).stdout)
    assert {*answer["series"]} == {"train/loss", "train/learning_rate"}
    assert {*answer["unavailable"]} == {*names} - {*answer["series"]}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.30000000000000004, "0.3"),
        (0.12345678901234, "0.123457"),
        (1.2345678901e-7, "1.23457e-07"),
        (1234567.8901, "1234567.9"),
        (3.0, "3.0"),
        (123456789.0, "123456789.0"),
    ],
)
def test_values_are_short_as_text_and_complete_as_json(
    tmp_path: Path, value: float, text: str
) -> None:
    log = str(write(tmp_path / "log", verl_line(1, {"actor/lr": value})))
    assert CliRunner().invoke(app, ["metrics", log, "actor/lr"]).stdout == f"actor/lr\t1\t{text}\n"
    answer = json.loads(CliRunner().invoke(app, ["metrics", log, "actor/lr", "--json"]).stdout)
    assert answer["series"] == {"actor/lr": [[1, value]]}


def test_of_several_logs_each_has_its_own_answer(log: str) -> None:
    answer = json.loads(CliRunner().invoke(app, ["metrics", log, log + "", "--json"]).stdout)
    assert answer["sources"][log] == {"names": ["actor/lr", "actor/pg_loss"]}


def test_a_run_without_steps_is_named_with_its_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = SampleRun.create(Path("runs"), "empty").run
    write_state(run, RunState("failed", reason="exit code 1", started=1.0, ended=2.0))
    refused = CliRunner().invoke(app, ["metrics", "empty", "reward/mean"])
    assert str(refused.exception) == "empty: no step was logged (failed: exit code 1)"
    listed = CliRunner().invoke(app, ["metrics", "empty"])
    assert (listed.exit_code, listed.stdout) == (0, "")
    assert "empty: no step was logged (failed: exit code 1)" in listed.stderr
