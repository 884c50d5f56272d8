"""What happened to the runs of a folder since the user was here last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import structs

from engine.run.columns import RunRow
from engine.run.registry import list_runs
from engine.run.run import Run
from engine.supervise.queue import QueueLog

_LATEST = 20
"""Ended runs that the first visit shows, and later ones of those that ended before."""


@dataclass(frozen=True)
class News:
    """``since`` is the last visit in Unix seconds; None at the first one, where ``ended`` are the
    runs that ended last. ``last`` is the run that ended last; ``remaining`` maps IDs of active runs
    to the seconds until their last step."""

    active: Sequence[RunRow] = ()
    ended: Sequence[RunRow] = ()
    queued: Sequence[RunRow] = ()
    earlier: Sequence[RunRow] = ()
    """The runs that ended last before ``since``."""
    last: RunRow | None = None
    total: int = 0
    since: float | None = None
    remaining: Mapping[str, float] = field(default_factory=dict)

    @property
    def shown(self) -> Sequence[RunRow]:
        """The runs from top to bottom; where nothing happened, the last one."""
        runs = [*self.active, *self.ended, *self.queued]
        last = [self.last] if self.last is not None and not runs else []
        return [*runs, *last, *(run for run in self.earlier if run not in last)]


def read_news(root: Path, since: float | None) -> News:
    """The news of a runs folder. OSError if it cannot be read."""
    runs = list_runs(root)
    active = [run for run in runs if not run.state.has_ended and run.state.state != "queued"]
    ended = sorted((run for run in runs if run.state.has_ended), key=_end, reverse=True)
    news = ended[:_LATEST] if since is None else [run for run in ended if _end(run) >= since]
    times = {run.id: _remaining(root, run) for run in active}
    return News(
        # A heartbeat is not shown: without it, news that look the same are equal.
        [structs.replace(run, state=run.state.evolve(heartbeat=None, beat=None)) for run in active],
        news,
        _in_order(root, [run for run in runs if run.state.state == "queued"]),
        [run for run in ended if since is not None and _end(run) < since][:_LATEST],
        last=next(iter(ended), None),
        total=len(runs),
        since=since,
        remaining={run: seconds for run, seconds in times.items() if seconds is not None},
    )


def _end(run: RunRow) -> float:
    """When it ended; a lost run ended unseen, after its last heartbeat."""
    return run.state.ended or run.state.heartbeat or run.started or 0.0


def _in_order(root: Path, queued: Sequence[RunRow]) -> list[RunRow]:
    """The queued runs by their place in the queue."""
    if not queued:
        return []
    log = QueueLog(root)
    log.refresh()
    by_id = {run.id: run for run in queued}
    return [by_id[run] for run in log.in_order(by_id)]


def _remaining(root: Path, run: RunRow) -> float | None:
    """Seconds to the last step at the pace of the last steps; None for a run that makes none."""
    state = run.state
    if state.state != "running" or state.step is None or state.total_steps is None:
        return None
    from engine.run.history.train_log import recent_step_time  # Start-up time.

    step_s = recent_step_time(Run(root / run.id).train_log)
    return None if step_s is None else max(0, state.total_steps - state.step) * step_s
