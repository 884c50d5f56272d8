"""How a run ended, by what its supervisor saw: the console knows only its own side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.findings.finding import Change, Evidence, Finding, Remedy, Severity
from engine.runs.rundir import RunDir
from engine.runs.state import RunState

_KILLED = "killed by SIGKILL"
_LASTING = ("judge_", "context_length", "reward_")
"""What spoils rewards does so in a run that reaches its end, too."""
_INTERRUPTED = "job_cancelled_or_interrupted"
_OUTSIDE = (
    "job_cancelled", "host_oom", "ray_start_or_worker_died", "judge_", "checkpoint_disk_full",
    "nccl_", "port_in_use", "wandb_",
)  # fmt: skip
"""Of these a run can be resumed as it is, once they have passed."""


def with_end(
    text: Sequence[Finding], state: RunState, *, stop_is_asked: bool = False
) -> list[Finding]:
    """A stop that was asked for is no alarm, nor is what a run got over that reached its end.

    A kill that left no word behind is one. ``stop_is_asked`` counts until the run has ended; then
    its reason tells whether that stop ended it.
    """
    reason = state.reason or ""
    if reason.startswith("stopped by ") or (stop_is_asked and not state.has_ended):
        return [_quiet(one) if one.family == _INTERRUPTED else one for one in text]
    if state.went_well:
        return [one if one.family.startswith(_LASTING) else _quiet(one) for one in text]
    if _KILLED in reason and not any(one.severity.is_alarm for one in text):
        return [_killed(state), *text]
    return list(text)


def with_resume(found: Sequence[Finding], run: RunDir, state: RunState) -> list[Finding]:
    """The root of a run that failed of something outside of it has the command that resumes it."""
    if state.state not in ("failed", "lost") or not found or not _is_from_outside(found[0]):
        return list(found)
    from engine.checkpoints.find import check_checkpoint

    step = check_checkpoint(run).step
    if step is None:
        return list(found)
    command = Change("command", "resume", f"grubrics-tui resume {run.id}")
    remedy = Remedy(f"Resume from step {step}", (command,), "steps since then are done again")
    return [replace(found[0], remedies=(remedy, *found[0].remedies)), *found[1:]]


def _is_from_outside(one: Finding) -> bool:
    return one.severity.is_alarm and one.family.startswith(_OUTSIDE)


def _quiet(one: Finding) -> Finding:
    return replace(one, severity=Severity.INFO)


def _killed(state: RunState) -> Finding:
    return Finding(
        id=f"{_INTERRUPTED}.killed",
        severity=Severity.ERROR,
        title="The run was killed",
        cause="Somebody, or the system for want of memory, killed the training process.",
        evidence=(Evidence(state.reason or "", step=state.step),),
        remedies=(Remedy("Look into dmesg or the job's events for an out-of-memory kill."),),
        onset_step=state.step,
        confidence=0.5,
    )
