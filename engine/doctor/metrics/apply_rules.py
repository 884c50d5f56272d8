"""Applies all metric rules to the metrics of a run.

The rules are the modules of ``engine/doctor/metrics/rules`` (each has a ``RULE``) and those that
other packages declare as entry points of the group ``grubrics.metric_rules``.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache

import numpy as np

from engine.doctor import rule_plugins
from engine.doctor.metrics import rules
from engine.doctor.metrics.logged_run import LoggedRun
from engine.doctor.metrics.root_cause import fold_consequences
from engine.doctor.metrics.rules.divergence import explain_by_rate
from engine.doctor.metrics.rules.nan import has_no_loss
from engine.run.finding import Finding, Severity
from engine.run.finding_kind import Rule
from engine.run.history.columns import Columns
from engine.run.rule_context import RuleContext

_EPOCHS = ("epoch", "train/epoch", "training/epoch")
_ENDS = ("train_runtime", "train/train_runtime")
_KL = "actor/kl_loss"
_NANS = ("loss_nan", "reward_function_error.nan")
_FALL = 0.5
"""After a resume from a checkpoint, the epoch falls by less."""
_NUMBERED = re.compile(r"\bstep(s?) (?=\d)")
_COUNT = re.compile(r"(?<=\d )step(?=s?\b)")
_CHECKPOINT = re.compile(r"\b(before|of) step \d+(?:, that of step \d+)?$")


def metric_findings(columns: Columns, context: RuleContext | None = None) -> list[Finding]:
    """Return the findings of a run's metrics, the worst and earliest first.

    ``columns`` are named canonically (``engine.run.history.metrics``), and any of them may be
    missing. The result depends only on the arguments, so a growing run is simply diagnosed again. A
    healthy run has no finding above ``info``.
    """
    context = replace(
        context or RuleContext(), logs_kl=bool(np.nan_to_num(columns.get(_KL).values).any())
    )
    run = LoggedRun(columns, context, last_beginning(columns))
    findings = [finding for rule in own_rules() for finding in rule.check(run)]
    if not context.config:  # The values of a config have their own rules.
        findings += explain_by_rate(run, findings)
    findings += rule_plugins.findings(rule_plugins.METRIC_RULES, run)
    described = _describe_steps(
        run, fold_consequences(_grade(run, finding) for finding in findings)
    )
    return [*described, *_of_earlier(columns.earlier, run.context)]


def _grade(run: LoggedRun, finding: Finding) -> Finding:
    """Lower the severity of a finding in a short log, and say on how few steps it rests.

    In a log that does not number its steps, an error is only a warning: another training may begin
    where a level shifts.
    """
    if run.is_short and finding.severity.is_alert:
        if finding.id.startswith(_NANS) and has_no_loss(run):
            return finding
        basis = "one logged step" if run.records == 1 else f"{run.records} logged steps"
        return replace(
            finding,
            severity=Severity.WARNING,
            cause=f"{finding.cause} This is based on {basis}.",
            confidence=min(finding.confidence, 0.4 if run.records == 1 else 0.5),
        )
    if not run.is_short and run.context.is_counted and finding.severity is Severity.ERROR:
        return replace(finding, severity=Severity.WARNING)
    return finding


def _of_earlier(earlier: Columns | None, context: RuleContext) -> Iterator[Finding]:
    """Yield what was wrong with the training before the last one, as information."""
    if earlier is None:
        return
    count = len(earlier.times)
    for finding in metric_findings(earlier, replace(context, starts=(), total_steps=None)):
        if finding.severity.is_alert:
            note = f"This is about the training before the last one in the log, of {count} steps."
            yield replace(
                finding,
                severity=Severity.INFO,
                title=f"{finding.title}, in the training before",
                cause=f"{finding.cause} {note}",
                fixes=(),
                followed_by=(),
            )


@cache
def own_rules() -> tuple[Rule[LoggedRun], ...]:
    """Return the rule of each module of the folder."""
    names = sorted(module.name for module in pkgutil.iter_modules(rules.__path__))
    modules = (importlib.import_module(f"{rules.__name__}.{name}") for name in names)
    return tuple(module.RULE for module in modules)


def last_beginning(columns: Columns) -> float:
    """Return the first step of the last training in a log; minus infinity if there is only one.

    Several trainings in one log (one model or task after the other, or a restarted run) have
    unrelated levels, so only the last is diagnosed. A training begins where the epoch falls back,
    or after the summary of the one before.
    """
    begins, steps = [float("-inf")], columns.times.steps
    for epoch in map(columns.get, _EPOCHS):
        is_logged = ~np.isnan(epoch.values)
        epochs = epoch.values[is_logged]
        begins += epoch.steps[is_logged][1:][epochs[1:] < _FALL * epochs[:-1]].tolist()
    for summary in map(columns.get, _ENDS):
        after = np.searchsorted(steps, summary.steps, side="right")
        begins += steps[after[after < len(steps)]].tolist()
    return max(begins)


def _describe_steps(run: LoggedRun, findings: Iterable[Finding]) -> list[Finding]:
    """Say that a finding is about the last training, and call unnumbered steps records."""
    described = list(findings)
    if np.isfinite(run.begin) or run.columns.earlier is not None:
        note = "The log contains several trainings; this finding is about the last one."
        described = [replace(finding, cause=f"{finding.cause} {note}") for finding in described]
    return [_in_records(finding) for finding in described] if _is_counted(run) else described


def _is_counted(run: LoggedRun) -> bool:
    """Return whether steps are only record numbers; a trainer may log every tenth step.

    HF's dicts have an epoch and no step; a progress bar beside them shows the step and the total.
    """
    if run.context.is_counted:
        return True
    steps = run.columns.times.steps
    is_known = bool(run.context.config) or run.context.total_steps is not None
    in_a_row = bool(np.array_equal(steps, np.arange(1, len(steps) + 1)))
    return not is_known and in_a_row and len(run.columns.get("epoch")) > 0


def _in_records(finding: Finding) -> Finding:
    return replace(
        finding,
        title=_in_records_text(finding.title),
        cause=_in_records_text(finding.cause),
        evidence=tuple(
            replace(evidence, text=_in_records_text(evidence.text)) for evidence in finding.evidence
        ),
        # A checkpoint is numbered by its step, which is unknown.
        fixes=tuple(
            replace(fix, title=_in_records_text(_CHECKPOINT.sub(r"\1 that time", fix.title)))
            for fix in finding.fixes
        ),
        followed_by=tuple(map(_in_records, finding.followed_by)),
        counted="record",
    )


def _in_records_text(text: str) -> str:
    return _COUNT.sub("record", _NUMBERED.sub(r"record\1 ", text))
