"""The repro of a run trains the rows in question, under a name and in a folder of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.base import files, jsonl
from engine.base.errors import UsageError
from engine.checks.preflight import require_launchable
from engine.config.frozen import pinned_config
from engine.data.contract import read_rows
from engine.launch.launcher import manifest, plan
from engine.launch.repro import launch_repro, plan_repro, write_rows
from engine.launch.rescore import pick_step
from engine.run.finding import Change, Evidence, Finding, Fix, Severity
from engine.run.manifest import Parent
from engine.run.run import Run
from engine.run.state import RunState, write_state
from engine.run.trust import vouch
from tests.engine.checks.project import QWEN2, Project, make_project

pytestmark = pytest.mark.long


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    made = make_project(tmp_path)
    (tmp_path / "models/base/config.json").write_text(json.dumps(QWEN2))
    return made


def record(step: int, question: str, error: str | None = None) -> dict[str, Any]:
    return {
        "v": 1, "t": 1.0, "split": "train", "step": step, "group": f"g{question}", "rollout": 0,
        "question_id": question, "reward": None if error else 0.5,
        "error": {"kind": error, "message": "no"} if error else None,
    }  # fmt: skip


def launched(
    project: Project, *records: dict[str, Any], state: str = "failed", values: Sequence[str] = ()
) -> Run:
    """A run that ended, with what it was launched with and what its rewards were."""
    run = Run(project.root / "runs" / "unhealthy")
    run.attempt(1).path.mkdir(parents=True)
    contents = manifest(plan(project.config("grpo", *values), "other", project.root / "runs"))
    run.write_manifest(contents)
    files.write_atomic(run.config_file, pinned_config(contents.config))
    vouch(run)
    for one in records:
        jsonl.append(run.attempt(1).reward, one)
    write_state(run, RunState(state, ended=2e9))  # type: ignore[arg-type]
    return run


def test_the_rows_are_those_of_the_first_step_with_a_failed_reward(project: Project) -> None:
    run = launched(project, record(1, "q1"), record(2, "q2"), record(2, "q3", "timeout"))
    result = pick_step(run)
    assert result is not None
    assert (result.step, result.questions) == (2, ("q3", "q2"))
    assert "failed rewards (1)" in result.why


def test_the_rows_of_a_step_that_was_never_logged_are_those_it_failed_in(project: Project) -> None:
    run = launched(project, record(1, "q1"), record(2, "q2"))
    jsonl.append(run.train_log, {"v": 1, "step": 1, "attempt": 1, "t": 1.0, "metrics": {}})
    result = pick_step(run)
    assert result is not None and result.step == 2


def test_where_nothing_failed_they_are_those_of_the_first_step(project: Project) -> None:
    result = pick_step(launched(project, record(3, "q1"), record(4, "q2"), state="finished"))
    assert result is not None and result.step == 3


def test_the_rows_may_be_those_of_another_step(project: Project) -> None:
    run = launched(project, record(1, "q1"), record(2, "q2", "timeout"))
    assert plan_repro(run, {}, step=1).rows == pick_step(run, 1)
    with pytest.raises(UsageError, match=r"step 7 has no recorded rewards\. Nearest step: 2"):
        plan_repro(run, {}, step=7)


def test_a_run_without_rewards_has_the_rows_of_its_file(project: Project) -> None:
    repro = plan_repro(launched(project), {})
    assert repro.rows is None
    assert repro.config.get("data.train_files") == "data/train.parquet"


def test_planning_a_repro_writes_nothing(project: Project) -> None:
    run = launched(project, record(1, "q1"))
    before = sorted(project.root.rglob("*"))
    plan_repro(run, {})
    assert sorted(project.root.rglob("*")) == before


def test_a_prepared_repro_trains_exactly_these_rows_and_can_be_launched(project: Project) -> None:
    repro = plan_repro(launched(project, record(1, "q1"), record(1, "q5")), {})
    write_rows(repro)
    assert repro.file is not None and repro.plan.total_steps == 5
    names = [row["extra_info"]["question_id"] for row in read_rows(repro.file)]
    assert names == ["q1", "q5"]
    assert repro.config.get("data.train_batch_size") == 2
    require_launchable(repro.config, project.root / "runs", env={})


@pytest.mark.parametrize("known_by", ["index", "ground_truth"])
def test_rows_of_a_file_of_another_program_are_found_and_kept_as_they_are(
    project: Project, known_by: str
) -> None:
    rows = [
        {
            "prompt": [{"role": "user", "content": f"What is {number} + 1?"}],
            "reward_model": {"ground_truth": f"truth {number}", "style": "rule"},
            "extra_info": {"index": number if known_by == "index" else None, "shop": f"s{number}"},
        }
        for number in range(30)
    ]
    pq.write_table(pa.Table.from_pylist(rows), project.root / "data/train.parquet")
    failed = record(6, "17" if known_by == "index" else "", "other")
    run = launched(project, record(6, "3"), {**failed, "ground_truth": "truth 17"})
    repro = plan_repro(run, {})
    write_rows(repro)
    assert repro.file is not None and repro.left_out == ""
    assert read_rows(repro.file)[0] == rows[17]


def test_every_row_that_failed_is_reached(project: Project) -> None:
    many = [record(1, f"q{number}") for number in range(8)]
    repro = plan_repro(launched(project, *many, record(1, "q9", "other")), {})
    write_rows(repro)
    assert repro.file is not None
    names = [row["extra_info"]["question_id"] for row in read_rows(repro.file)]
    assert names[0] == "q9" and len(names) <= 20


@pytest.mark.parametrize(
    "overrides",
    [
        ["data.custom_cls.path=own.py", "data.custom_cls.name=Rows"],
        ["data.train_files=data/gone.parquet"],
    ],
)
def test_failing_rows_that_cannot_be_used_are_named(project: Project, overrides: list[str]) -> None:
    (project.root / "own.py").write_text(
        "from torch.utils.data import Dataset\n\n\n"
        "class Rows(Dataset):\n    def __init__(self, **_): ...\n    def __len__(self): return 8\n"
    )
    run = launched(project, record(1, "q1"), record(2, "q2", "timeout"), values=overrides)
    repro = plan_repro(run, {})
    assert repro.rows is None and "step 2" in repro.left_out


def test_a_repro_that_is_refused_leaves_nothing_behind(project: Project) -> None:
    repro = plan_repro(launched(project, record(1, "q1")), {})
    (project.root / "models/base/config.json").unlink()
    with pytest.raises(UsageError):
        launch_repro(repro)
    assert repro.file is not None and not repro.file.parent.exists()
    assert not repro.plan.directory.exists()


def test_the_repro_names_its_parent_and_has_its_own_name_and_folder(project: Project) -> None:
    run = launched(project)
    repro = plan_repro(run, {})
    written = manifest(repro.plan)
    assert written.parent == Parent("unhealthy", "reproduction")
    assert written.config_name == "grpo"
    assert (written.id, written.checkpoint_dir) == (
        "unhealthy-repro",
        "checkpoints/repro/unhealthy-repro",
    )
    (project.root / "runs/unhealthy-repro").mkdir()
    assert plan_repro(run, {}).plan.run_id == "unhealthy-repro-2"


def test_a_repro_says_which_files_were_edited_since_the_run(project: Project) -> None:
    run = launched(project)
    assert plan_repro(run, {}).edited is None
    (project.root / "data/train.parquet").write_bytes(b"other")
    edited = plan_repro(run, {}).edited or ""
    assert edited.startswith("data/train.parquet: changed since run 'unhealthy'")


def test_values_listed_as_unchanged_are_unchanged(project: Project) -> None:
    repro = plan_repro(launched(project), {})
    assert {"grubrics.seed", "judge.provider", "reward_config.lambda_len"} <= set(repro.unchanged)
    assert not set(repro.unchanged) & {change.key for change in repro.reduced}


def test_only_keys_with_an_effect_are_shown_as_unchanged(project: Project) -> None:
    kept = plan_repro(launched(project), {}).unchanged
    assert kept["judge.provider"] == "offline"
    without_effect = {"judge.model", "judge.timeout_s", "reward.custom_reward_function.name"}
    assert not without_effect & set(kept)


def test_a_run_of_another_folder_is_reproduced_there(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = launched(project)
    monkeypatch.chdir(tmp_path.parent)
    with pytest.raises(UsageError, match="another working directory"):
        plan_repro(run, {})


def test_a_run_without_its_config_has_no_repro(project: Project) -> None:
    run = launched(project)
    run.config_file.unlink()
    with pytest.raises(UsageError, match="is missing"):
        plan_repro(run, {})


def test_a_repro_knows_which_named_causes_it_keeps(project: Project) -> None:
    repro = plan_repro(launched(project), {})
    kept, small = "data.max_response_length", "trainer.total_training_steps"
    original = {one.key: one.before for one in repro.reduced}
    named = [cause(kept, repro.config.get(kept)), cause(small, original[small])]
    assert repro.causes(named) == {kept: repro.config.get(kept)}
    quiet = [replace(one, severity=Severity.INFO) for one in named]
    assert repro.causes(quiet) == {}


def cause(key: str, value: Any) -> Finding:
    """A finding that names a value of the config, and would change it."""
    fix = Fix("Another", (Change("config", key, None, value),))
    seen = Evidence("seen", values={key: value})
    return Finding("slow_step", Severity.WARNING, "title", "cause", (seen,), (fix,))
