"""``grubrics-tui pipeline``: stages that are runs, one after the other."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine.run.processes import members, send
from engine.run.run import Run
from engine.run.state import observed_state, recorded_state
from tests.e2e.project import Project, copied
from tests.waiting import ended, wait_for

pytestmark = pytest.mark.waits

PROGRAM = """
name: small
stages:
  - run: sh -c "echo 1 >> one.txt"
    name: one
  - run: sh -c "{two}"
    name: two
  - run: sh -c "echo $one.run $two.run >> three.txt"
    name: three
"""
LONG = "echo up; sleep 600"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path)
    yield made
    for folder in sorted((tmp_path / "runs").glob("*")):
        made.run("stop", folder.name)


def write(project: Project, two: str = "echo 2 >> two.txt") -> None:
    (project.path / "small.yaml").write_text(PROGRAM.format(two=two))


def states(answer: Any) -> dict[str, str]:
    return {stage["name"]: stage["state"] for stage in answer["stages"]}


def run_dir(project: Project, name: str) -> Run:
    return Run(project.path / "runs" / name)


def wait_for_stage(project: Project, name: str) -> Run:
    """Wait until the stage's program runs."""
    run = run_dir(project, name)
    console = run.attempt(1).console
    wait_for(lambda: console.is_file() and "up" in console.read_text())
    return run


@pytest.mark.row("A01")
def test_stages_run_in_order_each_as_a_run(project: Project) -> None:
    write(project)
    answer = project.json("pipeline", "small.yaml", "--wait")
    assert states(answer) == dict.fromkeys(("one", "two", "three"), "finished")
    assert (project.path / "three.txt").read_text() == "small-one small-two\n"
    rows = {row["id"]: row for row in project.json("runs")["runs"]}
    assert set(rows) == {"small", "small-one", "small-two", "small-three"}
    assert (rows["small"]["kind"], rows["small"]["step"], rows["small"]["total_steps"]) == (
        "pipeline",
        3,
        3,
    )


@pytest.mark.row("A01")
def test_a_stage_that_fails_ends_the_pipeline_and_is_the_one_reported(project: Project) -> None:
    write(project, "python -c 'raise ValueError(chr(120))'")
    answer = project.json("pipeline", "small.yaml", "--wait", expect=(1,))
    assert states(answer) == {"one": "finished", "two": "failed", "three": "not launched"}
    failed = answer["stages"][1]
    assert failed["run"] == "small-two" and "ValueError: x" in failed["reason"]
    assert failed["finding"] and answer["from"] == "two"
    assert "stage 'two': run 'small-two' failed" in project.json("show", "small")["reason"]
    assert not (project.path / "three.txt").exists()
    write(project)
    again = project.json("pipeline", "small.yaml", "--from", "two", "--wait")
    assert states(again) == {"one": "skipped", "two": "finished", "three": "finished"}
    assert (project.path / "one.txt").read_text() == "1\n"
    assert (project.path / "three.txt").read_text() == "small-one small-2-two\n"
    assert project.json("pipeline", "small.yaml", "--status")["run"] == "small-2"


@pytest.mark.thorough
@pytest.mark.row("A02")
def test_a_skipped_stage_does_not_run(project: Project) -> None:
    write(project)
    (project.path / "small.yaml").write_text(PROGRAM.format(two="echo 2").replace("$two", "two"))
    answer = project.json("pipeline", "small.yaml", "--skip", "two", "--wait")
    assert states(answer) == {"one": "finished", "two": "skipped", "three": "finished"}


@pytest.mark.row("A02")
def test_a_dry_run_prints_every_command_and_starts_nothing(project: Project) -> None:
    write(project)
    printed = project.run("pipeline", "small.yaml", "--dry-run").stdout.splitlines()
    commands = [line for line in printed if line.startswith("$ grubrics-tui run --name small-")]
    assert len(commands) == 3 and "echo small-one small-two" in commands[2]
    assert not (project.path / "runs").exists()


@pytest.mark.thorough
def test_a_pipeline_is_continued_by_its_own_command_only(project: Project) -> None:
    write(project, "exit 3")
    project.json("pipeline", "small.yaml", "--wait", expect=(1,))
    for command in (("run", "--from"), ("resume",), ("launch", "--from")):
        refused = project.run(*command, "small")
        assert refused.returncode == 2 and "grubrics-tui" in refused.stderr
    assert "is a pipeline" in project.run("run", "--from", "small").stderr
    assert "small.yaml --from STAGE" in project.run("resume", "small").stderr
    finding = project.json("diagnose", "small", expect=(1,))["findings"][0]
    assert finding["id"] == "training_setup_error.stage"


def test_a_stop_ends_the_running_stage_and_what_follows_does_not_start(project: Project) -> None:
    write(project, LONG)
    project.json("pipeline", "small.yaml")
    stage = wait_for_stage(project, "small-two")
    assert project.json("pipeline", "small.yaml", "--status")["state"] == "running"
    stopped = project.json("stop", "small")
    assert stopped["reason"] == "stopped by user at step 1 of 3"
    assert observed_state(stage).word == "stopped" and not members(stage)
    assert not run_dir(project, "small-three").manifest_file.exists()


