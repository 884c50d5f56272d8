"""Every validation score over steps."""

from __future__ import annotations

from engine.history import metrics
from grubrics_tui.drawing.values import Plot, short
from grubrics_tui.model.history import History
from grubrics_tui.text.formats import fixed
from grubrics_tui.widgets.chart import line_of
from grubrics_tui.widgets.chart_panel import ChartPanel

INKS = tuple(f"series-{number}" for number in range(1, 9))

_PREFIXES = ("val-core/", "val/")


class ValidationPanel(ChartPanel):
    """The mean reward and verl's ``val-core/*``, one of them per data source and score."""

    TITLE = "validation"
    DETAIL = "all that was validated"

    def plot(self, history: History, number: int) -> Plot:
        return validation_plot(history)

    def hint(self, history: History, number: int) -> str:
        state = history.state
        if state is None or state.state == "foreign" or not history.columns.names:
            return super().hint(history, number)
        what = "no validation was logged" if state.has_ended else "no validation yet"
        is_sft = len(history.series(metrics.TRAIN_LOSS)) > 0
        return f"{what}: {'data.val_file' if is_sft else 'trainer.test_freq'} asks for it"


def validation_names(history: History) -> list[str]:
    """The mean reward first; then as many others as there are colours."""
    first = [metrics.VALIDATION_REWARD]
    others = [n for n in history.columns.names if n.startswith(_PREFIXES) and n not in first]
    logged = [name for name in first if len(history.series(name))]
    return (logged + others)[: len(INKS)]


def validation_plot(history: History) -> Plot:
    names = validation_names(history)
    lines = (
        line_of(history, name, name.removeprefix("val-core/"), fixed, ink=ink)
        for name, ink in zip(names, INKS, strict=False)
    )
    return Plot(tuple(lines), clock=history.columns.times)


def metrics_plot(history: History, names: tuple[str, ...]) -> Plot:
    """Any metrics as lines over each other, called by their names."""
    lines = (
        line_of(history, name, name, short, ink=ink) for name, ink in zip(names, INKS, strict=False)
    )
    return Plot(tuple(lines), flags=history.flags(), clock=history.columns.times)
