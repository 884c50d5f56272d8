"""Where the seconds of a step go."""

from __future__ import annotations

from collections.abc import Mapping

from textual.app import ComposeResult

from engine.watch import metrics
from engine.watch.train_log import Step
from grubrics_tui.drawing.stacked import Part, Stack
from grubrics_tui.formats import fixed
from grubrics_tui.history import History
from grubrics_tui.widgets.panel import Panel, waiting_hint
from grubrics_tui.widgets.readout import Reading, Readout
from grubrics_tui.widgets.stacked_bar import StackedBar

_PARTS: Mapping[str, Part] = {
    "timing_s/gen": Part("gen", "phase-1", "g"),
    "timing_s/reward": Part("reward", "phase-2", "r"),
    "timing_s/old_log_prob": Part("old_log_prob", "phase-3", "o"),
    "timing_s/adv": Part("adv", "phase-4", "a"),
    "timing_s/update_actor": Part("update_actor", "phase-6", "u"),
    "timing_s/update_weights": Part("update_weights", "phase-7", "w"),
    "timing_s/save_checkpoint": Part("save", "phase-5", "s"),
}
OTHER = Part("other", "phase-8", ".")
PARTS = (*_PARTS.values(), OTHER)
WHOLE = (Part("step", "phase-1", "s"),)


class TimePanel(Panel):
    """One column per step, split by phase; SFT logs no phases, so its columns are whole."""

    TITLE = "step time"
    DETAIL = "seconds a phase"

    def compose(self) -> ComposeResult:
        yield Readout()
        yield StackedBar()

    def show(self, history: History) -> None:
        parts, stacks = split(history)
        last = stacks[-1].sizes if stacks else ()
        readings = [
            Reading(part.name, fixed(size, 2), part.ink, shape=part.letter)
            for part, size in zip(parts, last, strict=False)
            if size > 0
        ]
        self.query_one(Readout).show(readings or [Reading("step", fixed(None))])
        self.query_one(StackedBar).show(parts, stacks, waiting_hint(history))


def split(history: History) -> tuple[tuple[Part, ...], list[Stack]]:
    """The parts of every step, or its whole where phases were not measured."""
    steps = history.steps
    if any(name in step.metrics for step in steps for name in _PARTS):
        timed = [step for step in steps if step.metrics.get(metrics.STEP_TIME) is not None]
        return PARTS, [Stack(step.step, phase_seconds(step)) for step in timed]
    return WHOLE, [Stack(step, (value,)) for step, value in history.step_times()]


def phase_seconds(step: Step) -> tuple[float, ...]:
    """Seconds of each of ``PARTS``; the last is what the step took beyond its measured phases."""
    known = [step.metrics.get(name) or 0.0 for name in _PARTS]
    return *known, max(0.0, (step.metrics.get(metrics.STEP_TIME) or 0.0) - sum(known))
