"""Which checkpoints of a run can be evaluated."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.evaluation.lease import leased
from engine.evaluation.sweep import find_checkpoints, step_targets
from engine.evaluation.targets import find_target, folder_target
from engine.runs.rundir import RunDir
from tests.engine.checkpoints.checkpoint_files import save, save_step, track
from tests.engine.reports.runs import make_run


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDir:
    monkeypatch.chdir(tmp_path)
    return make_run(tmp_path, checkpoint_dir="checkpoints")


@pytest.fixture
def saved(run: RunDir) -> Path:
    return run.path.parents[1] / "checkpoints"


def test_complete_checkpoints_are_targets_in_order(run: RunDir, saved: Path) -> None:
    save(saved, 10, 20)
    targets = step_targets(run, find_checkpoints(run))
    assert [target.name for target in targets] == [f"{run.id}:10", f"{run.id}:20"]


def test_a_torn_checkpoint_is_skipped_with_its_reason_until_it_is_complete(
    run: RunDir, saved: Path
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


def test_a_checkpoint_that_is_being_written_is_skipped(run: RunDir, saved: Path) -> None:
    save(saved, 10)
    save_step(saved, 20)
    assert [(s.step, s.reason) for s in find_checkpoints(run).skipped] == [
        (20, "it is still being written")
    ]


def test_an_unknown_step_is_refused_with_those_that_exist(run: RunDir, saved: Path) -> None:
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
