"""The base of panels: a titled frame around some values of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from textual import events
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message

from engine.base.quantities import format_percent
from grubrics_tui.model.history import History
from grubrics_tui.settings.layout import panel_title
from grubrics_tui.widgets.span_widget import CachedLines


class Panel(CachedLines, Vertical):
    """A subclass declares a panel; ``screens/live/panels.py`` lists it.

    ``NAME`` is its name in settings and in the panels of a kind of run; ``TITLE``, by default the
    name, is in the frame, and ``DETAIL`` in its lower edge. ``NEEDS`` are metrics, or prefixes of
    metrics: an external log that has none of them does not get the panel.
    """

    DEFAULT_CSS = """
    Panel {
        border: round $line;
        border-title-color: $quiet;
        border-subtitle-color: $quiet;
        padding: 0 1;
        &.-current { border: round $line-focus; border-title-color: $primary; }
    }
    """

    NAME = ""
    TITLE = ""
    DETAIL = ""
    NEEDS: ClassVar[tuple[str, ...]] = ()

    _title = _note = ""

    @dataclass
    class Clicked(Message):
        """The panel was clicked; ``twice`` in quick succession."""

        panel: Panel
        twice: bool

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.TITLE = cls.TITLE or panel_title(cls.NAME)

    def label(self, number: int) -> None:
        """Show the number key and title in the frame; panels after the ninth have no key."""
        title = f"{number} {self.TITLE}" if number < 10 else self.TITLE
        if title != self._title:
            self._title = title
            self.border_title = Content(title)  # Content: the name of a metric is no markup.
        if self.DETAIL:
            self.note(self.DETAIL)

    def note(self, text: str) -> None:
        """Show a remark in the lower edge of the frame, which is redrawn only if it changed."""
        if text != self._note:
            self._note = text
            self.border_subtitle = Content(text)

    def on_click(self, event: events.Click) -> None:
        if event.button == 1 and event.chain <= 2:
            self.post_message(self.Clicked(self, twice=event.chain == 2))

    def show(self, history: History) -> None:
        """Draw the history as it is now. Nothing is drawn if nothing changed."""
        raise NotImplementedError


def waiting_hint(history: History) -> str:
    """Return the reason why a chart has no values yet."""
    state = history.state
    if state is None:
        return "reading the run files"
    if history.read_share < 1:
        return f"reading the history: {format_percent(history.read_share)}"
    if state.state == "external":
        return "this log has no such metric" if history.columns.names else "no steps yet"
    if history.columns.names:
        return "not logged" if state.has_ended else "not logged yet"
    if state.has_ended:
        return "the run ended before its first step"
    return f"no steps yet: waiting for {state.waiting_for or 'the first step'}"
