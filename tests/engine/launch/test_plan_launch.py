"""A launch beside the checkpoints of other runs, and the config of a run once more."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base import files
from engine.base.errors import UsageError
from engine.config.frozen import pinned_config
from engine.config.load import Config
from engine.launch.launcher import manifest, plan
from engine.launch.plan_launch import (
    Order,
    config_for_launch,
    parse_seeds,
    plan_launch,
    plan_launches,
)
from engine.run.checkpoints.ownership import claim
from engine.run.run import Run
from engine.run.state import RunState, write_state
from engine.run.trust import vouch
from tests.engine.checks.project import Project, make_project
from tests.engine.run.checkpoints.checkpoint_files import save

pytestmark = pytest.mark.long

LR = "actor_rollout_ref.actor.optim.lr"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    return make_project(tmp_path)


@pytest.fixture
def first(project: Project) -> Run:
    """A finished run that has left a checkpoint in the folder of its config."""
    run = leave_run(project.config("grpo", f"{LR}=3e-5"))
    Path("checkpoints/grpo/global_step_1").mkdir(parents=True)
    return run


def leave_run(config: Config) -> Run:
    """A finished run of the config, which owns the folder of its checkpoints."""
    run = Run(Path("runs") / "first")
    contents = manifest(plan(config, "first", Path("runs")))
    run.attempt(1).path.mkdir(parents=True)
    run.write_manifest(contents)
    files.write_atomic(run.config_file, pinned_config(contents.config))
    write_state(run, RunState("finished"))
    vouch(run)
    claim(run)
    return run


def test_a_changed_config_saves_to_a_folder_of_its_own(project: Project, first: Run) -> None:
    planned = plan_launch(project.config("grpo", f"{LR}=1e-4"), Path("runs"), "second")
    assert planned.config.get("trainer.default_local_dir") == "checkpoints/second"
    assert "holds checkpoints of run 'first'" in planned.folder_note
    assert planned.argv[-1] == "trainer.default_local_dir=checkpoints/second"


@pytest.mark.parametrize(
    ("mode", "says"),
    [("disable", "holds checkpoints of run 'first'"), ("auto", "has step 6 of run 'first', the l")],
)
def test_the_same_config_that_continues_nothing_saves_to_a_folder_of_its_own(
    project: Project, mode: str, says: str
) -> None:
    config = project.config("grpo", f"trainer.resume_mode={mode}")
    leave_run(config)
    save(Path("checkpoints/grpo"), 6)
    planned = plan_launch(config, Path("runs"), "second")
    assert planned.config.get("trainer.default_local_dir") == "checkpoints/second"
    assert says in planned.folder_note


def test_the_same_config_uses_its_folder_again(project: Project, first: Run) -> None:
    planned = plan_launch(project.config("grpo", f"{LR}=3e-5"), Path("runs"), "second")
    assert planned.config.get("trainer.default_local_dir") == "checkpoints/grpo"
    assert planned.folder_note == ""


def test_a_run_is_launched_again_with_its_values_and_the_changes(
    project: Project, first: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither an edit of the config file nor the environment changes the values of the run."""
    Path("configs/grpo.yaml").write_text("edited: yes")
    monkeypatch.setenv("REWARD_LAMBDA_INFO", "0.9")
    config, _ = config_for_launch(first, ["train_batch_size=2"], Path("runs"))
    planned = plan_launch(config, Path("runs"), "again", again=first)
    assert config.get(LR) == 3e-5
    assert config.get("data.train_batch_size") == 2
    assert config.get("reward_config.lambda_info") != 0.9
    assert planned.config.get("trainer.default_local_dir") == "checkpoints/again"
    assert planned.parent is not None and planned.parent.relation == "relaunch"


def test_a_run_of_another_folder_is_refused(
    first: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    run = Run(first.path.absolute())
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="belongs to another working directory"):
        config_for_launch(run, [], Path("runs"))


def test_several_seeds_are_queued_runs_with_folders_of_their_own(project: Project) -> None:
    order = Order("small", seeds=(1, 2))
    plans = plan_launches(project.config("grpo"), Path("runs"), order)
    assert [planned.run_id for planned in plans] == ["small-s1", "small-s2"]
    assert [planned.config.get("data.seed") for planned in plans] == [1, 2]
    folders = {planned.config.get("trainer.default_local_dir") for planned in plans}
    assert folders == {"checkpoints/small-s1", "checkpoints/small-s2"}
    assert all(planned.ticket is not None and planned.ticket.turn for planned in plans)


def test_one_seed_is_one_run_that_starts_at_once(project: Project) -> None:
    (planned,) = plan_launches(project.config("grpo"), Path("runs"), Order("small", seeds=(7,)))
    assert planned.run_id == "small"
    assert planned.config.get("grubrics.seed") == 7
    assert planned.ticket is None


@pytest.mark.parametrize("text", ["1,x", "1 -2", "3,3", "1.5"])
def test_what_is_no_list_of_seeds_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="seed"):
        parse_seeds(text)


def test_the_runs_of_several_seeds_are_a_group_of_w_and_b(project: Project) -> None:
    planned = plan_launches(project.config("grpo"), Path("runs"), Order("small", seeds=(1, 2)))
    given = [manifest(each).wandb for each in planned]
    assert [each and each.group for each in given] == ["small", "small"]
    assert all(each and "-b" in str(each.name) for each in given)
