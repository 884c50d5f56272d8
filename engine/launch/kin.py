"""What a run made from another one says about it: a twin's verdict, whether a remedy helped."""

from __future__ import annotations

from collections.abc import Sequence

from engine.base.errors import UsageError
from engine.doctor.console import Stopped, never
from engine.doctor.live import RunFollower
from engine.findings.finding import Finding
from engine.launch.twin_verdict import verdict
from engine.runs.rundir import Attempt, RunDir, check_id
from engine.runs.state import RunState


class Kin:
    """The run that ``run`` was made from, and what is wrong with that one."""

    def __init__(self, run: RunDir) -> None:
        parent = run.read_manifest().get("parent") or {}
        self._name, self._relation = parent.get("run", ""), parent.get("relation")
        original = _beside(run, self._name)
        self._original = original
        self._doctor = RunFollower(original) if original is not None else None

    def told(self, state: RunState, found: Sequence[Finding], stopped: Stopped = never) -> str:
        """One sentence; empty for a run that was made from no other.

        ``state`` and ``found`` are of the run itself. OSError where files cannot be read.
        """
        if not self._name:
            return ""
        if self._doctor is None or self._original is None or not self._original.manifest.is_file():
            return f"{self._relation} of {self._name}, which is not there any more"
        theirs, trouble = self._doctor.look(stopped)
        attempt = self._original.attempt(theirs.attempt)
        if self._relation == "reproduction":
            return f"twin of {self._name}: {_of_twin(state, found, theirs, trouble, attempt)}"
        return f"remedy of {self._name}: {_help(state, found, theirs, trouble)}"


def _beside(run: RunDir, name: str) -> RunDir | None:
    try:
        original = RunDir(run.path.parent / check_id(name))
    except UsageError:
        return None
    return original if original.manifest.is_file() and original.path != run.path else None


def _of_twin(
    state: RunState,
    found: Sequence[Finding],
    theirs: RunState,
    trouble: Sequence[Finding],
    attempt: Attempt,
) -> str:
    if not state.has_ended:
        return "its end will say where the cause lies"
    return verdict(theirs, trouble, state, found, attempt).text


def _help(
    state: RunState, found: Sequence[Finding], theirs: RunState, trouble: Sequence[Finding]
) -> str:
    """Whether the root trouble of the original is gone, once the run has come as far."""
    root = next((one for one in trouble if one.severity.is_alarm), None)
    if root is None:
        return "nothing is wrong with that one by now"
    if any(one.family == root.family and one.severity.is_alarm for one in found):
        return f"it did not help, {root.family} is there again"
    onset, step = root.onset_step or theirs.step or 0, state.step or 0
    if step <= onset and not state.went_well:
        return f"it is too early to say (step {step}; {root.family} came at {onset})"
    others = [one.family for one in found if one.severity.is_alarm]
    more = f", but now there is {', '.join(dict.fromkeys(others))}" if others else ""
    return f"it helped, {root.family} is gone at step {step}{more}"
