"""A titled frame around one picture of a run."""

from __future__ import annotations

from textual.containers import Vertical
from textual.content import Content

from grubrics_tui.model.history import History
from grubrics_tui.text.formats import percent
from grubrics_tui.widgets.cached_lines import Still


class Panel(Still, Vertical):
    """Base of the live screen's panels: ``TITLE`` stands above, what it measures below."""

    DEFAULT_CSS = """
    Panel {
        border: round $line;
        border-title-color: $quiet;
        border-subtitle-color: $quiet;
        padding: 0 1;
        &.-current { border: round $line-focus; border-title-color: $primary; }
    }
    """

    TITLE = ""
    DETAIL = ""

    _title = _note = ""

    def label(self, number: int) -> None:
        """Put the panel's key and name into its frame; those beyond the ninth have no key."""
        title = f"{number} {self.TITLE}" if number < 10 else self.TITLE
        if title != self._title:
            self._title = title
            self.border_title = Content(title)  # Content: the name of a metric is no markup.
        if self.DETAIL:
            self.note(self.DETAIL)

    def note(self, text: str) -> None:
        """Put a remark into the lower edge of the frame, which is drawn anew only then."""
        if text != self._note:
            self._note = text
            self.border_subtitle = Content(text)

    def show(self, history: History) -> None:
        """Draw what the history holds now. Nothing is drawn when nothing changed."""
        raise NotImplementedError


def waiting_hint(history: History) -> str:
    """What an empty picture says: why there is nothing yet."""
    state = history.state
    if state is None:
        return "reading the run's files"
    if history.read_share < 1:
        return f"reading the history: {percent(history.read_share)}"
    if state.state == "foreign":
        return "no such numbers in it" if history.columns.names else "no step in it yet"
    if history.columns.names:
        return "none was logged" if state.has_ended else "none logged yet"
    if state.has_ended:
        return "the run ended before its first step"
    return f"no step yet: waiting for {state.waiting_for or 'the first step'}"
