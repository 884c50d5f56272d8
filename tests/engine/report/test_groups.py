"""Runs that differ only in their seeds are one column, with intervals over the seeds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.base.typed import to_json
from engine.logs.formats.external_run import ExternalRun, open_external
from engine.report.compare import Comparer, Comparison, check_groups
from engine.report.groups import find_groups, group_each, group_line
from engine.report.measures import Measure
from engine.report.run_record import RunRecord
from engine.run.history.columns import Column
from engine.run.manifest import FullManifest, Setting
from engine.run.run import Run
from tests.engine.logs.formats.samples import history, message, wandb_log
from tests.manifests import make_manifest


def manifest(seed: int, changes: Mapping[str, Any] | None = None, **facts: Any) -> FullManifest:
    values = {
        "grubrics.seed": seed,
        "data.seed": seed,
        "actor_rollout_ref.actor.optim.lr": 1e-5,
        "trainer.experiment_name": f"run-{seed}",
        "trainer.default_local_dir": f"checkpoints/{seed}",
        **(changes or {}),
    }
    config = {key: Setting(value, "file") for key, value in values.items()}
    return make_manifest(v=1, kind="grpo", config=to_json(config), **facts)


def members(*manifests: FullManifest) -> list[tuple[int, ...]]:
    ids = [f"run-{number}" for number in range(len(manifests))]
    return [group.members for group in find_groups(ids, manifests)]


def test_runs_that_differ_in_seed_and_name_are_a_group() -> None:
    assert members(manifest(1), manifest(2), manifest(3)) == [(0, 1, 2)]


@pytest.mark.parametrize(
    "change",
    [
        {"actor_rollout_ref.actor.optim.lr": 2e-5},
        {"trainer.total_training_steps": 40},
        {"data.val_files": "other.parquet"},
    ],
)
def test_any_other_value_that_decides_results_separates(change: dict[str, Any]) -> None:
    assert members(manifest(1), manifest(2, change), manifest(3)) == [(0, 2), (1,)]


def test_other_data_or_another_initial_model_separates() -> None:
    data = {"train.parquet": {"sha256": "a" * 64}}
    assert members(manifest(1), manifest(2, data=data)) == [(0,), (1,)]
    model = {"model.safetensors": {"sha256": "b" * 64}}
    assert members(manifest(1), manifest(2, model=model)) == [(0,), (1,)]


def test_how_often_a_run_saves_does_not_separate() -> None:
    assert members(manifest(1), manifest(2, {"trainer.save_freq": 5})) == [(0, 1)]


def test_a_repetition_of_a_seed_begins_another_group() -> None:
    """After a change of code that the configuration does not show."""
    assert members(manifest(1), manifest(2), manifest(1), manifest(2)) == [(0, 1), (2, 3)]


def test_a_run_without_a_known_configuration_is_on_its_own() -> None:
    unknown = FullManifest(v=1, kind="grpo")
    assert members(unknown, unknown) == [(0,), (1,)]


def test_a_group_is_named_after_what_its_runs_share() -> None:
    seeds = [manifest(1), manifest(2)]
    assert find_groups(["base-s1", "base-s2"], seeds)[0].name == "base-s*"
    assert find_groups(["a", "b"], seeds)[0].name == "a +1"
    assert [group.name for group in group_each(["a", "b"], seeds)] == ["a", "b"]


def test_groups_of_one_beginning_have_different_names() -> None:
    pairs = [manifest(seed, {"x.y": value}) for value in (0, 1) for seed in (1, 2)]
    names = [group.name for group in find_groups(["run-a", "run-b", "run-c", "run-d"], pairs)]
    assert names == ["run-a +1", "run-c +1"]


def test_more_groups_than_colors_are_refused() -> None:
    many = [manifest(1, {"x.y": value}) for value in range(9)]
    with pytest.raises(UsageError, match="at most 8"):
        check_groups(find_groups([f"run-{n}" for n in range(9)], many))


def make_run(root: Path, name: str, contents: FullManifest, reward: float) -> Run:
    run = Run(root / name)
    run.path.mkdir(parents=True)
    run.write_manifest(contents)
    for step, value in ((1, 0.0), (2, reward)):
        record = {"v": 1, "step": step, "attempt": 1, "t": 1.0, "metrics": {"reward/mean": value}}
        jsonl.append(run.train_log, record)
    return run


BASE, HIGH = (0.50, 0.90, 0.70), (0.62, 1.01, 0.83)
"""The differences vary less than the seeds: only the paired test finds them."""


def compare(
    root: Path, seeds: tuple[int, int, int] = (1, 2, 3), change: dict[str, Any] | None = None
) -> Comparison:
    rate = change or {"actor_rollout_ref.actor.optim.lr": 2e-5}
    first = [make_run(root, f"base-s{s}", manifest(s), r) for s, r in enumerate(BASE, 1)]
    second = [
        make_run(root, f"high-s{s}", manifest(s, rate), r) for s, r in zip(seeds, HIGH, strict=True)
    ]
    return Comparer([RunRecord.read(run) for run in (*first, *second)]).compare()


def reward(comparison: Comparison) -> Measure:
    return next(row for row in comparison.summary if row.name == "reward, last")


def test_a_group_has_mean_and_t_interval_over_its_seeds(tmp_path: Path) -> None:
    entry = reward(compare(tmp_path)).entries[0]
    half = stats.sem(BASE) * stats.t.ppf(0.975, 2)
    assert entry.value == pytest.approx(0.7)
    assert entry.estimate is not None
    assert entry.estimate.half_width == pytest.approx(half)


def test_groups_with_the_same_seeds_are_compared_in_pairs(tmp_path: Path) -> None:
    measure = reward(compare(tmp_path))
    difference = measure.comparisons(0)[1]
    expected = stats.ttest_rel(HIGH, BASE)
    assert difference is not None and difference.paired
    assert difference.p == pytest.approx(expected.pvalue)
    assert measure.best() == 1
    assert measure.verdicts(0) == (None, True)


def test_groups_with_other_seeds_are_independent_samples(tmp_path: Path) -> None:
    measure = reward(compare(tmp_path, seeds=(4, 5, 6)))
    difference = measure.comparisons(0)[1]
    expected = stats.ttest_ind(HIGH, BASE, equal_var=False)
    assert difference is not None and not difference.paired
    assert difference.p == pytest.approx(expected.pvalue)
    assert measure.best() is None


def test_rewards_on_different_scales_have_no_best(tmp_path: Path) -> None:
    measure = reward(compare(tmp_path, change={"reward_config.lambda_info": 0.0}))
    assert measure.best() is None
    assert measure.verdicts(0) == (None, None)


def test_only_differences_between_groups_are_listed(tmp_path: Path) -> None:
    comparison = compare(tmp_path)
    assert [row.name for row in comparison.config] == ["actor_rollout_ref.actor.optim.lr"]
    assert comparison.summary[0].values == ("1, 2, 3", "1, 2, 3")


def test_json_has_groups_and_intervals(tmp_path: Path) -> None:
    comparison: Any = compare(tmp_path).to_json()
    assert comparison["groups"][0] == {
        "name": "base-s*",
        "runs": ["base-s1", "base-s2", "base-s3"],
        "seeds": [1, 2, 3],
    }
    row = next(row for row in comparison["summary"] if row["name"] == "reward, last")
    assert row["best"] == ["high-s*"]
    assert row["delta_ci"]["high-s*"] == pytest.approx([0.0951586, 0.1448414])


def test_a_seed_that_never_reached_the_training_is_reported(tmp_path: Path) -> None:
    runs = [make_run(tmp_path, f"base-s{s}", manifest(s), 0.5) for s in (1, 2)]
    for run in runs:
        for step in range(3, 6):
            metrics = {"reward/mean": 0.1 * step}
            jsonl.append(run.train_log, {"v": 1, "step": step, "attempt": 1, "metrics": metrics})
    found = Comparer([RunRecord.read(run) for run in runs]).compare().no_effect
    assert [(case.run, case.finding.id) for case in found] == [
        ("base-s2", "ablation_no_effect.same_numbers")
    ]


def column(*values: float) -> Column:
    made = Column()
    for step, value in enumerate(values, start=1):
        made.set(step, value)
    return made


def test_the_mean_of_a_group_ends_where_the_first_run_ends() -> None:
    line = group_line([column(1.0, 2.0, 9.0), column(3.0, 6.0), Column()], "", "")
    spread, extremes = line.bands
    assert line.x.tolist() == [1, 2]
    assert line.y.tolist() == [2, 4]
    assert (extremes.low.tolist(), extremes.high.tolist()) == ([1, 2], [3, 6])
    assert (spread.high - line.y).tolist() == pytest.approx([2**0.5, 8**0.5])


def test_a_step_that_one_run_logged_as_nan_is_a_gap() -> None:
    line = group_line([column(1.0, float("nan"), 3.0), column(1.0, 1.0, 1.0)], "", "")
    assert line.x.tolist() == [1, 2, 3] and line.gaps.tolist() == [2]


def wandb_run(root: Path, seed: int, rate: str) -> ExternalRun:
    """An offline W&B run as its SDK frames it, with its configuration."""
    values = {"seed": str(seed), "optim.lr": rate, "run_name": f'"run-{seed}"'}
    updates = [
        message((1, message(*((2, key) for key in name.split(".")), (16, value))))
        if "." in name
        else message((1, message((1, name), (16, value))))
        for name, value in values.items()
    ]
    config = message((17, message((4, b"".join(updates)))))
    rows = [history(loss=1 / step, _step=step) for step in (1, 2, 3)]
    path = root / f"offline-run-{seed}-{rate}" / f"run-{seed}.wandb"
    path.parent.mkdir(parents=True)
    path.write_bytes(wandb_log([config, *rows]))
    return open_external(path)


def test_wandb_runs_are_grouped_by_the_configuration_that_they_hold(tmp_path: Path) -> None:
    runs = [wandb_run(tmp_path, seed, rate) for rate in ("0.1", "0.2") for seed in (1, 2)]
    comparison = Comparer([RunRecord.read(run) for run in runs]).compare()
    assert [(group.members, group.seeds) for group in comparison.groups] == [
        ((0, 1), (1, 2)),
        ((2, 3), (1, 2)),
    ]
    assert [row.name for row in comparison.config] == ["optim.lr"]
