"""A run that was made from another one says what became of that one's trouble."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine.base import jsonl
from engine.doctor.live import RunFollower
from engine.launch.lineage import Lineage
from engine.run.run import Run
from engine.run.state import RunState, StateName, write_state
from engine.run.trust import vouch

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
KEY = "openai.AuthenticationError: Error code: 401 - Incorrect API key provided\n"
UNHEALTHY = "step:7 - critic/score/mean:0.5\n" + OOM


def make(
    root: Path,
    name: str,
    console: str,
    state: StateName = "failed",
    step: int = 7,
    parent: dict[str, str] | None = None,
) -> Run:
    run = Run(root / name)
    run.attempt(1).path.mkdir(parents=True)
    manifest = {"v": 1, "kind": "grpo", "attempts": [{"number": 1}], "parent": parent}
    jsonl.write_json(run.manifest_file, manifest)
    vouch(run)
    run.attempt(1).console.write_text(console)
    write_state(run, RunState(state, step=step, ended=2e9, heartbeat=2e9))
    return run


def described(run: Run) -> str:
    return Lineage(run).describe(*RunFollower(run).diagnose())


def derived(root: Path, console: str = "", relation: str = "fix", **more: object) -> Run:
    make(root, "unhealthy", UNHEALTHY)
    parent = {"run": "unhealthy", "relation": relation}
    return make(root, "derived", console, parent=parent, **more)  # type: ignore[arg-type]


def test_a_run_without_a_parent_has_no_sentence(tmp_path: Path) -> None:
    assert described(make(tmp_path, "alone", OOM)) == ""


def test_a_fix_helped_when_the_trouble_is_gone_further_on(tmp_path: Path) -> None:
    run = derived(tmp_path, state="finished", step=20)
    assert described(run) == "fix of unhealthy: it helped: cuda_oom_training is gone at step 20"


def test_the_verdict_names_new_alerts(tmp_path: Path) -> None:
    text = described(derived(tmp_path, KEY, step=20))
    assert text.endswith("is gone at step 20, but now there is judge_auth")


def test_a_fix_did_not_help_when_the_trouble_is_there_again(tmp_path: Path) -> None:
    assert "it did not help: cuda_oom_training occurred again" in described(
        derived(tmp_path, UNHEALTHY)
    )


def test_before_the_onset_step_there_is_no_verdict(tmp_path: Path) -> None:
    text = described(derived(tmp_path, step=3))
    assert text == "fix of unhealthy: it is too early to say (step 3; cuda_oom_training came at 7)"


def test_a_repro_that_fails_as_its_run_did_accuses_the_infrastructure(tmp_path: Path) -> None:
    text = described(derived(tmp_path, UNHEALTHY, "reproduction"))
    assert text.startswith("repro of unhealthy: ") and "infrastructure" in text


def test_a_run_that_was_launched_again_names_the_first_one_without_a_verdict(
    tmp_path: Path,
) -> None:
    assert described(derived(tmp_path, relation="relaunch")) == "relaunch of unhealthy"


def test_a_parent_that_was_deleted_is_named(tmp_path: Path) -> None:
    run = derived(tmp_path)
    lineage, looked = Lineage(run), RunFollower(run).diagnose()
    shutil.rmtree(tmp_path / "unhealthy")
    assert lineage.describe(*looked) == "fix of unhealthy, which no longer exists"
    assert described(run) == "fix of unhealthy, which no longer exists"


@pytest.mark.parametrize("name", ["../unhealthy", "derived", "no such", "a" * 300])
def test_an_impossible_parent_id_counts_as_a_missing_run(tmp_path: Path, name: str) -> None:
    run = make(tmp_path, "derived", "", parent={"run": name, "relation": "fix"})
    assert described(run).endswith("which no longer exists")
