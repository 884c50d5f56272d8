"""Where the seconds of a step go."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from textual.app import ComposeResult

from grubrics_tui.drawing.stacked import Part, Stacks
from grubrics_tui.history import History
from grubrics_tui.widgets.panel import Panel, waiting_hint
from grubrics_tui.widgets.stacked_bar import StackedBar

_PARTS: Mapping[Part, tuple[str, ...]] = {
    Part("gen", "phase-1", "g"): ("timing_s/gen",),
    Part("reward", "phase-2", "r"): ("timing_s/reward",),
    Part("old log prob", "phase-3", "o"): ("timing_s/old_log_prob",),
    Part("ref", "phase-4", "f"): ("timing_s/ref",),
    Part("update", "phase-6", "u"): ("timing_s/update_actor", "timing_s/update_critic"),
    Part("weights", "phase-7", "w"): ("timing_s/update_weights",),
    Part("save", "phase-5", "s"): ("timing_s/save_checkpoint",),
}
OTHER = Part("other", "phase-8", ".")
PARTS = (*_PARTS, OTHER)
WHOLE = (Part("step", "phase-1", "s"),)


class TimePanel(Panel):
    """One column per step, split by phase; SFT logs no phases, so its columns are whole."""

    TITLE = "step time"
    DETAIL = "seconds a phase"

    def compose(self) -> ComposeResult:
        yield StackedBar()

    def show(self, history: History) -> None:
        bar, clock = self.query_one(StackedBar), history.columns.times
        bar.show(lambda: split(history), history.version, waiting_hint(history), clock)


def split(history: History) -> Stacks:
    """The parts of every step, or its whole where phases were not measured."""
    steps, seconds = history.step_times()
    timed = ~np.isnan(seconds)
    steps, seconds = steps[timed], seconds[timed]
    phases = [
        np.sum([np.nan_to_num(history.series(name).at(steps)) for name in names], axis=0)
        for names in _PARTS.values()
    ]
    if not any(phase.any() for phase in phases):
        return Stacks(WHOLE, steps, seconds[:, None])
    # What the step took beyond its measured phases: advantages, logging, waiting.
    rest = np.maximum(0.0, seconds - np.sum(phases, axis=0))
    return Stacks(PARTS, steps, np.column_stack([*phases, rest]))
