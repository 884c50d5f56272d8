"""What every screen above another does when it asks in threads."""

from __future__ import annotations

from textual.screen import ModalScreen, ScreenResultType
from textual.worker import Worker

from grubrics_tui.screens.base import tell_fault


class Dialog(ModalScreen[ScreenResultType]):
    """A thread that dies is told to the person, who would wait for its answer in vain."""

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        tell_fault(self, event)
