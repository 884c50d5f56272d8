"""A titled frame around one picture of a run."""

from __future__ import annotations

from textual.containers import Vertical

from grubrics_tui.history import History


class Panel(Vertical):
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

    def label(self, number: int) -> None:
        """Put the panel's key and name into its frame."""
        self.border_title = f"{number} {self.TITLE}"
        self.border_subtitle = self.DETAIL

    def show(self, history: History) -> None:
        """Draw what the history holds now. Nothing is drawn when nothing changed."""
        raise NotImplementedError


def waiting_hint(history: History) -> str:
    """What an empty picture says: why there is nothing yet."""
    state = history.state
    if state is None:
        return "reading the run's files"
    if state.has_ended:
        return "the run ended before its first step"
    return f"no step yet: waiting for {state.waiting_for or 'the first step'}"
