"""Choose a metric by typing part of its name."""

from __future__ import annotations

from collections.abc import Mapping

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from engine.history.columns import Column
from grubrics_tui.settings.actions import bindings
from grubrics_tui.text.fuzzy import ranked
from grubrics_tui.widgets.metric_list import Choice, MetricList


class ChooseMetric(ModalScreen[str]):
    """Returns a metric, or None. ``metrics`` are shown with the values of one run."""

    WHERE = "choose"
    BINDINGS = bindings("choose")

    DEFAULT_CSS = """
    ChooseMetric {
        align: center middle;
        & > Vertical {
            width: 80; max-width: 100%; height: 80%; max-height: 30; padding: 0 1;
            background: $panel; border: round $line-focus; border-title-color: $primary;
            border-subtitle-color: $quiet;
        }
        Input, Input:focus { border: none; height: 1; padding: 0; background: $panel; }
        Input { margin-bottom: 1; }
        MetricList { background: $panel; }
    }
    """

    def __init__(self, metrics: Mapping[str, Column], shown: str) -> None:
        super().__init__()
        self._metrics, self._shown = metrics, shown
        self._found: list[str] = []
        self._selected = 0

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            yield Input(placeholder="type part of a metric name", compact=True)
            yield MetricList()
        box.border_title = "Choose a metric"
        box.border_subtitle = "enter show, esc cancel"

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self._find("")

    @on(Input.Changed)
    def _type(self, message: Input.Changed) -> None:
        self._find(message.value)

    @on(Input.Submitted)
    def _submit(self) -> None:
        if self._found:
            self.dismiss(self._found[self._selected])

    def action_pick(self, rows: int) -> None:
        self._selected = max(0, min(self._selected + rows, len(self._found) - 1))
        self._show()

    def action_back(self) -> None:
        self.dismiss()

    def _find(self, query: str) -> None:
        self._found = ranked(query, self._metrics)
        selected = self._found.index(self._shown) if not query and self._shown in self._found else 0
        self._selected = selected
        self._show()

    def _show(self) -> None:
        choices = [
            Choice(name, self._metrics[name], shown=name == self._shown) for name in self._found
        ]
        self.query_one(MetricList).show(choices, self._selected, "no match")
