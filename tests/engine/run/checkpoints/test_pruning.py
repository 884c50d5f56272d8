"""Checkpoints of an ended run are freed, but not the best, the last, and those in use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.base.typed import to_json
from engine.run.checkpoints.ownership import STAMP, Stamp
from engine.run.checkpoints.pruning import Keep, Pruning, parse_keep
from engine.run.checkpoints.step_folders import complete_steps, tracked_step
from engine.run.processes import identify
from engine.run.run import Run
from engine.run.state import RunState, write_state
from engine.supervise.housekeeping import plan_prunings, prune_runs
from tests.engine.supervise.kept_runs import STEPS, make_run, make_trained

ACTIVE = RunState("running", supervisor=identify(os.getpid()))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def planned(run: Run, root: Path, keep: Keep | None = None, *plans: Path) -> Pruning:
    (pruning,) = plan_prunings([run], root, keep or Keep(), plans)
    return pruning


def test_the_best_by_validation_and_the_last_stay(root: Path) -> None:
    run, folder = make_trained(root)
    pruning = planned(run, root)
    assert pruning.kept == {20: "best", 40: "last"}
    (freed,) = prune_runs([pruning], root)
    assert freed == pruning.bytes > 0
    assert list(complete_steps(folder)) == [20, 40]
    assert run.manifest_file.exists()


def test_the_best_by_a_loss_is_the_lowest(root: Path) -> None:
    run, _ = make_trained(root, metric="val/loss", values={10: 2.0, 20: 1.0, 30: 1.5, 40: 1.5})
    assert planned(run, root).kept == {20: "best", 40: "last"}


def test_every_nth_step_stays(root: Path) -> None:
    run, _ = make_trained(root)
    assert planned(run, root, parse_keep("every=20")).steps == [10, 30]


def test_without_the_last_the_tracker_names_the_last_that_stays(root: Path) -> None:
    run, folder = make_trained(root)
    list(prune_runs([planned(run, root, parse_keep("best"))], root))
    assert tracked_step(folder) == 20
    assert list(complete_steps(folder)) == [20]


def test_the_last_of_a_run_that_can_be_resumed_stays(root: Path) -> None:
    run, _ = make_trained(root, state=RunState("failed", ended=2e9))
    assert planned(run, root, parse_keep("best")).steps == [10, 30]


def test_a_run_whose_best_is_unknown_keeps_all(root: Path) -> None:
    run, _ = make_trained(root, values={15: 0.5})
    assert "the best is unknown" in planned(run, root).kept_because


def test_an_active_run_keeps_all(root: Path) -> None:
    run, _ = make_trained(root)
    write_state(run, ACTIVE)
    assert "has not ended" in planned(run, root).kept_because


@pytest.mark.parametrize(
    "use",
    [
        {"attempts": [{"number": 1, "from": "checkpoints/old/global_step_10"}]},
        {"attempts": [{"argv": ["trainer.resume_from_path=checkpoints/old/global_step_10"]}]},
        {"config": {"model.path": {"value": "checkpoints/old/global_step_10/actor/huggingface"}}},
    ],
)
def test_a_step_that_another_run_names_stays(root: Path, use: dict[str, Any]) -> None:
    run, _ = make_trained(root)
    make_run(root, "younger", ACTIVE, **use)
    pruning = planned(run, root)
    assert pruning.kept[10] == "run 'younger' uses it"
    assert pruning.steps == [30]


def test_an_active_run_that_saves_into_the_folder_keeps_all(root: Path) -> None:
    run, _ = make_trained(root)
    make_run(root, "younger", ACTIVE, checkpoint_dir="checkpoints/old")
    assert planned(run, root).kept_because == "run 'younger' may use them"


def test_a_step_that_an_ablation_starts_from_stays(root: Path, tmp_path: Path) -> None:
    run, folder = make_trained(root)
    plan = tmp_path / "ablations" / "lr" / "base.yaml"
    plan.parent.mkdir(parents=True)
    plan.write_text(f"model.path: {folder}/global_step_30/actor/huggingface\n")
    assert planned(run, root, Keep(), plan).kept[30] == "ablation 'lr' uses it"


def test_a_step_that_an_evaluation_holds_stays(root: Path, tmp_path: Path) -> None:
    run, folder = make_trained(root)
    os.link(folder / "global_step_10" / "data.pt", tmp_path / "lease")
    assert planned(run, root).kept[10] == "an evaluation uses its weights"


def test_the_final_model_stays(root: Path) -> None:
    run, folder = make_trained(root)
    (folder / "final").mkdir()
    list(prune_runs([planned(run, root)], root))
    assert (folder / "final").is_dir()


def test_checkpoints_of_another_run_stay(root: Path) -> None:
    run, folder = make_trained(root)
    jsonl.write_json(folder / STAMP, to_json(Stamp("newer", 1.5e9, "runs/newer", "")))
    assert planned(run, root).kept_because == "they belong to run 'newer'"


def test_a_run_that_was_used_since_it_was_shown_keeps_all(root: Path) -> None:
    run, folder = make_trained(root)
    pruning = planned(run, root)
    make_run(root, "younger", ACTIVE, checkpoint_dir="checkpoints/old")
    with pytest.raises(UsageError, match="have changed"):
        list(prune_runs([pruning], root))
    assert list(complete_steps(folder)) == list(STEPS)


@pytest.mark.parametrize("text", ["", "newest", "every=0", "every=x"])
def test_what_is_no_selection_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--keep"):
        parse_keep(text)


def test_steps_of_an_earlier_run_stay_and_the_tracker_names_the_last_of_them(root: Path) -> None:
    run, folder = make_trained(root)
    stamp = Stamp.of(run, run.read_manifest())
    jsonl.write_json(folder / STAMP, {**to_json(stamp), "inherited": 20})
    list(prune_runs([planned(run, root, parse_keep("every=50"))], root))
    assert list(complete_steps(folder)) == [10, 20]
    assert tracked_step(folder) == 20
