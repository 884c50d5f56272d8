"""Symptoms that show in a run's metric series: one file per family, each a list of findings."""

from engine.doctor.metrics.ablation import ablation_findings
from engine.doctor.metrics.apply_rules import metric_findings
from engine.doctor.metrics.limits import reward_range
from engine.doctor.metrics.read_context import context_of
from engine.findings.run_context import MetricContext, Start

__all__ = [
    "MetricContext",
    "Start",
    "ablation_findings",
    "context_of",
    "metric_findings",
    "reward_range",
]
