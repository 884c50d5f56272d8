"""Rules on the files of a run beside its console and metrics: what blocks a stalled run, what the
system refused, the memory for the next checkpoint, metrics that were never read, a damaged
config."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from engine.base import jsonl
from engine.base.follow import last_lines
from engine.base.quantities import format_size
from engine.base.typed import decode_record
from engine.doctor.finding_kinds import KINDS
from engine.logs.formats.pattern import is_pattern
from engine.run.events import Event
from engine.run.finding import Change, Evidence, Finding, Fix
from engine.run.finding_kind import Case
from engine.run.run import Run
from engine.run.state import RunState
from engine.run.system_sample import SystemSample

_LATE_S = 600.0
"""A program may load a model before it writes its first metrics."""


class RunFiles:
    """Diagnoses a run by its files; reads its config and computes the size of its checkpoints only
    once."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._needed: int | None = None
        self._config: list[Finding] | None = None

    def findings(self, state: RunState) -> list[Finding]:
        if self._config is None:
            self._config = _damaged_config(self._run)
        return [
            *self._config,
            *_stall_findings(self._run, state),
            *_system_findings(self._run, state),
            *_unread_metrics(self._run, state),
            *self._next_save(state),
        ]

    def _next_save(self, state: RunState) -> list[Finding]:
        """Return a finding if the next checkpoint needs more than the free memory of the host."""
        if state.has_ended or state.step is None or state.step == state.total_steps:
            return []
        path = self._run.attempt(max(1, state.attempt)).system
        memory = _newest_memory(path)
        if self._needed is None:
            self._needed = _bytes_of_save(self._run)
        if memory is None or memory[0] >= self._needed:
            return []
        free, total = memory
        values = {"needed": self._needed, "free": free, "total": total}
        text = (
            f"{format_size(free)} of {format_size(total)} free, {format_size(self._needed)} needed"
        )
        finding = KINDS["host_oom.next_save"].finding(
            Case(onset=state.step),
            Evidence(text, str(path), step=state.step, values=values),
            needed=format_size(self._needed),
            free=format_size(free),
            total=format_size(total),
        )
        return [finding]


def _damaged_config(run: Run) -> list[Finding]:
    """Say that the values of the config are not known; empty if they are, or if there are none."""
    file = run.settings_file
    if not file.exists() or run.read_config():
        return []
    evidence = Evidence("no values of a config", str(file))
    return [KINDS["config_error.values_lost"].finding(Case(), evidence, file=file.name)]


def _stall_findings(run: Run, state: RunState) -> list[Finding]:
    """Return where a run is stalled, or was when it ended; empty for one that makes progress."""
    if state.state != "stalled" and (not state.has_ended or state.went_well):
        return []
    # A stall is over if a step or a continuation followed.
    event = next(iter(_events(run, "stall", since=("start", "continued"))[-1:]), None)
    if event is None or (event.step or 0) < (state.step or 0):
        return []
    process, pid = event.process, event.pid
    reason = jsonl.line(event.reason) or "no step was logged"
    finding_kind = KINDS.get(f"stalled.{event.kind}", KINDS["stalled.unknown"])
    values = {
        "process": process,
        "pid": pid,
        "process_state": event.process_state,
        "place": event.place,
    }
    case = Case(onset=state.step)
    advice = finding_kind.fixes(case)
    if event.kind == "stopped":
        command = Change("command", "signal", f"kill -CONT {pid}")
        effect = "the run continues where it was"
        fix = Fix("Let the process continue", (command,), effect)
        advice = () if pid is None or state.has_ended else (fix,)
    resume = f"Stop the run now and resume it: grubrics-tui stop {run.id}"
    if state.has_ended:
        resume = f"Resume from the last complete checkpoint: grubrics-tui resume {run.id}"
    finding = finding_kind.finding(
        case,
        Evidence(reason, str(run.events), step=state.step, values=values),
        *_stacks(run, state, event),
        fixes=(*advice, Fix(resume)),
        who=f"{process} {pid}" if process and pid is not None else "the run",
        reason=reason,
    )
    return [finding]


def _system_findings(run: Run, state: RunState) -> list[Finding]:
    """Return what the system kept the supervisor from doing in the newest attempt; empty for a run
    that did every step nevertheless."""
    if state.went_well:
        return []
    warnings = _events(run, "warning", since=("start",))
    messages = [jsonl.line(event.message) for event in warnings if event.kind == "system"]
    if not messages or not (message := messages[-1]):
        return []
    evidence = Evidence(message, str(run.events), step=state.step)
    return [KINDS["stalled.system"].finding(Case(onset=state.step), evidence, message=message)]


def _events(run: Run, name: str, since: Sequence[str]) -> list[Event]:
    """Return the events of a name after the last one whose name is in ``since``."""
    found: list[Event] = []
    for line in last_lines(run.events, 400, 1 << 20):
        event = decode_record(line, Event)
        if event is None:
            continue
        if event.name in since:
            found.clear()
        elif event.name == name:
            found.append(event)
    return found


def _stacks(run: Run, state: RunState, event: Event) -> tuple[Evidence, ...]:
    name = event.stacks
    path = run.attempt(max(1, state.attempt)).path / name
    if not name or "/" in name or not path.is_file():
        return ()
    return (Evidence("stacks of driver and workers at that time", str(path)),)


def _newest_memory(system: Path) -> tuple[int, int] | None:
    """Return the free and the total bytes of the host's memory, of the newest sample."""
    if not system.is_file():
        return None
    for line in reversed(list(last_lines(system, 2, 1 << 18))):
        sample = decode_record(line, SystemSample) or SystemSample()
        if sample.mem_total is not None and sample.mem_used is not None:
            return sample.mem_total - sample.mem_used, sample.mem_total
    return None


def _bytes_of_save(run: Run) -> int:
    """Return the bytes that a save takes; 0 if that is unknown or the run saves nothing."""
    # Most commands of the doctor need no estimate: start-up time.
    from engine.checks.estimate.memory import SAVED
    from engine.checks.estimate.report import sizes_of
    from engine.config.load import load_config
    from engine.config.steps import step_plan

    try:
        config = load_config(str(run.config_file), env={})
        sizes = sizes_of(config, os.environ, None, step_plan(config))
    except Exception:  # The run was launched with this config: what is missing has gone since.
        return 0
    if sizes is None or sizes.kept == 0:
        return 0
    return next((part.bytes for part in sizes.memory.host.parts if part.name == SAVED), 0)


def _unread_metrics(run: Run, state: RunState) -> list[Finding]:
    """Why a command has no steps although its metrics were named; empty if it has some."""
    if state.step is not None or state.started is None or state.state == "queued":
        return []
    if not state.has_ended and time.time() - state.started < _LATE_S:
        return []
    manifest = run.read_manifest()
    given = manifest.metrics
    if not manifest.is_command or not given or run.train_log.exists():
        return []
    problem = _problem(given, manifest.working_folder)
    evidence = Evidence(f"--metrics {given}: {problem}", str(run.manifest_file))
    return [
        KINDS["config_error.metrics_not_read"].finding(
            Case(), evidence, given=given, problem=problem
        )
    ]


def _problem(given: str, cwd: Path) -> str:
    if is_pattern(given):
        return "no line of the console matches the pattern"
    if not (cwd / given).exists():
        return f"{cwd / given} never appeared"
    return f"nothing new of a known format is in {cwd / given}"
