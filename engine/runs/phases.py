"""The record of a curriculum: the hash of the trained parameters at each edge of a phase."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from engine.base import jsonl
from engine.runs.rundir import RunDir

PHASES_FILE = "phases.jsonl"
"""In each attempt; written by ``train/phased_engine.py``."""


@dataclass(frozen=True)
class PhaseEdge:
    """The start or the end of a phase. ``step`` is the first or the last of the phase."""

    phase: int
    edge: str
    step: int
    parameters_sha256: str


def read_phase_edges(run: RunDir) -> Iterator[PhaseEdge]:
    """The edges in the order they were reached, over all attempts of the run."""
    for attempt in run.attempts():
        for line in jsonl.read(attempt.path / PHASES_FILE):
            phase, step = jsonl.integer(line.get("phase")), jsonl.integer(line.get("step"))
            edge, digest = jsonl.line(line.get("edge")), jsonl.line(line.get("parameters_sha256"))
            if phase is not None and step is not None and edge and digest:
                yield PhaseEdge(phase, edge, step, digest)


def find_broken_chain(edges: Iterable[PhaseEdge]) -> PhaseEdge | None:
    """The first start of a phase whose parameters are not those at the end of the phase before."""
    ends: dict[int, str] = {}
    for edge in edges:
        if edge.edge == "end":
            ends[edge.phase] = edge.parameters_sha256
        elif edge.phase > 1 and ends.get(edge.phase - 1) != edge.parameters_sha256:
            return edge
    return None
