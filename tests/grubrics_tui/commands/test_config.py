"""The command that prints values with their origins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.base import jsonl
from engine.config.frozen import pinned_config
from engine.config.load import load_config
from engine.launch.launcher import manifest, plan
from engine.run.run import Run
from grubrics_tui.cli import app
from tests.engine.logs.formats.samples import message, wandb_log
from tests.paths import CONFIGS

pytestmark = pytest.mark.long

TINY = str(CONFIGS / "grpo_tiny.yaml")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JUDGE_MODEL", "RUBRIC_JUDGE_MODEL", "REWARD_LAMBDA_INFO"):
        monkeypatch.delenv(name, raising=False)


def told(*arguments: str, runs: Path, expect: int = 0) -> str:
    done = CliRunner().invoke(app, ["config", *arguments, "--runs", str(runs)])
    assert done.exit_code == expect, done.output
    return done.stdout


@pytest.mark.row("H03")
def test_every_value_is_printed_with_its_origin(tmp_path: Path) -> None:
    lines = told(TINY, "data.seed=7", runs=tmp_path).splitlines()
    words = {key: origin for origin, key in (line.split(maxsplit=1) for line in lines)}
    assert words["data.seed=7"] == "cli"
    assert words["trainer.device=cpu"] == "implied"
    assert words["grubrics.device=cpu"] == "file"
    assert words["algorithm.gamma=1.0"] == "default"


def test_one_origin_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REWARD_LAMBDA_INFO", "0.5")
    text = told(TINY, "--origin", "environment", runs=tmp_path)
    assert text.split() == ["environment", "reward_config.lambda_info=0.5"]


def test_a_value_without_effect_is_shown_with_reason_and_alternative(tmp_path: Path) -> None:
    override = "actor_rollout_ref.actor.kl_loss_coef=0.1"
    found = json.loads(told(TINY, override, "--unused", "--json", runs=tmp_path))["unused"]
    assert [(one["key"], one["value"], one["origin"]) for one in found] == [
        ("actor_rollout_ref.actor.kl_loss_coef", 0.1, "cli")
    ]
    assert found[0]["instead"] == "actor_rollout_ref.actor.use_kl_loss=true"
    assert told(TINY, "--unused", runs=tmp_path) == "all values that are set have an effect\n"


def test_a_run_tells_what_it_was_launched_with(tmp_path: Path) -> None:
    config = load_config(TINY, ["data.seed=7", "actor_rollout_ref.actor.grad_clip=0.5"], {})
    contents = manifest(plan(config, "try", tmp_path))
    run = Run(tmp_path / "try")
    run.path.mkdir()
    run.write_manifest(contents)
    run.config_file.write_text(pinned_config(contents.config))
    values = json.loads(told("try", "--json", runs=tmp_path))["values"]
    read = jsonl.read_json(run.settings_file)
    assert read is not None and values == read["config"]
    assert told("try", "--unused", runs=tmp_path).startswith("cli ")


def test_changed_values_are_printed_with_those_of_the_file(tmp_path: Path) -> None:
    text = told(TINY, "data.seed=7", "grubrics.device=cpu", "--changed", runs=tmp_path)
    assert text == "cli         data.seed=7  (file: 1)\n"
    values = json.loads(told(TINY, "data.seed=7", "--changed", "--json", runs=tmp_path))["values"]
    assert values == {"data.seed": {"value": 7, "origin": "cli", "in_file": 1}}
    assert told(TINY, "--changed", runs=tmp_path) == "all values are those of the file\n"


def test_of_a_run_of_a_command_the_command_is_printed(tmp_path: Path) -> None:
    run = Run(tmp_path / "loop")
    run.path.mkdir()
    argv = ["sh", "-c", "exit 1"]
    jsonl.write_json(
        run.manifest_file, {"id": "loop", "kind": "command", "argv": argv, "cwd": "/tmp"}
    )
    lines = told("loop", runs=tmp_path).splitlines()
    assert lines[0].split(maxsplit=1) == ["-", "command=sh -c 'exit 1'"]
    assert json.loads(told("loop", "--json", runs=tmp_path))["kind"] == "command"


def test_of_a_log_the_values_that_it_holds_are_printed(tmp_path: Path) -> None:
    log = tmp_path / "run-abc.wandb"
    setting = message((1, message((1, "max_steps"), (16, "40"))))
    log.write_bytes(wandb_log([message((17, message((1, "abc"), (4, setting))))]))
    assert told(str(log), runs=tmp_path).split() == ["-", "max_steps=40"]


@pytest.mark.parametrize(
    "arguments", [("nothing",), (TINY, "--origin", "elsewhere"), (TINY, "nothing=1")]
)
def test_what_cannot_be_read_is_one_line(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, ["config", *arguments, "--runs", str(tmp_path)])
    assert type(done.exception).__name__ == "UsageError"


def test_explain_prints_what_a_key_means_and_takes(tmp_path: Path) -> None:
    lines = told(TINY, "--explain", "optim.lr_warmup_steps_ratio", runs=tmp_path).splitlines()
    assert lines[0].endswith("actor.optim.lr_warmup_steps_ratio=0.0")
    assert [line.split(maxsplit=1) for line in lines[1:3]] == [
        ["accepts", "at least 0 and at most 1"],
        ["meaning", "Warmup steps ratio (used if lr_warmup_steps is 0 or negative)"],
    ]


def test_a_key_that_nobody_described_is_explained_as_such(tmp_path: Path) -> None:
    key = "actor_rollout_ref.model.mtp.method"
    assert "meaning  no description" in told(TINY, "--explain", key, runs=tmp_path)
    printed = json.loads(told(TINY, "--explain", key, "--json", runs=tmp_path))
    assert printed["values"][key]["meaning"] == ""


def test_explain_says_when_nothing_matches(tmp_path: Path) -> None:
    assert told(TINY, "--explain", "no-such", runs=tmp_path) == (
        "no key or value contains 'no-such'\n"
    )
