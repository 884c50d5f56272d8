"""Every metric rule on every series of a run."""

from __future__ import annotations

from engine.doctor.metrics.counted_steps import worded
from engine.doctor.metrics.root_cause import rooted
from engine.doctor.metrics.rules import (
    collapse,
    divergence,
    flat_reward,
    forgetting,
    judge,
    judge_share,
    nan,
    no_learning,
    overfit,
    reward_components,
    run_inputs,
    short_logs,
    slow_steps,
    slower_steps,
    step_budget,
    weight_sync,
)
from engine.doctor.metrics.run import Rule, Run
from engine.doctor.metrics.segments import last_beginning
from engine.findings.finding import Finding
from engine.findings.run_context import MetricContext
from engine.history.columns import Columns

RULES: tuple[Rule, ...] = (
    run_inputs.check,
    weight_sync.check,
    nan.check,
    flat_reward.check,
    reward_components.check,
    collapse.check,
    divergence.check,
    forgetting.check,
    no_learning.check,
    overfit.check,
    judge.check,
    judge_share.check,
    slower_steps.check,
    slow_steps.check,
    step_budget.check,
)


def metric_findings(columns: Columns, context: MetricContext | None = None) -> list[Finding]:
    """What the series of a run show, the worst and earliest first; none for a healthy run.

    ``columns`` are named canonically (``engine.history.metrics``) and may be any few of them. The
    answer depends on nothing but the arguments, so a growing run is simply asked again. Nothing
    above ``info`` is an answer about a healthy run.
    """
    run = Run(columns, context or MetricContext(), last_beginning(columns))
    found = [one for rule in RULES for one in rule(run)]
    return worded(run, rooted(short_logs.with_few(run, found)))
