"""A run in Python: frames of what its files hold, read again on each call."""

from __future__ import annotations

import importlib
import math
import subprocess
import sys
from pathlib import Path

import pytest

import engine
from engine import list_runs, open_run
from engine.base import jsonl
from engine.base.errors import PackageError, UsageError
from engine.doctor.diagnose import diagnose_run
from engine.report import opened_run
from engine.run.run import Run
from engine.run.state import RunState, write_state
from tests.engine.measure.evaluations import make_data, make_evaluation
from tests.engine.report.runs import log_steps, make_run
from tests.engine.run.history.rollout_files import record, row, write_dump, write_records

pytestmark = pytest.mark.long

pytest.importorskip("pandas")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    run = make_run(tmp_path, config={"data.train_batch_size": {"value": 8, "origin": "file"}})
    log_steps(run, [{"reward/mean": 0.25, "x": 1.0}, {"reward/mean": None}, {"x": 3.0}])
    return run


def test_a_run_is_opened_by_id_prefix_and_path(run: Run) -> None:
    for name in ("grpo-1", "gr", "runs/grpo-1", run.path):
        assert open_run(name).path.samefile(run.path)
    with pytest.raises(UsageError, match="run 'grpo-2' does not exist; did you mean 'grpo-1'"):
        open_run("grpo-2")


def test_state_and_config_are_those_of_the_files_now(run: Run) -> None:
    opened = open_run("grpo-1")
    assert (opened.state, opened.step, opened.total_steps) == ("finished", 20, 20)
    assert opened.config == {"data.train_batch_size": 8}
    write_state(run, RunState("failed", reason="exit code 1", step=3))
    assert (opened.state, opened.reason, opened.step) == ("failed", "exit code 1", 3)


def test_all_runs_are_listed_the_newest_first(run: Run, tmp_path: Path) -> None:
    newer = Run(tmp_path / "runs" / "a")
    newer.path.mkdir()
    jsonl.write_json(newer.manifest_file, {"v": 1, "id": "a", "created": 2e9})
    write_state(newer, RunState("finished", started=2e9))
    assert [each.id for each in list_runs()] == ["a", "grpo-1"]
    with pytest.raises(UsageError, match="no such directory of runs"):
        list_runs("elsewhere")


def test_metrics_have_the_steps_as_index_and_missing_values_as_nan(run: Run) -> None:
    frame = open_run("grpo-1").metrics()
    assert (frame.index.name, frame.index.tolist()) == ("step", [1, 2, 3])
    assert frame["x"].dropna().to_dict() == {1: 1.0, 3: 3.0}
    assert frame["reward/mean"].tolist()[0] == 0.25 and frame["reward/mean"].isna().sum() == 2


def test_a_long_frame_has_a_row_for_nan_and_none_for_what_is_missing(run: Run) -> None:
    frame = open_run("grpo-1").metrics("reward/mean", long=True)
    assert list(frame.columns) == ["step", "metric", "value"]
    assert frame["step"].tolist() == [1, 2] and math.isnan(frame["value"][1])


def test_a_run_without_steps_has_an_empty_frame(run: Run) -> None:
    run.train_log.unlink()
    assert open_run("grpo-1").metrics().empty


def test_an_unknown_metric_is_refused_with_the_nearest(run: Run) -> None:
    with pytest.raises(UsageError, match="did you mean 'reward/mean'"):
        open_run("grpo-1").metrics("reward/men")


def test_rollouts_have_texts_scores_and_parts(run: Run) -> None:
    attempt = run.attempt(1).path
    attempt.mkdir()
    write_records(attempt, [record("g", n, score, 4) for n, score in enumerate((0.5, None))])
    write_dump(attempt, 4, [row("g", 0, 0.5) | {"input": "2 + 2?", "output": "4"}])
    opened = open_run("grpo-1")
    frame = opened.rollouts()
    assert opened.rollout_steps() == (4,)
    assert frame["score"].tolist()[0] == 0.5 and frame["score"].isna().tolist() == [False, True]
    assert (frame["prompt"][0], frame["response"][0]) == ("2 + 2?", "4")
    with pytest.raises(UsageError, match="step 9 has no rollouts; the nearest is 4"):
        opened.rollouts(9)


def test_evaluations_of_the_run_are_rows(run: Run, tmp_path: Path) -> None:
    evaluation = make_evaluation(make_data(tmp_path / "held-out.parquet", ["a", "b"]), "golden")
    folder = evaluation.folder
    folder.open(evaluation.setup)
    target = folder.add(evaluation.targets[0]).path
    described = jsonl.read_json(target / "target.json") or {}
    jsonl.write_json(target / "target.json", {**described, "name": "grpo-1:20"})
    for uid, reward in (("a", 0.5), ("b", 1.0)):
        line = {"uid": uid, "sample": 0, "prompt_sha256": uid}
        jsonl.append(target / "answers.jsonl", {**line, "answer": "4"})
        jsonl.append(target / "scores.jsonl", {**line, "reward": reward})
    frame = open_run("grpo-1").evaluations()
    (row,) = frame[frame["metric"] == "reward"].to_dict("records")
    assert (row["target"], row["mean"], row["n"], row["unscored"]) == ("grpo-1:20", 0.75, 2, 0)
    assert row["low"] < 0.75 < row["high"]


def test_findings_are_those_of_diagnose(run: Run) -> None:
    run.attempt(1).path.mkdir()
    run.attempt(1).console.write_text("torch.OutOfMemoryError: CUDA out of memory.\n")
    found = [finding.id for finding in open_run("grpo-1").findings()]
    assert found == [finding.id for finding in diagnose_run(run)] != []


def test_without_pandas_only_frames_are_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise ImportError(f"No module named '{name}'")

    monkeypatch.setattr(opened_run, "import_module", fail)
    assert open_run("grpo-1").config
    with pytest.raises(PackageError, match="pandas cannot be imported"):
        open_run("grpo-1").metrics()


def test_importing_the_package_imports_nothing_else() -> None:
    code = "import sys, engine; print([m for m in sys.modules if m.startswith('engine.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert not hasattr(engine, "open")
    assert importlib.reload(engine).open_run is open_run


def test_pandas_is_imported_only_for_a_frame(run: Run) -> None:
    code = (
        "import sys; from engine import open_run; run = open_run('grpo-1'); run.state; run.config;"
        "assert 'pandas' not in sys.modules and 'numpy' not in sys.modules; run.metrics();"
        "assert 'pandas' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
