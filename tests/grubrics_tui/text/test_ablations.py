"""The table of an ablation says what its numbers leave out."""

from __future__ import annotations

import pytest

from engine.measure.ablations.plan import BASE, AblationPlan, Arm
from engine.measure.ablations.report import AblationReport
from engine.measure.ablations.table import SeedRun, make_table
from engine.run.state import RunState
from grubrics_tui.text.plans import format_progress, format_table, format_verdict

PLAN = AblationPlan("a", "c", "grpo", (Arm(BASE, (), {}), Arm("x", (), {})), (1, 2), 20)


def table(last_step: int) -> str:
    """Of an arm whose runs all ended at ``last_step``; those of the base trained to the end."""
    runs = {
        BASE: [SeedRun("b", seed, RunState("finished"), {10: 0.5, 20: 0.9}, {}) for seed in (1, 2)],
        "x": [SeedRun("x", seed, RunState("failed"), {last_step: 0.5}, {}) for seed in (1, 2)],
    }
    rows = make_table(PLAN, runs, lower_is_better=False)
    return "\n".join(format_table(AblationReport(PLAN, "validation reward", rows, False)))


@pytest.mark.parametrize(("last_step", "is_early"), [(10, True), (20, False)])
def test_a_comparison_before_the_last_step_says_so(last_step: int, is_early: bool) -> None:
    assert ("x: compared at step 10 of 20" in table(last_step)) == is_early


def test_an_undecided_arm_whose_interval_excludes_0_is_explained() -> None:
    """Its p value is 0.036, and 0.11 after the correction for three comparisons."""
    values = {
        BASE: (1.122, 1.190, 1.158),
        "far": (0.832, 0.595, 0.656),
        "near": (1.155, 1.206, 1.146),
        "same": (1.122, 1.190, 1.159),
    }
    runs = {
        name: [
            SeedRun(name, seed, RunState("finished"), {20: value}, {})
            for seed, value in enumerate(rewards, start=1)
        ]
        for name, rewards in values.items()
    }
    plan = AblationPlan(
        "a", "c", "grpo", tuple(Arm(name, (), {}) for name in values), (1, 2, 3), 20
    )
    rows = make_table(plan, runs, lower_is_better=False)
    text = "\n".join(format_table(AblationReport(plan, "validation reward", rows, False)))
    assert "far: its interval alone excludes 0" in text
    assert text.count("its interval alone") == 1


def test_equal_differences_are_not_explained_by_the_correction() -> None:
    values = {BASE: 0.5, "x": 0.4}
    runs = {
        name: [SeedRun(name, seed, RunState("finished"), {20: value}, {}) for seed in (1, 2)]
        for name, value in values.items()
    }
    rows = make_table(PLAN, runs, lower_is_better=False)
    text = "\n".join(format_table(AblationReport(PLAN, "validation reward", rows, False)))
    assert "x: every seed shows the same difference" in text
    assert "Holm" not in text


@pytest.mark.parametrize(
    ("state", "is_running", "expected"),
    [
        (None, True, "trains in the background; grubrics-tui ablate a --dry-run"),
        (RunState("running"), True, "grubrics-tui stop x pauses it"),
        (None, False, "paused; grubrics-tui ablate a starts"),
        (RunState("finished", "stopped by user at step 3 of 20"), False, "paused"),
        (RunState("finished"), False, ""),
    ],
)
def test_the_table_says_whether_runs_are_to_come(
    state: RunState | None, is_running: bool, expected: str
) -> None:
    runs = {
        BASE: [SeedRun("b", seed, RunState("finished"), {}, {}) for seed in (1, 2)],
        "x": [SeedRun("x", seed, state, {}, {}) for seed in (1, 2)],
    }
    rows = make_table(PLAN, runs, lower_is_better=False)
    lines = format_progress(AblationReport(PLAN, "validation reward", rows, is_running))
    text = "\n".join(lines)
    assert expected in text and bool(text) == bool(expected)


def test_a_verdict_is_so_far_while_a_run_of_the_arm_trains() -> None:
    values = {BASE: (0.30, 0.35, 0.28, 0.31), "x": (0.60, 0.66, 0.57)}
    runs = {
        name: [
            SeedRun(name, seed, RunState("finished"), {20: value}, {})
            for seed, value in enumerate(rewards, start=1)
        ]
        for name, rewards in values.items()
    }
    plan = AblationPlan("a", "c", "grpo", PLAN.arms, (1, 2, 3, 4), 20)
    states = {"better so far": RunState("running"), "better": RunState("finished")}
    for verdict, state in states.items():
        last = SeedRun("x", 4, state, {}, {})
        row = make_table(plan, {**runs, "x": [*runs["x"], last]}, lower_is_better=False)[1]
        assert format_verdict(row) == verdict
