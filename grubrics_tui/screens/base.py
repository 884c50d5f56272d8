"""What every full screen does: say what went wrong in its threads, and a first time its keys."""

from __future__ import annotations

from textual import events, work
from textual.binding import ActiveBinding
from textual.screen import Screen, ScreenResultType
from textual.widgets import Footer
from textual.worker import Worker, WorkerState

from grubrics_tui.settings.actions import is_changing
from grubrics_tui.settings.hints import HintFile, hint
from grubrics_tui.widgets.footer_fit import fitting
from grubrics_tui.widgets.hint_line import HintLine


class CockpitScreen(Screen[None]):
    """A thread that dies is told to the person, and the screen goes on with what it has.

    The first time a screen is opened a line names its keys. It goes with the first key, which acts
    all the same, and never comes back.
    """

    _footer_width = 0

    def on_mount(self) -> None:
        settings = getattr(self.app, "settings", None)
        # On a wall, which is what read-only is for, nobody presses the key that takes it away.
        if settings is None or settings.read_only or not settings.hints:
            return
        keys = hint(self.where, settings.keys)
        if keys and not HintFile().was_seen(self.where):
            self.mount(HintLine(keys), before=self.query_one(Footer))

    def on_key(self, event: events.Key) -> None:
        for line in self.query(HintLine):
            line.remove()
            self._keep_hint()

    @work(thread=True, group="hint", exit_on_error=False)
    def _keep_hint(self) -> None:
        HintFile().keep(self.where)

    @property
    def where(self) -> str:
        """As the action registry has it."""
        own = type(self).__name__.removesuffix("Screen").lower()
        return str(getattr(self, "WHERE", own))

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        """What the footer offers: nothing that a read-only screen would refuse, and what fits."""
        found = super().active_bindings
        settings = getattr(self.app, "settings", None)
        if settings is not None and settings.read_only:
            found = {key: one for key, one in found.items() if not is_changing(one.binding.action)}
        return fitting(found, self.app.size.width, self.app.get_key_display)

    def on_resize(self, event: events.Resize) -> None:
        if event.size.width != self._footer_width:
            self._footer_width = event.size.width
            self.refresh_bindings()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        tell_fault(self, event)


def tell_fault(screen: Screen[ScreenResultType], event: Worker.StateChanged) -> None:
    """Say what a thread of the screen died of."""
    if event.state is WorkerState.ERROR:
        error = event.worker.error
        text = f"{type(error).__name__}: {error}"
        screen.notify(text, title="could not be read", severity="error", markup=False)
