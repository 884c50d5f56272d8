"""How runs did, side by side: every number checked against what the files say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.report.compare import MOST_RUNS, Comparer, Comparison, at_equal_steps, check_choice
from engine.report.measures import Measure
from engine.report.run_record import RunReader, RunRecord, common_step
from engine.run.events import event_record
from engine.run.run import Run
from engine.run.state import RunState, write_state
from tests.manifests import change_manifest

START = 1_700_000_000.0


def make_run(root: Path, name: str, rewards: list[float | None], first: int = 1) -> Run:
    """A finished run of one step per reward and minute."""
    run = Run(root / name)
    run.path.mkdir(parents=True)
    jsonl.write_json(run.manifest_file, {"v": 1, "kind": "grpo", "config": {}})
    jsonl.append(run.events, {**event_record("start", attempt=1), "t": START})
    for step, reward in enumerate(rewards, start=first):
        log(run, step, reward)
    end = START + 60 * len(rewards) + 30
    jsonl.append(run.events, {**event_record("end"), "t": end})
    write_state(run, RunState("finished", started=START, ended=end, step=len(rewards)))
    return run


def log(run: Run, step: int, reward: float | None, attempt: int = 1, t: float = 0.0) -> None:
    metrics = {"reward/mean": reward, "judge/calls": 8.0, "timing_s/step": 10.0 + step}
    moment = t or START + 60 * step
    jsonl.append(
        run.train_log, {"v": 1, "step": step, "attempt": attempt, "t": moment, "metrics": metrics}
    )


def compared(*runs: Run, baseline: int = 0, equal_steps: bool = False) -> Comparison:
    records = [RunRecord.read(run) for run in runs]
    return Comparer(records).compare(baseline, equal_steps=equal_steps)


def row(found: Comparison, name: str) -> Measure:
    return next(one for one in found.summary if one.name == name)


def test_each_run_is_measured_to_its_own_end(tmp_path: Path) -> None:
    short = make_run(tmp_path, "short", [0.1, 0.9, 0.3])
    long = make_run(tmp_path, "long", [0.1 * step for step in range(20)])
    result = compared(short, long)
    assert row(result, "steps done").values == (3.0, 20.0)
    assert row(result, "reward, last").values == pytest.approx((0.3, 1.9))
    assert row(result, "reward, best").values == pytest.approx((0.9, 1.9))
    assert row(result, "reward, best").steps == (2, 20)
    assert row(result, "reward, last 10").values == pytest.approx((1.3 / 3, 1.45))
    assert row(result, "judge calls").values == (24.0, 160.0)
    assert row(result, "step time, median").values == (12.5, 21.0)
    assert row(result, "wall time").values == (210.0, 1230.0)
    assert row(result, "checkpoint").values == ("none", "none")


@pytest.mark.row("A20")
def test_use_of_the_machine_before_and_after_a_change(tmp_path: Path) -> None:
    before = make_run(tmp_path, "before", [0.1, 0.2])
    after = make_run(tmp_path, "after", [0.1, 0.2])
    for run, percent, gib in ((before, 50, 20), (after, 80, 32)):
        run.attempt(1).path.mkdir()
        for used in (1, gib):
            card = {"util": percent, "run_mem": used * 2**30}
            jsonl.append(
                run.attempt(1).system, {"v": 1, "gpus": [card], "run": {"pss": used * 2**29}}
            )
    result = compared(before, after)
    assert row(result, "GPU use, mean").values == (50.0, 80.0)
    assert row(result, "GPU memory, peak").values == (20.0 * 2**30, 32.0 * 2**30)
    assert row(result, "host memory, peak").values == (20.0 * 2**29, 32.0 * 2**29)
    assert "GPU use, mean" not in {
        measure.name for measure in compared(before, after, equal_steps=True).summary
    }


def test_throughput_leaves_out_the_first_step(tmp_path: Path) -> None:
    run = make_run(tmp_path, "run", [])
    for step, tokens in enumerate((10.0, 500.0, 700.0), start=1):
        metrics = {"perf/throughput": tokens}
        jsonl.append(
            run.train_log, {"v": 1, "step": step, "attempt": 1, "t": START, "metrics": metrics}
        )
    assert row(compared(run), "tokens/s and GPU, median").values == (600.0,)


def test_at_equal_steps_the_longer_run_counts_as_far_as_the_shorter_one_got(tmp_path: Path) -> None:
    short = make_run(tmp_path, "short", [0.1, 0.9, 0.3])
    long = make_run(tmp_path, "long", [0.1 * step for step in range(20)])
    result = compared(short, long, equal_steps=True)
    assert (result.common, result.until) == (3, 3)
    assert row(result, "reward, last").values == pytest.approx((0.3, 0.2))
    assert row(result, "wall time").values == (180.0, 180.0)


def test_deltas_are_to_the_baseline_and_no_run_alone_is_best(tmp_path: Path) -> None:
    runs = [
        make_run(tmp_path, name, [reward]) for name, reward in (("a", 0.2), ("b", 0.5), ("c", 0.5))
    ]
    reward = row(compared(*runs, baseline=1), "reward, last")
    assert reward.deltas(1) == pytest.approx((-0.3, 0.0, 0.0))
    assert reward.best() is None
    assert reward.verdicts(1) == (None, None, None)


def test_a_nan_is_not_a_value(tmp_path: Path) -> None:
    result = compared(make_run(tmp_path, "a", [0.4, None]), make_run(tmp_path, "b", [None, None]))
    assert row(result, "reward, last").values == (0.4, None)
    assert row(result, "reward, last").deltas(0) == (0.0, None)


def test_a_resumed_run_is_one_history_and_its_hours_are_those_it_ran(tmp_path: Path) -> None:
    run = make_run(tmp_path, "cut", [0.1, 0.2, 0.3])
    later = START + 10_000
    jsonl.append(run.events, {**event_record("start", attempt=2), "t": later})
    log(run, 2, 0.8, attempt=2, t=later + 60)
    jsonl.append(run.events, {**event_record("end"), "t": later + 100})
    write_state(run, RunState("finished", attempt=2, started=later, ended=later + 100))
    result = compared(run, make_run(tmp_path, "other", [0.1]))
    assert row(result, "reward, best").steps[0] == 2
    assert row(result, "reward, last").values[0] == 0.3
    assert row(result, "wall time").values[0] == 210.0 + 100.0


def test_an_attempt_without_an_end_event_ends_with_its_last_line(tmp_path: Path) -> None:
    run = make_run(tmp_path, "lost", [])
    run.events.unlink()
    jsonl.append(run.events, {**event_record("start", attempt=1), "t": START})
    log(run, 1, 0.1)
    jsonl.append(run.events, {**event_record("start", attempt=2), "t": START + 5000})
    log(run, 2, 0.2, attempt=2, t=START + 5060)
    write_state(run, RunState("finished", attempt=2, started=START + 5000, ended=START + 5100))
    assert RunRecord.read(run).seconds() == 60.0 + 100.0


@pytest.mark.parametrize(("adopted", "known"), [({}, False), ({"started": START}, True)])
def test_an_adopted_log_has_the_wall_time_that_it_tells(
    adopted: dict[str, float], known: bool, tmp_path: Path
) -> None:
    run = make_run(tmp_path, "log", [0.1, 0.2])
    manifest = json.loads(run.manifest_file.read_text())
    jsonl.write_json(run.manifest_file, {**manifest, "adopted": {"path": "a.log", **adopted}})
    assert (RunRecord.read(run).seconds() is not None) is known


def test_a_run_without_steps_has_no_measures(tmp_path: Path) -> None:
    result = compared(make_run(tmp_path, "a", [0.4]), make_run(tmp_path, "b", []))
    assert row(result, "steps done").values == (1.0, None)
    assert result.common == 1


def test_runs_that_share_no_step_have_no_common_one(tmp_path: Path) -> None:
    runs = [make_run(tmp_path, "a", [0.1]), make_run(tmp_path, "b", [0.1], first=5)]
    assert common_step([RunRecord.read(run) for run in runs]) is None


def test_new_steps_of_an_active_run_are_added(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", [0.1])
    reader, record = RunReader(run), RunRecord(run)
    record.add(reader.poll())
    log(run, 2, 0.2)
    record.add(reader.poll())
    assert record.values("reward/mean")[1].tolist() == [0.1, 0.2]


def test_values_at_equal_steps_have_gaps_where_a_run_has_none(tmp_path: Path) -> None:
    runs = [make_run(tmp_path, "a", [0.1, None]), make_run(tmp_path, "b", [0.5], first=2)]
    records = [RunRecord.read(run) for run in runs]
    result = at_equal_steps(records, "reward_mean")
    assert result == {"steps": [1, 2], "values": {"a": [0.1, None], "b": [None, 0.5]}}
    with pytest.raises(UsageError, match="did you mean 'reward/mean'"):
        at_equal_steps(records, "reward/men")


def test_a_comparison_takes_at_least_two_different_runs() -> None:
    check_choice(["a", "b"])
    for wrong in (["a"], ["a", "b", "a"], [f"r{number}" for number in range(MOST_RUNS + 1)]):
        with pytest.raises(UsageError, match="a comparison"):
            check_choice(wrong)


def configured(run: Run, weight: float) -> Run:
    config = {"reward_config.lambda_info": {"value": weight, "origin": "cli"}}
    jsonl.write_json(run.manifest_file, {"v": 1, "kind": "grpo", "config": config})
    return run


def test_an_ablation_without_effect_is_reported(tmp_path: Path) -> None:
    rewards: list[float | None] = [0.1, 0.4, 0.2, 0.5]
    base = configured(make_run(tmp_path, "base", rewards), 0.3)
    lost = configured(make_run(tmp_path, "lost", rewards), 0.0)
    sound = configured(make_run(tmp_path, "sound", [0.1, 0.2, 0.3, 0.3]), 0.1)
    result = compared(base, lost, sound)
    assert [(case.run, case.finding.id) for case in result.no_effect] == [
        ("lost", "ablation_no_effect.same_numbers")
    ]
    written: Any = result.to_json()
    assert written["no_effect"][0]["run"] == "lost"
    assert compared(base, sound).no_effect == ()


def test_no_effect_is_looked_for_beside_the_baseline(tmp_path: Path) -> None:
    rewards: list[float | None] = [0.1, 0.4, 0.2, 0.5]
    base = configured(make_run(tmp_path, "base", [0.3, 0.2, 0.1, 0.6]), 0.2)
    twins = [configured(make_run(tmp_path, name, rewards), n) for n, name in enumerate("ab")]
    assert compared(base, *twins).no_effect == ()
    assert [change.run for change in compared(base, *twins, baseline=1).no_effect] == ["b"]


def test_repetitions_under_other_names_are_repetitions(tmp_path: Path) -> None:
    runs = [make_run(tmp_path, name, [0.1, 0.9, 0.3, 0.5]) for name in ("one", "other")]
    for run in runs:
        names = {"trainer.experiment_name": ("cli", run.id), TRACE: ("implied", run.id)}
        config = {key: {"value": v, "origin": o} for key, (o, v) in names.items()}
        change_manifest(run, config=config)
    result = compared(*runs)
    assert [case.finding.id for case in result.no_effect] == ["ablation_no_effect.same_config"]
    assert [one.key for one in result.config] == ["experiment_name"]


TRACE = "actor_rollout_ref.rollout.trace.experiment_name"
