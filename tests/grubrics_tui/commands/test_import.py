"""``import`` prints what became of every key, and writes the config."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from engine.config.load import load_config
from grubrics_tui.cli import app
from tests.engine.translate.scripts import AFLOW, TINY_GRPO, call, write

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "run.sh", TINY_GRPO)


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["import", *words])


def test_it_prints_the_file_the_counts_and_the_next_command() -> None:
    done = run("run.sh")
    assert done.exit_code == 0, done.output
    *_, wrote, counts, following = done.stdout.splitlines()
    assert wrote == "wrote configs/run.yaml (GRPO)"
    assert counts == "30 keys translated, 1 added, 1 left out"
    assert following == "next: grubrics-tui check run"
    assert load_config("run").kind.name == "grpo"


def test_every_key_is_printed_with_its_line_or_its_reason() -> None:
    lines = run("run.sh").stdout.splitlines()
    assert "  10  algorithm.adv_estimator=grpo" in lines
    assert "   5  export WANDB_API_KEY: a secret: set WANDB_API_KEY in .env" in lines
    assert any("clip_grad=0.5  (from actor_rollout_ref.actor.grad_clip)" in line for line in lines)


def test_json_has_the_same_as_data() -> None:
    value = json.loads(run("run.sh", "--json").stdout)
    assert (value["translated"], value["added"], value["left_out"]) == (30, 1, 1)
    assert (value["config"], value["kind"], value["written"]) == ("configs/run.yaml", "grpo", True)
    row = next(row for row in value["keys"] if row["source"] == "trainer.nnodes")
    assert row["values"] == {"trainer.nnodes": 1} and row["note"] == "" and row["line"]


def test_a_dry_run_prints_the_config_and_writes_nothing() -> None:
    done = run("run.sh", "--dry-run")
    assert done.exit_code == 0
    assert "kind: grpo" in done.stdout and not Path("configs").exists()


def test_words_after_the_file_are_arguments_of_the_script() -> None:
    assert run("run.sh", "trainer.nnodes=3", "--out", "configs/three.yaml").exit_code == 0
    assert load_config("three").get("trainer.nnodes") == 3


def test_a_config_outside_of_configs_is_named_by_its_path() -> None:
    done = run("run.sh", "--out", "mine.yaml")
    assert done.stdout.splitlines()[-1] == "next: grubrics-tui check mine.yaml"


def test_a_config_of_aflow_is_imported_too() -> None:
    write(Path(), "training.yaml", AFLOW)
    done = run("training.yaml")
    assert done.exit_code == 0 and "wrote configs/training.yaml (GRPO)" in done.stdout


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("none.sh",), "none.sh is not a file"),
        (("run.sh", "--device", "tpu"), "--device tpu: choose cpu or cuda"),
        (("run.sh", "--out", "config.txt"), "ends with .yaml"),
        (("run.sh", "--line", "3"), "starts a trainer in line 14; choose it with --line"),
    ],
)
def test_bad_input_is_one_line(words: tuple[str, ...], problem: str) -> None:
    done = run(*words)
    assert problem in str(done.exception) and not Path("configs").exists()


def test_an_escape_sequence_of_a_script_does_not_reach_the_terminal() -> None:
    write(Path(), "evil.sh", call("trainer.project_name=$'a\\e[31mb'", "+x.$'\\e[2J'=1"))
    assert "\x1b" not in run("evil.sh", "--dry-run").stdout
