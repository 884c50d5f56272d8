"""Evaluations through the command line, with the tiny SFT model."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from engine.base import jsonl
from tests.e2e.conftest import SFT_STEPS
from tests.e2e.guide import guide_commands
from tests.e2e.moody_judge import Call, honest, moody_judge
from tests.e2e.project import CLI, Project
from tests.engine.data.benchmark_records import write_records
from tests.engine.reward.judge.server import Reply
from tests.waiting import TRAINING_PATIENCE_S, wait_for

pytestmark = pytest.mark.slow

MODEL = "checkpoints/grubrics-transfer/sft-tiny/final"
CHECKPOINT = f"checkpoints/grubrics-transfer/sft-tiny/global_step_{SFT_STEPS}"


@pytest.fixture(scope="module")
def project(tiny_world: Project, trained_sft: dict[str, Any]) -> Project:
    assert trained_sft["state"] == "finished", trained_sft
    return tiny_world


@pytest.fixture(scope="module")
def both(project: Project) -> dict[str, Any]:
    """The SFT model and the checkpoint that it was exported from."""
    before = hashes(project.path / "checkpoints")
    answer: dict[str, Any] = project.json(
        "evaluate", CHECKPOINT, "--baseline", f"{MODEL},golden", "--config", "grpo_tiny"
    )
    assert hashes(project.path / "checkpoints") == before
    return answer


def hashes(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def answers(project: Project, evaluation: Path) -> list[dict[str, Any]]:
    return [
        line
        for file in sorted((project.path / evaluation).glob("*/answers.jsonl"))
        for line in jsonl.read(file)
    ]


def test_a_checkpoint_answers_as_the_model_exported_from_it(both: dict[str, Any]) -> None:
    pair = next(p for p in both["comparisons"] if p["a"] == MODEL and p["metric"] == "reward")
    assert (pair["verdict"], pair["difference"]) == ("identical", 0.0)


def test_the_golden_rubric_is_better_than_the_model(both: dict[str, Any]) -> None:
    pair = next(p for p in both["comparisons"] if p["a"] == "golden" and p["metric"] == "alignment")
    assert pair["verdict"] == "worse"


def test_every_answer_is_a_line_that_says_what_it_answers(
    project: Project, both: dict[str, Any]
) -> None:
    lines = answers(project, Path(both["dir"]))
    assert len(lines) == 3 * both["results"][0]["n"]
    assert all(line["uid"] and line["prompt_sha256"] and line["item_sha256"] for line in lines)


@pytest.mark.row("H34")
def test_an_evaluation_names_the_weights_and_the_sampling(
    project: Project, both: dict[str, Any]
) -> None:
    folder = project.path / both["dir"]
    targets = [jsonl.read_json(file) or {} for file in folder.glob("*/target.json")]
    assert {target["name"] for target in targets} == {MODEL, CHECKPOINT, "golden"}
    assert all(re.fullmatch(r"[0-9a-f]{64}", target["sha256"]) for target in targets)
    setup = jsonl.read_json(folder / "setup.json") or {}
    sampling = setup["sampling"]
    assert (sampling["samples"], sampling["temperature"], sampling["seed"]) == (1, 0.0, 1)


def test_started_again_it_generates_nothing_and_says_the_same(
    project: Project, both: dict[str, Any]
) -> None:
    files = sorted((project.path / both["dir"]).glob("*/*.jsonl"))
    before = [path.read_bytes() for path in files]
    log = project.path / both["dir"] / "generate.log"
    size = log.stat().st_size
    again = project.json(
        "evaluate", CHECKPOINT, "--baseline", f"{MODEL},golden", "--config", "grpo_tiny"
    )
    assert again == both
    assert [path.read_bytes() for path in files] == before
    assert log.stat().st_size == size


@pytest.mark.thorough
def test_killed_and_started_again_it_generates_no_answer_twice(project: Project) -> None:
    arguments = ["evaluate", MODEL, "--config", "grpo_tiny", "--samples", "2"]
    process = subprocess.Popen(
        [*CLI, *arguments],
        cwd=project.path,
        env={**os.environ, **project.env},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def evaluation() -> Path | None:
        folders = (path.parent for path in project.path.glob("evaluations/*/setup.json"))
        return next(
            (f for f in folders if jsonl.read_json(f / "setup.json") and is_sampled(f)), None
        )

    wait_for(lambda: bool((f := evaluation()) and answers(project, f)), TRAINING_PATIENCE_S)
    process.send_signal(signal.SIGKILL)
    process.wait()
    again = project.json(*arguments)
    lines = answers(project, Path(again["dir"]))
    assert len({(line["uid"], line["sample"]) for line in lines}) == len(lines)
    assert len(lines) == again["results"][0]["n"]


def is_sampled(folder: Path) -> bool:
    setup = jsonl.read_json(folder / "setup.json") or {}
    return bool(setup["sampling"]["samples"] == 2)


def test_a_torn_checkpoint_is_refused_and_named(project: Project) -> None:
    torn = project.path / "torn" / f"global_step_{SFT_STEPS}"
    torn.mkdir(parents=True)
    (torn / "huggingface").mkdir()
    result = project.run("evaluate", str(torn), "--config", "grpo_tiny")
    assert result.returncode == 2
    assert "incomplete" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_an_unknown_target_is_one_line(project: Project) -> None:
    result = project.run("evaluate", "nothing", "--config", "grpo_tiny")
    assert result.returncode == 2
    assert result.stderr.startswith("error: target 'nothing'")


@pytest.fixture(scope="module")
def held_out(project: Project) -> Path:
    """Ten conversations, in the file that the guide names."""
    lines = (project.path / "data/tiny/sft/train.jsonl").read_text().splitlines()
    path = project.path / "held_out.jsonl"
    path.write_text("\n".join(lines[:10]))
    return path


@pytest.mark.thorough
def test_with_an_sft_config_the_loss_is_measured(project: Project, held_out: Path) -> None:
    """The command of the guide; SFT_RUN is the model that the run wrote."""
    [command] = [line for line in guide_commands("evaluate") if "SFT_RUN" in line]
    arguments = [MODEL if word == "SFT_RUN" else word for word in command]
    arguments += ["--config", "sft_tiny"]
    answer = project.json(*arguments)
    assert answer["evaluation"].startswith(held_out.stem)
    [pair] = answer["comparisons"]
    assert (pair["metric"], pair["verdict"], pair["n"]) == ("loss", "better", 10)
    losses = {r["target"]: r["mean"] for r in answer["results"] if r["metric"] == "loss"}
    assert losses["base"] > 5
    assert losses[MODEL] < 0.5
    log = project.path / answer["dir"] / "generate.log"
    size = log.stat().st_size
    assert project.json(*arguments) == answer
    assert log.stat().st_size == size


@pytest.mark.thorough
def test_the_judges_model_is_a_baseline_that_survives_a_kill(project: Project) -> None:
    """Its answers are rubrics that the same model then grades with."""

    def writing(call: Call) -> Reply:
        if "--- Rubric ---" in call.request["messages"][-1]["content"]:
            return honest(call)
        return Reply(content="Points: 10, Item: Names the cause", delay_s=0.1)

    def writes() -> list[str]:
        asked = [str(request["messages"]) for request in server.requests]
        return [messages for messages in asked if "--- Rubric ---" not in messages]

    with moody_judge(writing) as server:
        config = project.path / "configs" / "with_api.yaml"
        source = (project.path / "configs" / "grpo_tiny.yaml").read_text()
        assert "provider: offline" in source
        at = f"provider: openai\n  base_url: {server.url}/v1"
        config.write_text(source.replace("provider: offline", at))
        key = {"OPENAI_API_KEY": "sk-test-0123456789abcdef"}
        arguments = ["evaluate", MODEL, "--baseline", "judge", "--config", "with_api"]
        process = subprocess.Popen(
            [*CLI, *arguments],
            cwd=project.path,
            env={**os.environ, **project.env, **key},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(lambda: len(writes()) > 20, TRAINING_PATIENCE_S)
        process.send_signal(signal.SIGKILL)
        process.wait()
        done = project.run(*arguments, "--json", env=key)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
    judge = answer["judge"]
    assert judge["answers"] == answer["results"][0]["n"] == 64
    # A call that the kill cut off has no line, so it is the only kind that may be repeated.
    assert 64 <= len(writes()) <= 64 + 10
    assert {pair["a"] for pair in answer["comparisons"]} == {"judge"}


@pytest.mark.row("A16", "H25")
def test_benchmarks_are_measured_one_after_the_other_and_shown_together(project: Project) -> None:
    """Each has the scorer of its own task; the config's judge scores neither."""
    for name in ("gsm8k", "squad_v2"):
        write_records(project.path, name)
        project.json("prepare", f"{name}.jsonl", "--benchmark", name)
    files = [f"--data=data/benchmarks/{name}.parquet" for name in ("gsm8k", "squad_v2")]
    arguments = ("evaluate", MODEL, *files, "--samples", "2", "--config", "grpo_tiny")
    evaluations = project.json(*arguments)["evaluations"]
    results = [{r["metric"]: r for r in evaluation["results"]} for evaluation in evaluations]
    counts = [(r["reward"]["n"], r["reward"]["unscored"]) for r in results]
    assert counts == [(2, 0), (4, 0)]
    at_k = ["reward", "best@2", "pass@2"]
    assert [{*r} for r in results] == [{*at_k}, {*at_k, "f1"}]
    table = project.run(*arguments).stdout.splitlines()[-3:]
    assert [row.split()[0] for row in table] == ["data", "gsm8k", "squad_v2"]
