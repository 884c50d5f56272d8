"""Which checkpoints of a run can be evaluated."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.base.intervals import Estimate
from engine.config.load import load_config
from engine.measure.evaluate import Evaluation
from engine.measure.folder import EvaluationDir
from engine.measure.items import Item
from engine.measure.measures import Metric
from engine.measure.setup import SamplingSettings, Setup
from engine.measure.summary import Result
from engine.measure.sweep import answered_steps, find_checkpoints, step_targets, sweep_of
from engine.measure.targets import find_target, folder_target, leased
from engine.run.run import Run
from tests.engine.report.runs import make_run
from tests.engine.run.checkpoints.checkpoint_files import save, save_step, track

REWARD = Metric("reward", worst=0.0)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return make_run(tmp_path, checkpoint_dir="checkpoints")


@pytest.fixture
def saved(run: Run) -> Path:
    return run.path.parents[1] / "checkpoints"


def test_complete_checkpoints_are_targets_in_order(run: Run, saved: Path) -> None:
    save(saved, 10, 20)
    targets = step_targets(run, find_checkpoints(run))
    assert [target.name for target in targets.values()] == [f"{run.id}:10", f"{run.id}:20"]


def test_a_torn_checkpoint_is_skipped_with_its_reason_until_it_is_complete(
    run: Run, saved: Path
) -> None:
    save(saved, 10)
    torn = save_step(saved, 20)
    shard = next((torn / "actor").glob("model_*.pt"))
    content = shard.read_bytes()
    shard.write_bytes(content[:10])
    [skipped] = find_checkpoints(run).skipped
    assert skipped.step == 20
    assert shard.name in skipped.reason
    shard.write_bytes(content)
    track(saved, 20)
    assert list(find_checkpoints(run).complete) == [10, 20]
    assert find_checkpoints(run).skipped == ()


def test_a_checkpoint_that_is_being_written_is_skipped(run: Run, saved: Path) -> None:
    save(saved, 10)
    save_step(saved, 20)
    assert [(s.step, s.reason) for s in find_checkpoints(run).skipped] == [
        (20, "it is still being written")
    ]


def test_an_evaluated_checkpoint_stays_a_target_after_its_deletion(
    run: Run, saved: Path, tmp_path: Path
) -> None:
    save(saved, 10, 20, 30)
    for config in saved.rglob("config.json"):
        config.write_text(
            f'{{"path": "{config}"}}'
        )  # Steps with the same weights would share their answers.
    ready = step_targets(run, find_checkpoints(run))
    evaluation = make_evaluation(tmp_path / "evaluations" / "val")
    for step in (10, 20):
        folder = evaluation.folder.add(ready[step])
        for item in evaluation.items[: step // 10]:
            jsonl.append(folder.answers, {"uid": item.uid, "sample": 0, "answer": "text"})
    shutil.rmtree(saved)
    assert answered_steps(run, evaluation) == {20: ready[20]}


def test_a_checkpoint_that_is_deleted_while_it_is_read_is_left_out(run: Run, saved: Path) -> None:
    save(saved, 10, 20)
    found = find_checkpoints(run)
    shutil.rmtree(saved / "global_step_10")
    assert list(step_targets(run, found)) == [20]


def make_evaluation(folder: Path) -> Evaluation:
    """Of two items, with one answer each."""
    sampling = SamplingSettings(1, 1, 0.0, 1.0, -1, 64, 64, False, {}, None)
    items = [Item(f"q{number}", (), {}, "", "") for number in (1, 2)]
    setup = Setup("val.parquet", len(items), "", sampling, {})
    EvaluationDir(folder).open(setup)
    return Evaluation(EvaluationDir(folder), setup, items, [], load_config("grpo_tiny", (), {}))


def test_an_unknown_step_is_refused_with_those_that_exist(run: Run, saved: Path) -> None:
    save(saved, 10, 20)
    with pytest.raises(UsageError, match="no checkpoint of step 30; complete checkpoints: 10, 20"):
        find_target(f"{run.id}:30", run.path.parent)


def test_the_weights_of_a_leased_checkpoint_survive_its_deletion(
    tmp_path: Path, saved: Path
) -> None:
    save(saved, 10)
    target = folder_target(saved / "global_step_10", "step 10")
    shard = next((saved / "global_step_10").rglob("model_*.pt"))
    content = shard.read_bytes()
    with leased(target, tmp_path / "evaluation") as source:
        shutil.rmtree(saved / "global_step_10")
        [kept] = Path(source).rglob("model_*.pt")
        assert kept.read_bytes() == content
    assert not Path(source).exists()


def test_a_sweep_holds_the_first_metric_of_the_targets_of_its_run(run: Run) -> None:
    estimate = Estimate(0.5, 0.4, 0.6, 0.05, 8, 8)
    results = [
        Result(f"{run.id}:10", "reward", estimate, 1, None),
        Result(f"{run.id}:10", "length", estimate, 0, None),
        Result(f"{run.id}:0", "reward", estimate, 0, None),
        Result(f"{run.id}:20", "reward", None, 8, None),
        Result("golden", "reward", estimate, 0, None),
    ]
    sweep = sweep_of(run, "tiny-1a2b3c", results, REWARD)
    assert sweep is not None
    assert [(point.step, point.unscored) for point in sweep.points] == [(0, 0), (10, 1)]
    assert sweep_of(run, "tiny-1a2b3c", [], REWARD) is None
