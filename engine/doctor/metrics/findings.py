"""Every metric rule on every series of a run."""

from __future__ import annotations

from engine.doctor.metrics import (
    broken,
    canary,
    collapse,
    components,
    course,
    divergence,
    few,
    flat_reward,
    forgetting,
    inputs,
    judge,
    judge_share,
    overfit,
    slow,
    speed,
    still,
)
from engine.doctor.metrics.order import rooted
from engine.doctor.metrics.run import Rule, Run
from engine.doctor.metrics.trainings import last_beginning
from engine.doctor.metrics.wording import worded
from engine.findings.finding import Finding
from engine.findings.run_context import MetricContext
from engine.history.columns import Columns

RULES: tuple[Rule, ...] = (
    inputs.check,
    canary.check,
    broken.check,
    flat_reward.check,
    components.check,
    collapse.check,
    divergence.check,
    forgetting.check,
    still.check,
    overfit.check,
    judge.check,
    judge_share.check,
    speed.check,
    slow.check,
    course.check,
)


def metric_findings(columns: Columns, context: MetricContext | None = None) -> list[Finding]:
    """What the series of a run show, the worst and earliest first; none for a healthy run.

    ``columns`` are named canonically (``engine.history.metrics``) and may be any few of them. The
    answer depends on nothing but the arguments, so a growing run is simply asked again. Nothing
    above ``info`` is an answer about a healthy run.
    """
    run = Run(columns, context or MetricContext(), last_beginning(columns))
    found = [one for rule in RULES for one in rule(run)]
    return worded(run, rooted(few.with_few(run, found)))
