"""Adjusts findings to the state of a run: how it ended, or that it has not failed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from engine.base.follow import last_lines
from engine.doctor.fit_remedies import fit_remedies
from engine.doctor.text.line import plain
from engine.doctor.trainer_dialects import framework_of, in_terms_of
from engine.findings.categories import find_category
from engine.findings.finding import Change, Evidence, Finding, Remedy, Severity
from engine.findings.symptom import Case, Symptom
from engine.runs.events import pending_stop, read_stop_offset
from engine.runs.rundir import RunDir
from engine.runs.state import RunState

_KILLED = "killed by SIGKILL"
_INTERRUPTED = "job_cancelled_or_interrupted"
_RAY = "ray_start_or_worker_died"
_STOPPED = "stopped by "
_FROM_OUTSIDE = "stopped by SIGTERM "
"""The reason of a run that a signal to its supervisor ended, without a stop request."""


KILLED = Symptom(
    id=f"{_INTERRUPTED}.killed",
    title="The run was killed",
    cause="The training process was killed, by a user or by the system for lack of memory.",
    shape="the supervisor saw a SIGKILL, and the console has no other explanation",
    remedies=lambda _: (Remedy("Check dmesg or the job's events for an out-of-memory kill"),),
    confidence=0.5,
    source="the exit status that the supervisor saw",
)


UNEXPLAINED = Symptom(
    id="training_setup_error.unexplained",
    title="The cause is not known",
    cause="Nothing is known but how it ended and the last lines of its console.",
    shape="the run failed with an exit code or a signal, and neither console nor metrics have an "
    "error that a rule knows",
    ruled_out="a run that was stopped, or that did not start",
    remedies=lambda _: (Remedy("Read the console log from its end, and the program's own logs"),),
    confidence=0.1,
    source="the exit status that the supervisor saw",
)
_LAST_LINES, _TAIL = 3, 50
_WIDEST = 400
"""Characters of a line that are quoted."""
_ERRORS = (Severity.CRITICAL, Severity.ERROR)


def adjust_to_run(text: Sequence[Finding], run: RunDir, state: RunState) -> list[Finding]:
    """Adjust findings to the state of the run. Call it after the console was read: a stop is
    requested first, then the run is interrupted."""
    stop_is_asked = pending_stop(run) is not None
    if not text or not (stop_is_asked or (state.reason or "").startswith(_STOPPED)):
        return adjust_to_end(text, state)
    stop_offset = read_stop_offset(run, max(1, state.attempt))
    return adjust_to_end(text, state, stop_is_asked=stop_is_asked, stop_offset=stop_offset)


def adjust_to_end(
    text: Sequence[Finding],
    state: RunState,
    *,
    stop_is_asked: bool = False,
    stop_offset: int | None = None,
) -> list[Finding]:
    """Adjust findings to the state of a run.

    - The signals of a requested stop are no finding, those of another stop no alert.
    - What the console shows from byte ``stop_offset`` on is no alert in a run that was stopped: an
      interrupt can appear as any exception of the code that it interrupts.
    - An error is no alert in a run that reached its last step.
    - A silent kill is an alert.
    - What Ray reports is a warning while the run has not failed.

    ``stop_is_asked`` applies until the run has ended; then its reason shows whether that stop ended
    it.
    """
    reason = state.reason or ""
    if reason.startswith(_STOPPED) or (stop_is_asked and not state.has_ended):
        before = [_as_info(one) if _is_after(one, stop_offset) else one for one in text]
        softened = soften_ray(before, "The run was stopped before it failed.")
        if reason.startswith(_FROM_OUTSIDE):
            return [_as_info(one) if one.category == _INTERRUPTED else one for one in softened]
        return _without_interruptions(softened)
    if state.went_well:
        return [
            finding if find_category(finding.category).counts_when_finished else _as_info(finding)
            for finding in text
        ]
    if _KILLED in reason and not any(finding.severity.is_alarm for finding in text):
        evidence = Evidence(reason, step=state.step)
        return [KILLED.finding(Case(onset=state.step), evidence), *text]
    if state.has_ended or state.state == "stalled":
        return list(text)
    return soften_ray(text)


def explain_failure(findings: Sequence[Finding], run: RunDir, state: RunState) -> list[Finding]:
    """Add a finding with the last lines of the console to a failed run that has no error."""
    has_error = any(finding.severity in _ERRORS for finding in findings)
    if state.state != "failed" or not (state.exit_code or state.signal) or has_error:
        return list(findings)
    console, reason = run.attempt(max(1, state.attempt)).console, state.reason or "an error"
    lines = [line for raw in last_lines(console, _TAIL) if (line := plain(raw).strip())]
    evidence = [Evidence(reason, step=state.step)]
    evidence += [Evidence(line[:_WIDEST], str(console)) for line in lines[-_LAST_LINES:]]
    return [UNEXPLAINED.finding(Case(onset=state.step), *evidence), *findings]


def soften_ray(
    text: Iterable[Finding], why: str = "Ray may recover: the run has not failed."
) -> list[Finding]:
    """Make what Ray reports a warning, for a run that has not failed.

    Ray restarts workers and repeats connections, so its messages do not show that the run fails. A
    traceback of the program does.
    """
    return [_softened(finding, why) if _is_report_of_ray(finding) else finding for finding in text]


def _is_report_of_ray(finding: Finding) -> bool:
    is_severe = finding.severity in _ERRORS
    has_frames = len(finding.evidence) > 1
    return finding.category == _RAY and is_severe and not has_frames


def _softened(finding: Finding, why: str) -> Finding:
    return replace(finding, severity=Severity.WARNING, cause=f"{finding.cause} {why}")


def _is_after(finding: Finding, offset: int | None) -> bool:
    """Whether the line that shows the finding begins at this byte of the console or later."""
    begin = finding.evidence[0].offset if finding.evidence else None
    return offset is not None and begin is not None and begin >= offset


def _without_interruptions(findings: Iterable[Finding]) -> list[Finding]:
    return [
        replace(finding, followed_by=tuple(_without_interruptions(finding.followed_by)))
        for finding in findings
        if finding.category != _INTERRUPTED
    ]


def offer_fixes(findings: Sequence[Finding], run: RunDir, state: RunState) -> list[Finding]:
    """Complete the fixes by what the run can do.

    A run that failed for an external reason can be resumed. A run of a command has no config: its
    fixes name arguments of the trainer that printed its console.
    """
    if run.is_command:
        consoles = [attempt.console for attempt in run.attempts()[-1:]]
        return in_terms_of(framework_of(consoles, findings), findings)
    return _offer_resume(fit_remedies(findings, run), run, state)


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
