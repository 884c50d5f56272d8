"""A run that did all it was asked to and is sick all the same: what its end is told with."""

from __future__ import annotations

from contextlib import suppress

from engine.doctor.console import Stopped, never
from engine.doctor.finding import Finding, Severity
from engine.doctor.live import RunFollower
from engine.runs.rundir import RunDir
from engine.runs.state import RunState, observed_state

_GRAVE = (Severity.CRITICAL, Severity.ERROR)


def sickness(
    run: RunDir, state: RunState | None = None, stopped: Stopped = never
) -> Finding | None:
    """The root of what makes the numbers of a finished or stopped run useless; None for another
    one, which says itself that something is wrong, and where nothing could be looked at.

    ``stopped`` ends a look that nobody waits for any more.
    """
    if (state or observed_state(run)).state != "finished":
        return None
    with suppress(Exception):  # A folder that is being deleted, a rule that breaks.
        found = RunFollower(run).look(stopped)[1]
        return next((one for one in found if one.severity in _GRAVE), None)
    return None


def sick_phrase(finding: Finding) -> str:
    """``sick: kl_or_grad_blowup since step 3``, to stand behind the state."""
    since = "" if finding.onset_step is None else f" since step {finding.onset_step}"
    return f"sick: {finding.family}{since}"
