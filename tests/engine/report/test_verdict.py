"""The entry of an ablation in the experiment log."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.measure.ablations.plan import BASE, AblationPlan, Arm
from engine.measure.ablations.report import AblationReport
from engine.measure.ablations.table import SeedRun, make_table
from engine.report.verdict import append_verdict
from engine.run.run import Run
from engine.run.state import RunState, write_state

LAMBDA = "reward_config.lambda_info"
ARMS = (
    Arm(BASE, (), {}),
    Arm("A2", (f"{LAMBDA}=0",), {LAMBDA: (0.3, 0)}),
    Arm(
        "A1", ("reward_config.use_contrastive=false", "data.train_files=ablations/x/a.parquet"), {}
    ),
)
VALUES = {BASE: (0.5, 0.6, 0.4), "A2": (0.51, 0.58, 0.42), "A1": (0.1, 0.21, 0.02)}


@pytest.fixture
def report(tmp_path: Path) -> AblationReport:
    plan = AblationPlan("tiny-1", "grpo_tiny", "grpo", ARMS, (1, 2, 3), 20)
    runs = {
        name: [
            SeedRun(make_run(tmp_path, f"{name}-s{seed}").id, seed, FINISHED, {20: value}, {})
            for seed, value in zip(plan.seeds, values, strict=True)
        ]
        for name, values in VALUES.items()
    }
    rows = make_table(plan, runs, lower_is_better=False)
    return AblationReport(plan, "validation reward", rows, is_running=False)


FINISHED = RunState("finished", started=0.0, ended=60.0)


def make_run(root: Path, name: str) -> Run:
    run = Run(root / name)
    run.path.mkdir(parents=True)
    manifest = {"git": {"commit": "abcdef0123456789", "dirty": True}, "fingerprint": "f" * 64}
    jsonl.write_json(run.manifest_file, manifest)
    write_state(run, FINISHED)
    jsonl.append(
        run.train_log,
        {"v": 1, "step": 1, "attempt": 1, "t": 1.0, "metrics": {"judge/calls": 32.0}},
    )
    return run


def test_the_entry_has_base_knobs_seeds_cost_verdicts_and_what_is_open(
    tmp_path: Path, report: AblationReport
) -> None:
    file = tmp_path / "log.md"
    assert append_verdict(file, report, tmp_path) == "EXP-001"
    text = file.read_text().removeprefix("# Experiment log\n\n")
    low, high = map(float, re.findall(r"\| A2 \|.*?\| (\S+) to (\S+) \|", text)[0])
    half = (high - low) / 2
    for part in (
        "A2 undecided; A1 worse",
        "commit abcdef012345, with uncommitted changes, configuration ffffffffffff",
        "3 arms x 3 seeds (1, 2, 3) x 20 steps, 9:00 of training, 288 judge calls",
        "| A2 | reward_config.lambda_info=0 | 0.5033 | +0.003333 |",
        "| A1 | reward_config.use_contrastive=false | 0.11 |",
        "**Not tested:** more than 20 steps",
        "other than these. The smallest difference that the undecided arms could have shown is "
        f"about {half:.2g}: half the width of the widest interval.\n",
    ):
        assert part in text
    assert len(text.splitlines()) <= 15


def test_an_ablation_went_well_if_every_run_did_every_step(report: AblationReport) -> None:
    [*others, last] = report.rows
    missing = replace(last, runs=tuple(replace(run, state=None) for run in last.runs))
    assert report.went_well
    assert last.verdict == "worse"
    assert not replace(report, rows=[*others, missing]).went_well
    given_up = replace(report, plan=replace(report.plan, stop_worse=True))
    assert replace(given_up, rows=[*others, missing]).went_well


@pytest.mark.parametrize(("ended", "is_running"), [(0, False), (2, True)])
def test_an_ablation_whose_runs_have_not_ended_gets_no_entry(
    tmp_path: Path, report: AblationReport, ended: int, is_running: bool
) -> None:
    file = tmp_path / "log.md"
    [base, *arms] = report.rows
    runs = tuple(
        run if number < ended else replace(run, state=None) for number, run in enumerate(base.runs)
    )
    planned = [
        replace(row, runs=tuple(replace(run, state=None) for run in row.runs)) for row in arms
    ]
    unfinished = replace(report, rows=[replace(base, runs=runs), *planned], is_running=is_running)
    with pytest.raises(UsageError, match=f"{ended} of 9 runs have ended"):
        append_verdict(file, unfinished, tmp_path)
    assert not file.exists()


def test_an_ablation_has_one_entry(tmp_path: Path, report: AblationReport) -> None:
    file = tmp_path / "log.md"
    append_verdict(file, report, tmp_path)
    before = file.read_text()
    with pytest.raises(UsageError, match="ablation 'tiny-1' already has an entry, EXP-001"):
        append_verdict(file, report, tmp_path)
    assert file.read_text() == before
