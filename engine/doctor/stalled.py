"""A run that gets nowhere: which process holds it up, in what state, and the way on.

Shape: the run is stalled, or ended without a step after it had stalled. What its supervisor saw
is in the event ``stall``: the process that is stopped, waits for a disk, spins, was not
collected, asks the judge, or is inside a function. Ruled out: a stall after which steps came.
Source: the states of Linux' ``proc(5)``, stacks by py-spy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from engine.base import jsonl
from engine.base.tail import last_lines
from engine.findings.finding import Change, Evidence, Finding, Remedy, Severity
from engine.runs.rundir import RunDir
from engine.runs.state import RunState

_LINES, _BYTES = 400, 1 << 20


def stall_findings(run: RunDir, state: RunState) -> list[Finding]:
    """What a run hangs in, or hung in when it ended; empty for an active run."""
    if state.state != "stalled" and (not state.has_ended or state.went_well):
        return []
    event = _last_stall(run, state)
    if event is None:
        return []
    process, pid = jsonl.line(event.get("process")), jsonl.integer(event.get("pid"))
    who = f"{process} {pid}" if process and pid is not None else "the run"
    reason = jsonl.line(event.get("reason")) or "no step came"
    kind = _kind(event)
    return [
        Finding(
            f"stalled.{_kind(event)}",
            Severity.ERROR,
            f"No step comes any more: {_TITLES[kind].format(who=who)}",
            f"The supervisor saw: {reason}. {_CAUSES[kind]}",
            (
                Evidence(
                    reason,
                    str(run.events),
                    step=state.step,
                    values={
                        "process": process,
                        "pid": pid,
                        "process_state": jsonl.line(event.get("process_state")),
                        "place": jsonl.line(event.get("place")),
                    },
                ),
                *_stacks(run, state, event),
            ),
            (*_remedies(kind, pid, state), *_resume(run, state)),
            state.step,
            confidence=0.9 if kind != "unknown" else 0.5,
            source="proc(5), py-spy",
        )
    ]


_TITLES = {
    "stopped": "{who} is stopped",
    "disk": "{who} waits for a disk",
    "zombie": "{who} has ended and was not collected",
    "spinning": "{who} spins at full speed",
    "judge": "{who} waits for the judge",
    "code": "{who} is stuck in a function",
    "waiting": "its processes wait for each other",
    "unknown": "nobody can see where it hangs",
}
_CAUSES = {
    "stopped": "Somebody, a debugger or a batch system sent it SIGSTOP; all others wait for it.",
    "disk": "The kernel waits for a device or a network file system; nobody can end the process "
    "meanwhile.",
    "zombie": "The others wait for an answer that it cannot give any more.",
    "spinning": "A loop that does not end, or a very slow one, keeps the others waiting.",
    "judge": "A call without a time limit waits as long as the server keeps it.",
    "code": "That function does not return; all others wait for it.",
    "waiting": "A lost message or a deadlock: every stack waits for another process.",
    "unknown": "No stack could be read; py-spy needs the right to look at processes.",
}


def _kind(
    event: Mapping[str, Any],
) -> Literal["stopped", "disk", "zombie", "spinning", "judge", "code", "waiting", "unknown"]:
    kind = event.get("kind")
    return kind if kind in _TITLES else "unknown"


def _last_stall(run: RunDir, state: RunState) -> Mapping[str, Any] | None:
    """The last stall of the newest attempt, unless a step came or a process continued after it."""
    found = None
    for raw in last_lines(run.events, _LINES, _BYTES):
        event = jsonl.parse_line(raw) or {}
        if event.get("event") in ("start", "continued"):
            found = None
        elif event.get("event") == "stall":
            found = event
    step = None if found is None else jsonl.integer(found.get("step"))
    return found if (step or 0) >= (state.step or 0) else None


def _stacks(run: RunDir, state: RunState, event: Mapping[str, Any]) -> tuple[Evidence, ...]:
    name = jsonl.line(event.get("stacks")) or ""
    path = run.attempt(max(1, state.attempt)).path / name
    if not name or "/" in name or not path.is_file():
        return ()
    return (Evidence("the stacks of driver and workers at that time", str(path)),)


def _remedies(kind: str, pid: int | None, state: RunState) -> tuple[Remedy, ...]:
    if kind == "stopped" and pid is not None and not state.has_ended:
        command = Change("command", "signal", f"kill -CONT {pid}")
        return (Remedy("Let the process continue", (command,), "the run goes on where it was"),)
    advice = {
        "disk": "Look at the file system: df, mount, dmesg; a network share may be gone",
        "judge": "Test the judge alone, and give its calls a time limit: judge.timeout_s",
        "code": "Give what the function waits for a time limit, or mend the loop in it",
        "spinning": "Look at the loop at that place; py-spy dump --pid shows where it is now",
        "waiting": "Stop the run and resume it; raise NCCL_DEBUG=INFO where ranks are involved",
        "zombie": "Stop the run and resume it: what has ended does not answer any more",
    }
    text = advice.get(kind)
    return (Remedy(text),) if text else ()


def _resume(run: RunDir, state: RunState) -> tuple[Remedy, ...]:
    if not state.has_ended:
        return (Remedy(f"Stop it now and resume it: grubrics-tui stop {run.id}"),)
    return (Remedy(f"Resume it from its last complete checkpoint: grubrics-tui resume {run.id}"),)
