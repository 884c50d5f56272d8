"""What a report of runs says, and what it names as missing."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.logs.formats.external_run import open_external
from engine.report.run_report import assemble, evaluations
from engine.report.run_report.assemble import Choice, make_report
from engine.report.run_report.report import Problem, Report, Sample, Table
from engine.run.processes import identify
from engine.run.run import Run
from engine.run.state import RunState
from tests.engine.report.run_report.reported_runs import (
    SHA,
    START,
    log_steps,
    make_evaluation,
    make_run,
    report_of,
    section,
    usual_metrics,
)
from tests.engine.run.history.rollout_files import write_step


def tables(report: Report, name: str) -> list[Table]:
    return [block for block in section(report, name).blocks if isinstance(block, Table)]


def row(report: Report, name: str, first: str) -> tuple[str, ...]:
    rows = [row for table in tables(report, name) for row in table.rows if row[0] == first]
    return rows[0]


@pytest.mark.row("U38")
def test_a_complete_run_lacks_only_its_evaluation(tmp_path: Path) -> None:
    assert report_of(make_run(tmp_path, "a")).gaps == (
        "a: no evaluation in evaluations/ has measured a checkpoint",
    )


def test_runs_that_differ_in_their_seeds_are_one_line_of_the_legend(tmp_path: Path) -> None:
    base = [make_run(tmp_path, f"base-s{seed}", seed=seed) for seed in (1, 2)]
    hot = make_run(tmp_path, "hot", lr=3e-6)
    report = report_of(*base, hot)
    assert [(entry.key, entry.runs) for entry in report.legend] == [
        ("A", ("base-s1", "base-s2")),
        ("B", ("hot",)),
    ]
    assert "±" in row(report, "results", "reward, last")[1]


def test_only_keys_that_differ_are_config_differences(tmp_path: Path) -> None:
    runs = [make_run(tmp_path, "a"), make_run(tmp_path, "b", lr=3e-6)]
    assert [table.rows for table in tables(report_of(*runs), "config")] == [
        (("actor_rollout_ref.actor.optim.lr", "1e-06", "3e-06"),)
    ]


def test_a_single_run_shows_its_overrides(tmp_path: Path) -> None:
    change = {"key": "data.seed", "before": 1, "after": 2, "origin": "cli"}
    report = report_of(make_run(tmp_path, "a", changes=[change]))
    assert tables(report, "config")[0].rows == (("data.seed", "1", "2", "cli"),)
    assert report.legend[0].key == ""


def test_findings_come_with_evidence_and_fix(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", steps=3, state=RunState("failed", started=START, ended=START + 9))
    run.attempt(1).console.write_text("torch.OutOfMemoryError: CUDA out of memory\n")
    (problem, *_) = [
        b for b in section(report_of(run), "findings").blocks if isinstance(b, Problem)
    ]
    assert (problem.runs, problem.severity) == ("a", "critical")
    assert any("CUDA out of memory" in text for text in problem.evidence)
    assert problem.fixes


def test_no_findings_are_said(tmp_path: Path) -> None:
    found = section(report_of(make_run(tmp_path, "a")), "findings")
    assert found.lead == ("No known problems found.",) and not found.blocks


def test_evaluations_have_intervals_paired_comparisons_and_the_weights(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a")
    scores = [0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0]
    make_evaluation(tmp_path, {"base": scores * 4, "a:20": [1.0] * 32, "other:20": scores * 4})
    report = report_of(run)
    results, compared = tables(report, "evaluations")
    assert results.rows[0] == ("base", "reward", "0.375", "0.229 to 0.547", "32", "0", "0" * 12)
    assert [row[0] for row in results.rows] == ["base", "a:20"]
    assert compared.rows[0][:4] == ("a:20", "base", "reward", "+0.625")
    assert compared.rows[0][-1] == "better"
    assert report.gaps == ()


def test_an_evaluation_says_which_target_was_trained_on_its_items(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_evaluation(tmp_path, {"base": [0.0, 1.0], "a:20": [1.0, 0.0]})
    of_checkpoint = {"a:20": {"a": 2}}
    monkeypatch.setattr(evaluations, "read_items", lambda path, limit: [])
    monkeypatch.setattr(evaluations, "digest", lambda value: SHA)
    monkeypatch.setattr(
        evaluations, "trained_rows", lambda target, items: of_checkpoint.get(target.name, {})
    )
    results, _ = tables(report_of(make_run(tmp_path, "a")), "evaluations")
    assert results.note.endswith("; not held out for a:20: run 'a' was trained on 2")


def test_an_evaluation_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    folder = make_evaluation(tmp_path, {"a:20": [1.0, 0.0]})
    jsonl.write_json(folder / "setup.json", {"items": 2})
    gaps = report_of(make_run(tmp_path, "a")).gaps
    assert f"evaluation {folder.name}: cannot be read" in gaps


def test_samples_are_the_best_the_median_and_the_worst_of_the_newest_step(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a")
    samples = [b for b in section(report_of(run), "samples").blocks if isinstance(b, Sample)]
    assert [(s.rank, s.score, s.step) for s in samples] == [
        ("best", "0.9", 20),
        ("median", "0.5", 20),
        ("worst", "0.1", 20),
    ]
    assert samples[0].texts == (("prompt", "prompt of g1"), ("response", "answer 1 of g1"))
    assert dict(samples[0].facts)["judge scores"] == "0.9, 0.1"


@pytest.mark.parametrize(("count", "shown"), [(0, 0), (1, 1), (2, 2), (4, 4), (50, 5)])
def test_as_many_samples_as_asked_for_as_far_as_there_are(
    count: int, shown: int, tmp_path: Path
) -> None:
    report = report_of(make_run(tmp_path, "a"), samples=count)
    blocks = [b for s in report.sections if s.name == "samples" for b in s.blocks]
    assert len(blocks) == shown


def test_environment_data_costs_and_manifest_are_those_of_the_launch(tmp_path: Path) -> None:
    report = report_of(make_run(tmp_path, "a"))
    assert row(report, "environment", "commit")[1] == f"{'c0ffee' * 6}, with uncommitted changes"
    assert row(report, "environment", "GPUs")[1] == "2 x NVIDIA H100"
    assert row(report, "environment", "torch")[1] == "2.13.0"
    assert row(report, "data", "data")[1:] == ("data/train.parquet", "512", "a", SHA)
    (costs,) = tables(report, "costs")
    named = dict(zip(costs.head, costs.rows[0], strict=True))
    assert (named["GPU hours"], named["judge calls"], named["USD"]) == ("2.00", "160", "3.00")
    launch, files = tables(report, "manifest")
    assert ("a", "configuration", SHA) in launch.rows
    assert [row[1] for row in files.rows] == ["manifest.json", "train_log.jsonl"]


def test_a_run_that_trains_says_how_far_it_is(tmp_path: Path) -> None:
    alive: dict[str, Any] = {"supervisor": identify(os.getpid()), "heartbeat": time.time()}
    running = RunState("running", started=START, step=20, total_steps=40, **alive)
    gaps = report_of(make_run(tmp_path, "a", state=running)).gaps
    assert any("up to step 20" in gap for gap in gaps)


def test_a_run_that_crashed_before_its_first_step_has_a_report(tmp_path: Path) -> None:
    failed = RunState("failed", started=START, ended=START + 9, reason="exit code 1")
    report = report_of(make_run(tmp_path, "a", steps=0, state=failed))
    assert "a: ended before the first step: no curves" in report.gaps
    assert not report.charts


def test_a_run_without_validation_says_so(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", steps=5)
    assert "a: no validation is logged" in report_of(run).gaps


def test_a_run_without_a_readable_manifest_has_a_report(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a")
    run.manifest_file.write_text("{")
    assert any("no configuration, no environment, no commit" in g for g in report_of(run).gaps)


def test_a_gap_of_several_runs_is_one_line(tmp_path: Path) -> None:
    runs = [make_run(tmp_path, name, lr=lr, steps=5) for name, lr in (("a", 1e-6), ("b", 2e-6))]
    assert "a, b: no validation is logged" in report_of(*runs).gaps


def test_a_diagnosis_that_fails_is_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(run: Run) -> None:
        raise ZeroDivisionError("of a rule")

    monkeypatch.setattr(assemble, "diagnose_run", broken)
    assert "a: could not be diagnosed: of a rule" in report_of(make_run(tmp_path, "a")).gaps


def test_an_sft_run_lacks_no_rollouts(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", kind="sft")
    assert not [gap for gap in report_of(run).gaps if "rollout" in gap]


def test_a_log_of_another_trainer_has_curves(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("".join(f"step:{n} - actor/pg_loss:0.{n} - x:1\n" for n in range(1, 9)))
    report = make_report({"train.log": open_external(log)}, Choice())
    assert [chart.name for chart in report.charts] == ["actor/pg_loss"]
    assert any("environment, data and launch are unknown" in gap for gap in report.gaps)


def test_a_metric_that_no_run_has_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="reward/mean"):
        report_of(make_run(tmp_path, "a"), metrics=("reward/meen",))


def test_metrics_of_rewards_are_drawn_and_others_only_where_asked_for(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a")
    more = {"reward/words": 1.0, "perf/odd": 2.0}
    log_steps(run, [{**usual_metrics(1, 1, 1e-6), **more}])
    names = [chart.name for chart in report_of(run).charts]
    assert "reward/words" in names and "perf/odd" not in names
    assert [chart.name for chart in report_of(run, metrics=("perf/odd",)).charts] == ["perf/odd"]


def test_validation_rollouts_are_samples_too(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", steps=5)
    attempt = run.attempt(1).path
    write_step(attempt, 2, {"v": [0.4]})
    (attempt / "validation").mkdir()
    (attempt / "rollouts" / "2.jsonl").rename(attempt / "validation" / "2.jsonl")
    samples = [b for b in section(report_of(run), "samples").blocks if isinstance(b, Sample)]
    assert [s.split for s in samples] == ["training"] * 3 + ["validation"]
