"""Rule for a checkpoint that the host's memory has no room for, before it is saved."""

from __future__ import annotations

import os
from pathlib import Path

from engine.base import jsonl
from engine.base.follow import last_lines
from engine.estimate.breakdown import size
from engine.findings.finding import Evidence, Finding, Remedy, Severity
from engine.findings.symptom import Case, Symptom
from engine.runs.rundir import RunDir
from engine.runs.state import RunState

_LINES, _BYTES = 2, 1 << 18

NO_ROOM = Symptom(
    id="host_oom.next_save",
    severity=Severity.WARNING,
    title="The next checkpoint may not fit into the host's memory",
    cause="Saving takes about {needed} of the host's memory (weights and optimizer states), and "
    "{free} of {total} are free. The system may then kill a process of the run.",
    shape="a run with a checkpoint ahead, while the newest sample of the host has less free memory "
    "than the weights and optimizer states of its GPUs",
    ruled_out="models of unknown dimensions; runs that save nothing",
    remedies=lambda _: (
        Remedy("End other programs on the host before the save"),
        Remedy("Resume with data.dataloader_num_workers=0, if it is more"),
    ),
    confidence=0.6,
    source="debug guide of GRubrics: memory peaks at the last checkpoint, by 40 GB",
)


class SaveMemory:
    """Compares the free memory of the host with what the next checkpoint of a run needs."""

    def __init__(self, run: RunDir) -> None:
        self._run = run
        self._needed: int | None = None

    def findings(self, state: RunState) -> list[Finding]:
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
        text = f"{size(free)} of {size(total)} free, {size(self._needed)} needed"
        finding = NO_ROOM.finding(
            Case(onset=state.step),
            Evidence(text, str(path), step=state.step, values=values),
            needed=size(self._needed),
            free=size(free),
            total=size(total),
        )
        return [finding]


def _newest_memory(system: Path) -> tuple[int, int] | None:
    """Return the free and the total bytes of the host's memory, of the newest sample."""
    if not system.is_file():
        return None
    for line in reversed(list(last_lines(system, _LINES, _BYTES))):
        sample = jsonl.parse_line(line) or {}
        total, used = jsonl.number(sample.get("mem_total")), jsonl.number(sample.get("mem_used"))
        if total is not None and used is not None:
            return int(total - used), int(total)
    return None


def _bytes_of_save(run: RunDir) -> int:
    """Return the bytes that a save takes; 0 if that is unknown or the run saves nothing."""
    # Most commands of the doctor need no estimate: start-up time.
    from engine.estimate.memory import SAVED
    from engine.estimate.report import sizes_of
    from engine.recipe.recipe import load_recipe

    try:
        sizes = sizes_of(load_recipe(str(run.recipe), env={}), os.environ, None)
    except Exception:  # The run was launched with this config: what is missing has gone since.
        return 0
    if sizes is None or sizes.kept == 0:
        return 0
    return next((part.bytes for part in sizes.memory.host.parts if part.name == SAVED), 0)
