"""A run as it goes on: everything new since the last look, for a screen or a pipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine import jsonl
from engine.runs.rundir import RunDir
from engine.runs.state import UNREADABLE, RunState, observe, observed_state
from engine.watch.tail import Tail, near_end
from engine.watch.train_log import Step

_CONSOLE_TAIL = 512 * 1024


@dataclass(frozen=True)
class Update:
    """What a run's files gained between two looks."""

    state: RunState
    steps: list[Step]
    console: list[bytes]
    """Raw console lines: control sequences and all."""
    system: list[dict[str, Any]]
    events: list[dict[str, Any]]


class RunWatch:
    """Polls one run's files. Cheap when nothing changed; never writes.

    Of a console log that is already long, only the last part is read.
    """

    def __init__(self, run: RunDir) -> None:
        self.run = run
        self._steps = Tail(run.train_log)
        self._events = Tail(run.events)
        self._state = UNREADABLE
        self._attempt = 0
        self._console: Tail | None = None
        self._system: Tail | None = None

    def poll(self) -> Update:
        """The state now, and whole lines that are new. The state is read first, so an ended
        state never comes before the last lines."""
        state = self._look()
        self._follow(state.attempt)
        assert self._console is not None and self._system is not None
        return Update(
            state=state,
            steps=[s for record in _records(self._steps) if (s := Step.from_json(record))],
            console=self._console.lines(),
            system=_records(self._system),
            events=_records(self._events),
        )

    def _look(self) -> RunState:
        """A state file that cannot be read just now is no end: a live supervisor replaces it."""
        state = observed_state(self.run)
        if state == UNREADABLE and self.run.path.exists():
            state = observe(self._state)
        self._state = state
        return state

    def _follow(self, number: int) -> None:
        if number == self._attempt:
            return
        self._attempt = number
        attempt = self.run.attempt(number)
        self._console = Tail(attempt.console, near_end(attempt.console, _CONSOLE_TAIL))
        self._system = Tail(attempt.system)


def _records(tail: Tail) -> list[dict[str, Any]]:
    return [record for line in tail.lines() if (record := jsonl.parse_line(line)) is not None]
