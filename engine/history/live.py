"""A run as it goes on: everything new since the last look, for a screen or a pipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.base import jsonl
from engine.base.follow import Tail, near_end
from engine.history.train_log import Step
from engine.runs.rundir import RunDir
from engine.runs.state import UNREADABLE, RunState, observe, observed_state

if TYPE_CHECKING:
    from engine.history.columns import Batch

_CONSOLE_TAIL = 512 * 1024
_SYSTEM_TAIL = 1024 * 1024
_STEPS_AT_ONCE = 2 * 1024 * 1024


@dataclass(frozen=True)
class Update:
    """What a run's files gained between two looks."""

    state: RunState
    steps: list[Step]
    console: list[bytes]
    """Raw console lines: control sequences and all."""
    system: list[dict[str, Any]]
    events: list[dict[str, Any]]
    batch: Batch | None = None
    """The steps as columns, for who asked for them so; ``steps`` is then empty."""
    read_share: float = 1.0
    """How much of the history has been read; below 1 the next look goes on with it at once."""
    newest: Step | None = None
    """The last step there is, where it was found before the history had been read."""
    anew: bool = False
    """The history was cut or replaced: its steps come again from the first, and none that came
    before counts."""


class RunWatch:
    """Polls one run's files. Cheap when nothing changed; never writes.

    Of a console log or a machine's samples that are already long, only the last part is read.
    With ``columns`` steps come as a ``Batch`` and a long history comes in parts, oldest first.
    """

    def __init__(self, run: RunDir, *, columns: bool = False) -> None:
        self.run = run
        self._columns = columns
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
        before = self._steps.restarts
        batch = self._read_batch() if self._columns else None
        steps = [] if self._columns else self._read_steps()
        return Update(
            state=state,
            steps=steps,
            console=self._console.lines(),
            system=_records(self._system),
            events=_records(self._events),
            batch=batch,
            read_share=self._read_share(batch),
            anew=self._steps.restarts != before,
        )

    def _read_steps(self) -> list[Step]:
        return [s for record in _records(self._steps) if (s := Step.from_json(record))]

    def _read_batch(self) -> Batch:
        from engine.history.columns import Batch  # numpy: of no use to a pipe

        return Batch.from_lines(self._steps.lines(_STEPS_AT_ONCE))

    def _read_share(self, batch: Batch | None) -> float:
        # A torn last line stays unread and must not look like a history that is still coming.
        if not batch or self._steps.behind() < _STEPS_AT_ONCE // 2:
            return 1.0
        return 1 - self._steps.behind() / self._steps.size()

    def _look(self) -> RunState:
        """A state file that cannot be read just now is no end: a live supervisor replaces it."""
        state = observed_state(self.run)
        if state == UNREADABLE and self.run.path.exists():
            state = observe(self._state, self.run)
        self._state = state
        return state

    def _follow(self, number: int) -> None:
        if number == self._attempt:
            return
        self._attempt = number
        attempt = self.run.attempt(number)
        self._console = Tail(attempt.console, near_end(attempt.console, _CONSOLE_TAIL))
        self._system = Tail(attempt.system, near_end(attempt.system, _SYSTEM_TAIL))


def _records(tail: Tail) -> list[dict[str, Any]]:
    return [record for line in tail.lines() if (record := jsonl.parse_line(line)) is not None]
