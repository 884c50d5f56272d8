"""The configuration of a run as its files hold it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.logs.formats.external_run import open_external
from engine.report.run_config import RunConfig, read_run_config
from engine.run.run import Run
from tests.engine.logs.formats.samples import message, wandb_log


def read(folder: Path, **manifest: Any) -> RunConfig:
    run = Run(folder / "try")
    run.path.mkdir()
    jsonl.write_json(run.manifest_file, {"v": 1, "id": "try", "kind": "grpo", **manifest})
    return read_run_config(run)


def entry(value: object, origin: str = "file") -> dict[str, object]:
    return {"value": value, "origin": origin}


def test_an_override_is_changed_if_it_differs_from_the_file(tmp_path: Path) -> None:
    config = {"a.lr": entry(0.1, "cli"), "a.n": entry(8, "cli"), "b": entry(1, "default")}
    changes = [
        {"key": "a.lr", "before": 0.2, "after": 0.1, "origin": "cli"},
        {"key": "a.n", "before": 8, "after": 8, "origin": "cli"},
    ]
    read_config = read(tmp_path, config=config, changes=changes)
    assert [(value.key, value.in_file) for value in read_config.changed] == [("a.lr", 0.2)]
    assert [value.key for value in read_config.values] == ["a.lr", "a.n", "b"]


def test_a_derived_run_is_compared_with_the_file_of_the_first_one(tmp_path: Path) -> None:
    config = {"lr": entry(0.1, "file")}
    (changed,) = read(tmp_path, config=config, changes=[], in_file={"lr": 0.4}).changed
    assert (changed.in_file, changed.value) == (0.4, 0.1)


def test_a_value_that_is_named_like_a_secret_is_masked(tmp_path: Path) -> None:
    secret = "hunter2hunter2hunter2"
    config = {"judge.api_key": entry(secret), "note": entry("plain")}
    masked, plain = read(tmp_path, config=config).values
    assert secret not in masked.text and plain.text == "plain"


def test_a_value_can_be_given_to_a_command(tmp_path: Path) -> None:
    (value,) = read(tmp_path, config={"data.files": entry(["a b", None, True])}).values
    assert value.override == "'data.files=[a b, null, true]'"


def test_a_run_of_a_command_has_its_command_folder_and_metrics(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        kind="command",
        argv=["sh", "-c", "if a\nthen\n  b"],
        cwd="/tmp",
        variables={"CUDA_VISIBLE_DEVICES": "0"},
        metrics="out/*.jsonl",
    )
    assert config.is_command
    assert {value.key: value.text for value in config.values} == {
        "command": r"sh -c $'if a\nthen\n \040b'",
        "folder": "/tmp",
        "environment": "CUDA_VISIBLE_DEVICES=0",
        "metrics": "out/*.jsonl",
    }


def test_without_a_manifest_there_are_no_values(tmp_path: Path) -> None:
    assert read_run_config(Run(tmp_path)).values == ()


def test_an_offline_wandb_run_has_the_values_that_its_program_gave(tmp_path: Path) -> None:
    model = message((1, message((2, "model"), (2, "path"), (16, '"qwen"'))))
    steps = message((1, message((1, "max_steps"), (16, "40"))))
    log = tmp_path / "run-abc.wandb"
    log.write_bytes(
        wandb_log([message((17, message((1, "abc"), (4, each)))) for each in (steps, model)])
    )
    values = read_run_config(open_external(log)).values
    assert [(value.key, value.value) for value in values] == [
        ("max_steps", 40),
        ("model.path", "qwen"),
    ]
