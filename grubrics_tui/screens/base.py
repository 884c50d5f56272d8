"""What every full screen does: say what went wrong in its threads."""

from __future__ import annotations

from textual.screen import Screen
from textual.worker import Worker, WorkerState


class CockpitScreen(Screen[None]):
    """A thread that dies is told to the person, and the screen goes on with what it has."""

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR:
            error = event.worker.error
            text = f"{type(error).__name__}: {error}"
            self.notify(text, title="could not be read", severity="error", markup=False)
