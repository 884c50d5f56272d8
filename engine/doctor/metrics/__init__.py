"""Findings from a run's metrics: the rules are in ``rules``, the tools they share beside it."""

from engine.doctor.metrics.ablation import ablation_findings
from engine.doctor.metrics.apply_rules import metric_findings
from engine.doctor.metrics.read_context import read_context
from engine.run.rule_context import RuleContext, Start

__all__ = [
    "RuleContext",
    "Start",
    "ablation_findings",
    "metric_findings",
    "read_context",
]