@pytest.mark.thorough
def test_a_stage_that_a_person_stops_ends_the_pipeline(project: Project) -> None:
    write(project, LONG)
    project.json("pipeline", "small.yaml")
    wait_for_stage(project, "small-two")
    project.json("stop", "small-two")
    state = ended(run_dir(project, "small"))
    assert state.state == "failed" and "run 'small-two' was stopped by user" in (state.reason or "")


def test_without_its_supervisor_a_pipeline_is_lost_and_its_stage_goes_on(project: Project) -> None:
    write(project, LONG)
    project.json("pipeline", "small.yaml")
    stage = wait_for_stage(project, "small-two")
    state = recorded_state(run_dir(project, "small"))
    assert state is not None and state.supervisor is not None and state.trainer is not None
    runner = psutil.Process(state.trainer.pid)
    send(state.supervisor, signal.SIGKILL)
    psutil.wait_procs([runner])
    answer = project.json("pipeline", "small.yaml", "--status", expect=(1,))
    assert (answer["state"], states(answer)["two"]) == ("lost", "running")
    refused = project.run("pipeline", "small.yaml", "--from", "three")
    told = "stage 'two' of pipeline 'small' is still running: run 'small-two'. Stop it first"
    assert refused.returncode == 2 and told in refused.stderr
    assert answer["from"] is None
    assert project.json("stop", stage.id)["state"] == "stopped"


def test_a_second_start_is_refused_while_the_first_runs(project: Project) -> None:
    write(project, LONG)
    project.json("pipeline", "small.yaml")
    refused = project.run("pipeline", "small.yaml")
    assert refused.returncode == 2 and "is still running: run 'small'" in refused.stderr


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        ("grpo: grpo_tiny trainer.total_steps=1", "unknown key 'trainer.total_steps'"),
        ("grpo: sft_tiny", "is a config of kind 'sft'"),
        ("sft: sft_tny", "did you mean 'sft_tiny'?"),
        ("sft: sft_tiny --name x", "--name is not for a stage"),
        ("sft: sft_tiny --divice cpu", "did you mean '--device'?"),
        ("prepare: x.csv --tsak questions", "did you mean '--task'?"),
        ("evaluate: x --samples many", "evaluate: --samples: 'many'"),
        ("download: a/b --too x", "did you mean '--to'?"),
        ("run: no-such-program", "'no-such-program': no such program"),
        ("grpo: grpo_tiny train_batch_size=3", "batch: "),
    ],
)
def test_a_stage_that_its_command_would_refuse_starts_nothing(
    stage: str, expected: str, project: Project
) -> None:
    shutil.copytree(Path(__file__).parents[2] / "configs", project.path / "configs")
    kind, _, words = stage.partition(": ")
    text = json.dumps({"stages": [{"run": "true", "name": "first"}, {kind: words}]})
    (project.path / "wrong.yaml").write_text(text)
    refused = project.run("pipeline", "wrong.yaml")
    assert refused.returncode == 2, refused.stdout
    assert expected in refused.stderr and refused.stderr.count("\n") == 1
    assert not (project.path / "runs").exists()


TINY = """
name: tiny
stages:
  - prepare: sums.jsonl --task questions --out data/sums
  - sft: sft_tiny max_steps=2 output_dir=checkpoints/warm-up
  - grpo: >-
      grpo_tiny model.path=$sft.model trainer.total_training_steps=1 test_freq=-1
      val_before_train=false max_response_length=8
      data.train_files=data/sums/train.parquet data.val_files=data/sums/val.parquet
      reward.custom_reward_function.path=task://questions
  - evaluate: $sft.run $grpo.run --config $grpo.run --data data/sums/val.parquet --limit 2
"""


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.row("A01")
def test_prepare_sft_grpo_from_its_model_and_evaluate(
    pristine_world: Project, tmp_path: Path
) -> None:
    project = copied(pristine_world, tmp_path / "project")
    (project.path / "tiny.yaml").write_text(TINY)
    records = [{"question": f"What is {n} + 1?", "answer": str(n + 1)} for n in range(60)]
    (project.path / "sums.jsonl").write_text("\n".join(map(json.dumps, records)))
    answer = project.json("pipeline", "tiny.yaml", "--wait")
    assert states(answer) == dict.fromkeys(("prepare", "sft", "grpo", "evaluate"), "finished")
    manifest = run_dir(project, "tiny-grpo").read_full_manifest()
    model = manifest.value("actor_rollout_ref.model.path")
    assert model == "checkpoints/warm-up/final"
    assert list(manifest.data) == ["data/sums/train.parquet", "data/sums/val.parquet"]
    printed = run_dir(project, "tiny-evaluate").attempt(1).console.read_text()
    assert "tiny-sft" in printed and "tiny-grpo" in printed
