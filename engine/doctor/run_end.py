"""Adjusts findings to how a run ended, as its supervisor saw it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.doctor.trainer_dialects import framework_of, in_terms_of
from engine.findings.categories import find_category
from engine.findings.finding import Change, Evidence, Finding, Remedy, Severity
from engine.findings.symptom import Case, Symptom
from engine.runs.rundir import RunDir
from engine.runs.state import RunState

_KILLED = "killed by SIGKILL"
_INTERRUPTED = "job_cancelled_or_interrupted"


KILLED = Symptom(
    id=f"{_INTERRUPTED}.killed",
    title="The run was killed",
    cause="The training process was killed, by a user or by the system for lack of memory.",
    shape="the supervisor saw a SIGKILL, and the console has no other explanation",
    remedies=lambda _: (Remedy("Check dmesg or the job's events for an out-of-memory kill"),),
    confidence=0.5,
    source="the exit status that the supervisor saw",
)


def adjust_to_end(
    text: Sequence[Finding], state: RunState, *, stop_is_asked: bool = False
) -> list[Finding]:
    """Adjust severities to the end of a run: a requested stop is no alert, a silent kill is one.

    Nor is an error in a run that reached its last step. ``stop_is_asked`` applies until the run has
    ended; then its reason shows whether that stop ended it.
    """
    reason = state.reason or ""
    if reason.startswith("stopped by ") or (stop_is_asked and not state.has_ended):
        return [
            _as_info(finding) if finding.category == _INTERRUPTED else finding for finding in text
        ]
    if state.went_well:
        return [
            finding if find_category(finding.category).counts_when_finished else _as_info(finding)
            for finding in text
        ]
    if _KILLED in reason and not any(finding.severity.is_alarm for finding in text):
        evidence = Evidence(reason, step=state.step)
        return [KILLED.finding(Case(onset=state.step), evidence), *text]
    return list(text)


def offer_fixes(findings: Sequence[Finding], run: RunDir, state: RunState) -> list[Finding]:
    """Complete the fixes by what the run can do.

    A run that failed for an external reason can be resumed. A run of a command has no config: its
    fixes name arguments of the trainer that printed its console.
    """
    if run.is_command:
        consoles = [attempt.console for attempt in run.attempts()[-1:]]
        return in_terms_of(framework_of(consoles, findings), findings)
    return _offer_resume(findings, run, state)


def _offer_resume(findings: Sequence[Finding], run: RunDir, state: RunState) -> list[Finding]:
    if state.state not in ("failed", "lost") or not findings:
        return list(findings)
    if not findings[0].severity.is_alarm or not find_category(findings[0].category).resumable:
        return list(findings)
    from engine.checkpoints.find import check_checkpoint

    step = check_checkpoint(run).step
    if step is None:
        return list(findings)
    command = Change("command", "resume", f"grubrics-tui resume {run.id}")
    remedy = Remedy(f"Resume from step {step}", (command,), "repeats the steps since then")
    root = replace(findings[0], remedies=(remedy, *findings[0].remedies))
    return [root, *findings[1:]]


def _as_info(finding: Finding) -> Finding:
    return replace(finding, severity=Severity.INFO)
