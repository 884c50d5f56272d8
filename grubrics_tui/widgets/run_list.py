"""The runs of a folder, one line each."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widgets.option_list import Option

from engine.runs.registry import RunInfo
from grubrics_tui.formats import clock, step_of
from grubrics_tui.widgets.choices import Choices
from grubrics_tui.widgets.states import STATE_LOOKS

SHOWN = 500
_STATE, _STEP, _KIND, _STARTED = 12, 13, 6, 18


class RunList(Choices):
    """The newest ``SHOWN`` runs; the selected one stays selected while others come and go."""

    DEFAULT_CSS = "RunList { height: 1fr; }"

    def __init__(self) -> None:
        super().__init__("runs")
        self.runs: Sequence[RunInfo] = ()

    def show(self, runs: Sequence[RunInfo]) -> None:
        kept = self.selected
        self.runs = runs[:SHOWN]
        width = min(40, max((len(info.id) for info in self.runs), default=0)) + 2
        self.clear_options()
        self.add_options([Option(_line(info, width), id=info.id) for info in self.runs])
        ids = [info.id for info in self.runs]
        if ids:
            self.highlighted = ids.index(kept.id) if kept and kept.id in ids else 0
        older = len(runs) - len(self.runs)
        self.border_subtitle = f"{len(runs)} runs" + (f", {older} older not shown" if older else "")

    @property
    def selected(self) -> RunInfo | None:
        return None if self.highlighted is None else self.runs[self.highlighted]


def _line(info: RunInfo, width: int) -> Content:
    state = info.state
    glyph, ink = STATE_LOOKS[state.state]
    name = info.id if len(info.id) < width else f"{info.id[: width - 3]}…"
    detail = state.reason or (f"waiting for {state.waiting_for}" if state.waiting_for else "")
    return (
        Content.styled(f"{glyph} {state.state}".ljust(_STATE), f"bold ${ink}")
        + Content(name.ljust(width))
        + Content.styled(step_of(state.step, state.total_steps).rjust(_STEP - 3) + "   ", "$quiet")
        + Content.styled(info.kind.ljust(_KIND), "$quiet")
        + Content.styled(clock(info.started).ljust(_STARTED), "$quiet")
        + Content.styled(" ".join(detail.split()), "$quiet")
    )
