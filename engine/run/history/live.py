"""Poll the files of a run: everything new since the last poll, for a screen or a pipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.base.files import version_of
from engine.base.follow import Tail, near_end
from engine.base.typed import S, decode_record
from engine.run.events import Event
from engine.run.history.sweep import Sweep, read_sweep, sweep_path
from engine.run.history.train_log import Step, newest_step
from engine.run.run import Run, exists
from engine.run.state import UNREADABLE, UNREADABLE_WORD, RunState, observe, observed_state
from engine.run.system_sample import SystemSample

if TYPE_CHECKING:
    from engine.run.history.columns import Batch

_CONSOLE_TAIL = 512 * 1024
_SYSTEM_TAIL = 1024 * 1024
_STEPS_AT_ONCE = 2 * 1024 * 1024


@dataclass(frozen=True)
class Update:
    """What a run's files gained between two polls. ``Columns.update`` takes it over."""

    state: RunState
    batch: Batch
    """The new steps."""
    console: list[bytes]
    """Raw console lines, control sequences included."""
    system: list[SystemSample]
    events: list[Event]
    read_share: float = 1.0
    """How much of the history has been read. Below 1, poll again at once."""
    newest: Step | None = None
    """The last step there is, where it was found before the history had been read."""
    sweep: Sweep | None = None
    """The checkpoints as measured, where that is new."""
    restarted: bool = False
    """The history was truncated or replaced: its steps come again from the first, and none that
    came before counts."""


class RunWatch:
    """Polls one run's files. Cheap when nothing changed; never writes.

    Of a console log or a machine's samples that are already long, only the last part is read. A
    long history comes in parts, oldest first; with the first part comes the newest step.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self._steps = Tail(run.train_log)
        self._newest: Step | None = None
        self._events = Tail(run.events)
        self._state = UNREADABLE
        self._attempt = 0
        self._console: Tail | None = None
        self._system: Tail | None = None
        self._sweep_version: tuple[int, int, int] | None = None

    def poll(self) -> Update:
        """The state now, and complete lines that are new. The state is read first, so an ended
        state never comes before the last lines."""
        from engine.run.history.columns import Batch  # numpy: ``poll_steps`` does without

        state = self._poll_state()
        if self._console is None or self._system is None or state.attempt != self._attempt:
            attempt, self._attempt = self.run.attempt(state.attempt), state.attempt
            self._console = Tail(attempt.console, near_end(attempt.console, _CONSOLE_TAIL))
            self._system = Tail(attempt.system, near_end(attempt.system, _SYSTEM_TAIL))
        restarts = self._steps.restarts
        batch = Batch.from_lines(self._steps.lines(_STEPS_AT_ONCE))
        # A torn last line stays unread and must not look like a history that is still coming.
        behind = self._steps.behind()
        is_complete = not batch or behind < _STEPS_AT_ONCE // 2
        is_restarted = self._steps.restarts != restarts
        if is_complete or is_restarted:
            self._newest = None
        if not is_complete and self._newest is None:
            self._newest = newest_step(self.run.train_log)
        return Update(
            state=state,
            batch=batch,
            console=self._console.lines(),
            system=_records(self._system, SystemSample),
            events=_records(self._events, Event),
            sweep=self._poll_sweep(),
            read_share=1.0 if is_complete else 1 - behind / self._steps.size(),
            newest=self._newest,
            restarted=is_restarted,
        )

    def poll_steps(self) -> tuple[RunState, list[Step]]:
        """The state now and all new steps, for a pipe. Use either this or ``poll``."""
        state = self._poll_state()
        parsed = map(Step.parse, self._steps.lines())
        return state, [step for step in parsed if step is not None]

    def _poll_sweep(self) -> Sweep | None:
        version = version_of(sweep_path(self.run))
        if version is None or version == self._sweep_version:
            return None
        self._sweep_version = version
        return read_sweep(self.run)

    def _poll_state(self) -> RunState:
        """A state file that cannot be read just now is no end: a live supervisor replaces it."""
        state = observed_state(self.run)
        if state.word == UNREADABLE_WORD and exists(str(self.run.path)):
            state = observe(self._state, self.run)
        self._state = state
        return state


def _records(tail: Tail, kind: type[S]) -> list[S]:
    """The records in the lines that are new."""
    return [record for line in tail.lines() if (record := decode_record(line, kind)) is not None]
