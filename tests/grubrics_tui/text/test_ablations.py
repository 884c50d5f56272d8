"""The table of an ablation says what its numbers leave out."""

from __future__ import annotations

import pytest

from engine.ablations.plan import BASE, AblationPlan, Arm
from engine.ablations.report import AblationReport
from engine.ablations.table import SeedRun, make_table
from engine.runs.state import RunState
from grubrics_tui.text.ablations import format_table

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
