"""What the local process of a run elsewhere says about it: of an adopted program, or a Slurm job.

Such a process, the follower, is the trainer for the supervisor: it copies the output, passes on a
stop, and ends when the run does. What an exit code cannot say is in ``follower.json``.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

from engine.base import jsonl

Outcome = Literal["exited", "stopped", "failed", "unknown", "left"]
_OUTCOMES: dict[object, Outcome] = {outcome: outcome for outcome in get_args(Outcome)}


@dataclass(frozen=True)
class Report:
    """``where`` names the run, e.g. ``Slurm job 17``.

    ``outcome`` is None until the end: ``exited`` with the follower's exit code, ``failed`` or
    ``unknown`` for ``reason``, ``stopped`` by this run, ``left`` running. ``waiting_for``: why it
    has not started. ``quiet``: why it may not be running. Times are Unix seconds where they are
    known.
    """

    where: str
    waiting_for: str | None = None
    outcome: Outcome | None = None
    reason: str | None = None
    quiet: str | None = None
    ended: float | None = None


def write_report(attempt: Path, report: Report) -> None:
    jsonl.write_json(attempt / "follower.json", {"v": 1, **asdict(report)})


def read_report(attempt: Path) -> Report | None:
    """The last report of an attempt's follower; None if there is none."""
    raw = jsonl.read_json(attempt / "follower.json")
    if raw is None:
        return None
    return Report(
        where=jsonl.line(raw.get("where")) or "the program",
        waiting_for=jsonl.line(raw.get("waiting_for")),
        outcome=_OUTCOMES.get(raw.get("outcome")),
        reason=jsonl.line(raw.get("reason")),
        quiet=jsonl.line(raw.get("quiet")),
        ended=jsonl.moment(raw.get("ended")),
    )
