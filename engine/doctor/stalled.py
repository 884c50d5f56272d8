"""Rule for stalled runs: which process blocks the run, in what state, and how to continue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from engine.base import jsonl
from engine.base.follow import last_lines
from engine.findings.finding import Change, Evidence, Finding, Remedy, Severity
from engine.findings.symptom import Case, Symptom
from engine.runs.rundir import RunDir
from engine.runs.state import RunState

_LINES, _BYTES = 400, 1 << 20


def stall_findings(run: RunDir, state: RunState) -> list[Finding]:
    """Return where a run is stalled, or was when it ended, and what the system refused; empty for a
    run that makes progress."""
    return [*_stall_findings(run, state), *_system_findings(run, state)]


def _stall_findings(run: RunDir, state: RunState) -> list[Finding]:
    if state.state != "stalled" and (not state.has_ended or state.went_well):
        return []
    event = _last_stall(run, state)
    if event is None:
        return []
    process, pid = jsonl.line(event.get("process")), jsonl.integer(event.get("pid"))
    reason = jsonl.line(event.get("reason")) or "no step was logged"
    kind = str(event.get("kind"))
    kind = kind if kind in STALLED else "unknown"
    values = {
        "process": process,
        "pid": pid,
        "process_state": jsonl.line(event.get("process_state")),
        "place": jsonl.line(event.get("place")),
    }
    symptom, case = STALLED[kind], Case(onset=state.step)
    advice: Iterable[Remedy] = symptom.remedies(case)
    if kind == "stopped":
        advice = _continue_process(pid) if pid is not None and not state.has_ended else ()
    finding = symptom.finding(
        case,
        Evidence(reason, str(run.events), step=state.step, values=values),
        *_stacks(run, state, event),
        remedies=(*advice, _resume(run, state)),
        who=f"{process} {pid}" if process and pid is not None else "the run",
        reason=reason,
    )
    return [finding]


def _system_findings(run: RunDir, state: RunState) -> list[Finding]:
    """Return what the system kept the supervisor from doing in the newest attempt; empty for a run
    that did every step all the same."""
    if state.went_well:
        return []
    message = None
    for raw in last_lines(run.events, _LINES, _BYTES):
        event = jsonl.parse_line(raw) or {}
        if event.get("event") == "start":
            message = None
        elif event.get("event") == "warning" and event.get("kind") == "system":
            message = jsonl.line(event.get("message"))
    if message is None:
        return []
    evidence = Evidence(message, str(run.events), step=state.step)
    return [SYSTEM.finding(Case(onset=state.step), evidence, message=message)]


SYSTEM = Symptom(
    id="stalled.system",
    title="The system did not let the supervisor work: {message}",
    cause="Its folder or file system was away, an input/output failed, or the machine ran out of "
    "files or memory. The supervisor tried again and left the trainer alone; the trainer may have "
    "met the same.",
    shape="the run log has a warning of the kind `system`, and the run did not do every step",
    severity=Severity.WARNING,
    remedies=lambda _: (
        Remedy("Check the file system of the run (df, mount, dmesg) and the limits (ulimit -n)"),
    ),
    confidence=0.5,
    source="answers of the system to calls of the supervisor",
)


def _continue_process(pid: int) -> tuple[Remedy, ...]:
    command = Change("command", "signal", f"kill -CONT {pid}")
    return (Remedy("Let the process continue", (command,), "the run continues where it was"),)


STALLED = {
    kind: Symptom(
        id=f"stalled.{kind}",
        title=f"No progress: {title}",
        cause=f"The supervisor saw: {{reason}}. {cause}",
        shape=f"the run is stalled, or ended without a step after it had stalled; the supervisor's "
        f"event `stall` names the kind `{kind}`",
        ruled_out="a stall that was followed by steps",
        remedies=lambda _, advice=advice: (Remedy(advice),) if advice else (),  # type: ignore[misc]
        confidence=0.5 if kind == "unknown" else 0.9,
        source="process states of Linux's proc(5), stacks by py-spy",
    )
    for kind, title, cause, advice in (
        (
            "stopped",
            "{who} is stopped",
            "A user, a debugger or a batch system sent it SIGSTOP; the others wait for it.",
            "Let the process continue (kill -CONT)",
        ),
        (
            "disk",
            "{who} is waiting for a disk",
            "The kernel is waiting for a device or a network file system; until then the process "
            "cannot be killed.",
            "Check the file system with df, mount and dmesg; a network share may be unavailable",
        ),
        (
            "zombie",
            "{who} has exited (zombie process)",
            "Other processes are waiting for a reply that it can no longer send.",
            "Stop the run and resume it: an exited process cannot reply",
        ),
        (
            "spinning",
            "{who} is busy in a loop",
            "Other processes are waiting for an endless or very slow loop.",
            "Check the loop; py-spy dump --pid shows its current line",
        ),
        (
            "judge",
            "{who} is waiting for the judge",
            "A call without a time limit waits until the server replies.",
            "Test the judge on its own, and set a time limit for its calls: judge.timeout_s",
        ),
        (
            "code",
            "{who} is stuck in a function",
            "That function does not return; all other processes wait for it.",
            "Set a time limit for what the function waits for, or fix the loop in it",
        ),
        (
            "waiting",
            "the run's processes are waiting for each other",
            "A lost message or a deadlock: every process is waiting for another one.",
            "Stop the run and resume it; set NCCL_DEBUG=INFO if several ranks are involved",
        ),
        (
            "unknown",
            "the location is unknown",
            "No stack could be read; py-spy needs permission to inspect processes.",
            "",
        ),
    )
}


def _last_stall(run: RunDir, state: RunState) -> Mapping[str, Any] | None:
    """Return the last stall of the newest attempt, unless a step or a continuation followed."""
    stall = None
    for raw in last_lines(run.events, _LINES, _BYTES):
        event = jsonl.parse_line(raw) or {}
        if event.get("event") in ("start", "continued"):
            stall = None
        elif event.get("event") == "stall":
            stall = event
    step = None if stall is None else jsonl.integer(stall.get("step"))
    return stall if (step or 0) >= (state.step or 0) else None


def _stacks(run: RunDir, state: RunState, event: Mapping[str, Any]) -> tuple[Evidence, ...]:
    name = jsonl.line(event.get("stacks")) or ""
    path = run.attempt(max(1, state.attempt)).path / name
    if not name or "/" in name or not path.is_file():
        return ()
    return (Evidence("stacks of driver and workers at that time", str(path)),)


def _resume(run: RunDir, state: RunState) -> Remedy:
    if not state.has_ended:
        return Remedy(f"Stop the run now and resume it: grubrics-tui stop {run.id}")
    return Remedy(f"Resume from the last complete checkpoint: grubrics-tui resume {run.id}")
