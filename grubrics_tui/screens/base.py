"""What every full screen does: say what went wrong in its threads."""

from __future__ import annotations

from textual.binding import ActiveBinding
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from grubrics_tui.actions import is_changing


class CockpitScreen(Screen[None]):
    """A thread that dies is told to the person, and the screen goes on with what it has."""

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        """What the footer offers: nothing that a read-only screen would refuse."""
        found = super().active_bindings
        settings = getattr(self.app, "settings", None)
        if settings is None or not settings.read_only:
            return found
        return {key: one for key, one in found.items() if not is_changing(one.binding.action)}

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR:
            error = event.worker.error
            text = f"{type(error).__name__}: {error}"
            self.notify(text, title="could not be read", severity="error", markup=False)
