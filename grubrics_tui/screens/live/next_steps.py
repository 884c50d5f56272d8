"""What to do with a run that has ended or stalled, the likeliest first."""

from __future__ import annotations

from engine.findings.categories import find_category
from engine.findings.finding import Finding, launchable
from engine.runs.state import RunState
from grubrics_tui.model.history import History

NextStep = tuple[str, str]
"""An action of the registry, and what it does here."""

_SUMMARY, _ENTRY = ("verdict", "summary"), ("log_entry", "log entry")
_FINDINGS, _STOP = ("findings", "findings"), ("stop", "stop")


def next_steps(
    history: History,
    resume_step: int | None = None,
    *,
    shows_error: bool = False,
    is_command: bool = False,
) -> list[NextStep]:
    """``resume_step`` is the checkpoint from which the run can be resumed (0: the start), None if
    it cannot. ``shows_error``: the log opens at the line that proves the first finding.
    ``is_command``: the run executes a command, which can only be run again."""
    state = history.state
    if state is None or state.state == "foreign":
        return []
    if state.state == "stalled":
        return [_FINDINGS, _STOP]
    if not state.has_ended:
        return []
    fix = [("apply_remedy", "fix")] if launchable(history.findings) and not is_command else []
    is_unhealthy = history.health is not None and history.health.finding is not None
    about = [*fix, _FINDINGS] if is_unhealthy else []
    if is_command:
        resume = [("relaunch", "run again")]
    else:
        resume = [] if resume_step is None else [("resume", _resume_label(state, resume_step))]
    if state.state == "finished":
        return [*resume, *about, _SUMMARY, _ENTRY]
    root = first_alert(history)
    look = [("open_log", "log at the error" if shows_error else "log")]
    look += [_FINDINGS] if root is not None else []
    again = [*fix, *look, *resume] if fix and not _is_outside(root) else [*resume, *look, *fix]
    return again if is_command else [*again, ("reproduce", "reproduce")]


def first_alert(history: History) -> Finding | None:
    """The root cause, or the worst of the alerts."""
    return next((finding for finding in history.findings if finding.severity.is_alarm), None)


def _is_outside(root: Finding | None) -> bool:
    """Whether the cause lies outside of the config, so that the run can continue as it is."""
    return root is not None and find_category(root.category).resumable


def _resume_label(state: RunState, step: int) -> str:
    """``resume from step 10 (3 steps again)``."""
    again = max(0, (state.step or 0) - step)
    repeats = f" ({again} step{'' if again == 1 else 's'} again)" if again else ""
    return f"resume from step {step}{repeats}" if step else f"resume from the start{repeats}"
