"""The panels of the live view, and which of them an external log has metrics for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from textual import events, on
from textual.app import ComposeResult

from engine.base.quantities import MISSING, format_count, format_fixed, format_percent, format_size
from engine.base.ticks import Range
from engine.run.history.columns import Column
from engine.run.history.plot import Line, Plot
from engine.run.state import RunState
from engine.run.system_sample import GpuSample, SystemSample
from grubrics_tui.drawing.axis import format_place, places, steps_at
from grubrics_tui.drawing.legend import entry, wrap
from grubrics_tui.drawing.redraw_cache import can_be_reused
from grubrics_tui.drawing.spans import Row, Span, bar
from grubrics_tui.drawing.stacked import KeptStacks, Stacks, drawn, x_of
from grubrics_tui.drawing.table import neighbor, table
from grubrics_tui.model.history import History
from grubrics_tui.model.step_phases import StepPhases
from grubrics_tui.model.system_history import SystemHistory, ratio
from grubrics_tui.settings.layout import Layout, first_layout
from grubrics_tui.widgets.chart import Chart
from grubrics_tui.widgets.chart_base import ChartBase
from grubrics_tui.widgets.chart_panels import (
    JudgePanel,
    LossPanel,
    OptimizerPanel,
    PolicyPanel,
    RewardPanel,
    ThroughputPanel,
    ValidationPanel,
)
from grubrics_tui.widgets.log_view import LogView
from grubrics_tui.widgets.panel import Panel, waiting_hint
from grubrics_tui.widgets.span_widget import SpanWidget

if TYPE_CHECKING:
    from engine.logs.formats.external_run import ExternalRun


_BUSY, _FULL = "series-1", "series-2"
_CHART_HEIGHT = 3


class SystemPanel(Panel):
    """Gauges of the last sample above their history in percent."""

    NAME = "machine"

    def compose(self) -> ComposeResult:
        yield Gauges()
        yield Chart()

    def show(self, history: History) -> None:
        machine, clock = history.machine, history.columns.times
        if machine.last is None:
            self.query_one(Gauges).show((), "no samples of the machine yet")
            return
        self.note(headline(machine.last, history.state))
        self.query_one(Gauges).show(gauges(machine.last))
        self._fit()
        self.query_one(Chart).show(
            lambda: system_plot(machine, clock), (machine.seen, history.version)
        )

    def on_resize(self, event: events.Resize) -> None:
        self._fit()

    def _fit(self) -> None:
        """Hide the chart if it does not fit below the gauges."""
        free_height = self.content_size.height - self.query_one(Gauges).lines
        self.query_one(Chart).display = free_height >= _CHART_HEIGHT


def headline(sample: SystemSample, state: RunState | None = None) -> str:
    """GPU name and free disk space; for an ended run, also the time of the last sample."""
    sampled = _format_moment(sample, state)
    gpus, free = sample.gpus, sample.disk_free
    disk = "" if free is None else f"   disk {format_size(free)} free"
    if not gpus:
        return f"{sampled}no GPU{disk}"
    name = gpus[0].name or "GPU"
    return sampled + (name if len(gpus) == 1 else f"{len(gpus)} x {name}") + disk


def _format_moment(sample: SystemSample, state: RunState | None) -> str:
    """When the last sample of an ended run was taken; empty for an active run."""
    if state is None or not state.has_ended or sample.t is None:
        return ""
    label = "last sample" if state.state == "lost" else "as of"
    return f"{label} {time.strftime('%m-%d %H:%M', time.localtime(sample.t))}  "


def gauges(sample: SystemSample) -> list[Gauge]:
    """Several lines for a single GPU, one line per GPU for more."""
    if len(sample.gpus) == 1:
        return _one_gpu(sample.gpus[0])
    return [_gpu_in_one_line(gpu) for gpu in sample.gpus] or _host(sample)


def system_plot(machine: SystemHistory, clock: Column) -> Plot:
    """Busy and full shares in percent over the samples, newest at the right."""
    moments, busy, full = machine.series()
    lines = (
        Line(moments, full, "memory", _in_percent, ink=_FULL),
        Line(moments, busy, "busy", _in_percent, ink=_BUSY),
    )
    return Plot(lines, y=Range(0.0, 100.0), clock=clock, timed=True)


def _host(sample: SystemSample) -> list[Gauge]:
    run, cores, total = sample.run, sample.cpu_count or 1, sample.mem_total
    of_total = f"{format_size(sample.mem_used)} of {format_size(total)}"
    processes = format_count(run.pids, "process", plural="processes")
    return [
        Gauge("cpu host", ratio(sample.cpu_percent, 100), f"{cores} cores", _BUSY),
        Gauge("cpu run", ratio(run.cpu_percent, 100 * cores), processes, _BUSY),
        Gauge("memory host", ratio(sample.mem_used, total), of_total, _FULL),
        Gauge("memory run", ratio(run.memory, total), format_size(run.memory), _FULL),
    ]


def _one_gpu(gpu: GpuSample) -> list[Gauge]:
    name, used, total = f"gpu {gpu.index}", gpu.mem_used, gpu.mem_total
    by_run = (
        "not measurable here" if gpu.run_mem is None else f"{format_size(gpu.run_mem)} by this run"
    )
    of_total = f"{format_size(used)} of {format_size(total)}"
    return [
        Gauge(f"{name} busy", ratio(gpu.util, 100), _state(gpu), _BUSY),
        Gauge(f"{name} mem", ratio(used, total), of_total, _FULL),
        Gauge(f"{name} run", ratio(gpu.run_mem, total), by_run, _FULL),
    ]


def _gpu_in_one_line(gpu: GpuSample) -> Gauge:
    """Utilization as a bar, everything else as numbers."""
    by_run = MISSING if gpu.run_mem is None else format_size(gpu.run_mem)
    of_total = f"{format_size(gpu.mem_used)} of {format_size(gpu.mem_total)}"
    detail = f"{of_total}, run {by_run}  {_state(gpu)}"
    return Gauge(f"gpu {gpu.index}", ratio(gpu.util, 100), detail, _BUSY)


def _state(gpu: GpuSample) -> str:
    power, heat = gpu.power_w, gpu.temp_c
    parts = (f"{power:.0f} W" if power else "", f"{heat:.0f} °C" if heat else "")
    return ", ".join(part for part in parts if part)


def _in_percent(value: float | None) -> str:
    return format_percent(None if value is None else value / 100)


_LABEL, _PERCENT, _SMALLEST_BAR = 12, 5, 4


@dataclass(frozen=True)
class Gauge:
    """``share`` is None if it cannot be measured; ``detail`` gives the value with its unit."""

    label: str
    share: float | None
    detail: str
    ink: str


class Gauges(SpanWidget):
    """One line per gauge: label, bar, percent, detail."""

    DEFAULT_CSS = "Gauges { height: auto; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._gauges: Sequence[Gauge] = ()

    @property
    def lines(self) -> int:
        return max(1, len(self._gauges))

    def show(self, gauges: Sequence[Gauge], hint: str = "") -> None:
        if gauges == self._gauges and hint == self._hint:
            return
        self._gauges = gauges
        if self.styles.height is None or self.styles.height.value != self.lines:
            self.styles.height = self.lines  # Setting it lays out the screen again.
        self.redraw(hint)

    def draw(self, width: int, height: int) -> list[Row]:
        detail = max((len(gauge.detail) for gauge in self._gauges), default=0)
        room = max(_SMALLEST_BAR, width - _LABEL - _PERCENT - detail - 2)
        return [
            [
                Span(gauge.label[: _LABEL - 1].ljust(_LABEL), "quiet"),
                *bar(gauge.share or 0.0, room, gauge.ink, ascii_only=self.ascii_only),
                Span(format_percent(gauge.share).rjust(_PERCENT)),
                Span(f"  {gauge.detail}", "quiet"),
            ]
            for gauge in self._gauges
        ]


_seconds = partial(format_fixed, decimals=2)
EMPTY = Stacks((), np.empty(0), np.empty((0, 0)))


class StackedBar(ChartBase):
    """Shows one column per step, or per few steps when there are more than columns."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._build: Callable[[], Stacks] = lambda: EMPTY
        self._built: Stacks | None = None
        self._clock: Column | None = None
        self._body_drawn_for: tuple[object, ...] = ()
        self._reusable: KeptStacks | None = None
        self._body: list[Row] = []
        self._grows_since: object = None

    def show(
        self,
        build: Callable[[], Stacks],
        version: object,
        hint: str = "",
        clock: Column | None = None,
        *,
        grows_since: object = None,
    ) -> None:
        """As ``Chart.show``; ``clock`` holds the time of each step."""
        self._build, self._clock, self._grows_since = build, clock, grows_since
        if self._is_new(version, hint):
            self._built = None
            self.redraw(hint)

    @property
    def stacks(self) -> Stacks:
        """What is shown, along steps."""
        if self._built is None:
            self._built = self._build()
        return self._built

    @property
    def clock(self) -> Column | None:
        return self._clock

    def extent(self) -> Range | None:
        x = self._on_axis().x
        return Range(float(x[0]), max(float(x[-1]), float(x[0]) + 1)) if x.size else None

    def next_x(self, cells: int) -> float | None:
        x, cursor = self._on_axis().x, self.view.cursor
        if not x.size:
            return None
        if self.view.table:
            step = neighbor(self._plot(), self._step(cursor), cells)
            return None if step is None else float(x[np.searchsorted(self.stacks.x, step)])
        if cursor is None:
            return float(x[-1 if cells < 0 else 0])
        index = int(np.searchsorted(x, cursor))
        steps_per_column = max(1, int(self._shown().x.size // max(1, self.size.width - 6)))
        return float(x[min(max(0, index + cells * steps_per_column), x.size - 1)])

    def x_at(self, cell: int) -> float | None:
        if self.view.table:
            return None
        width, height = self.size
        rows = self._below(self._legend(width), height)[1] if self.stacks.x.size else 0
        return x_of(self._shown(), width, rows, cell)

    def nearest_x(self, x: float) -> float | None:
        return x  # Each column is a step, or the first of a few.

    def draw(self, width: int, height: int) -> list[Row]:
        if not self.stacks.x.size:
            return []
        if self.view.table:
            return table(self._plot(), self._step(self.view.cursor), width, height)
        shown = self._shown()
        head, rows = self._below(self._legend(width), height)
        return head + self._plot_rows(shown, width, rows)

    def _plot_rows(self, shown: Stacks, width: int, height: int) -> list[Row]:
        """The rows of the bars; those of the last drawing while they are right."""
        view, letters = self.view, self.colorless
        drawn_for = (view, width, height, letters, shown.parts, self._grows_since)
        if (
            self._reusable is not None
            and drawn_for == self._body_drawn_for
            and self._reusable.hold(shown)
        ):
            return self._body
        self._body, reusable = drawn(
            shown, width, height, axis=view.axis, cursor=view.cursor, letters=letters
        )
        self._reusable = reusable if self._grows_since is not None and can_be_reused(view) else None
        self._body_drawn_for = drawn_for
        return self._body

    def _on_axis(self) -> Stacks:
        stacks = self.stacks
        return Stacks(stacks.parts, places(stacks.x, self._clock, self.view.axis), stacks.sizes)

    def _shown(self) -> Stacks:
        extent = self.extent()
        stacks = self._on_axis()
        return stacks if extent is None else stacks.inside(self.view.shown(extent))

    def _step(self, cursor: float | None) -> float | None:
        if cursor is None:
            return None
        return float(np.rint(steps_at(np.array([cursor]), self._clock, self.view.axis))[0])

    def _legend(self, width: int) -> list[Row]:
        """The parts of the step at the cursor, else of the newest; those that took no time are
        left out."""
        stacks, cursor = self._on_axis(), self.view.cursor
        index = -1
        entries: list[Row] = []
        if cursor is not None:
            index = max(0, int(np.searchsorted(stacks.x, cursor, side="right")) - 1)
            name = "step " if self.view.axis == "step" else ""
            position = format_place(float(stacks.x[index]), self.view.axis, float(np.ptp(stacks.x)))
            entries.append([Span(f"{name}{position}", "cursor", bold=True)])
        for part, size in zip(stacks.parts, stacks.sizes[index].tolist(), strict=True):
            if size > 0:
                key = part.letter if self.colorless else "▪"
                entries.append(entry(key, part.ink, part.name, _seconds(size)))
        return wrap(entries, width)

    def _plot(self) -> Plot:
        stacks = self.stacks
        lines = [
            Line(stacks.x, stacks.sizes[:, index], part.name, _seconds)
            for index, part in enumerate(stacks.parts)
        ]
        return Plot(tuple(lines), clock=self._clock)


_INDENT = 4
"""Cells: a panel is narrow, and verl prints its configuration far to the right."""


class LogPanel(Panel):
    """The console log of the run's last attempt. The view reads the file itself, whenever the
    screen polls the run."""

    NAME = "log"

    def compose(self) -> ComposeResult:
        yield LogView(paced=True, indent=_INDENT)

    def show(self, history: History) -> None:
        """Do nothing: the log view reads the file itself."""

    @on(LogView.Changed)
    def show_position(self) -> None:
        """Show in the frame whether the view follows new lines."""
        view = self.query_one(LogView)
        status = "following" if view.following else "scrolled up: G follows new lines"
        self.note(f"{view.notice}   {status}" if view.notice else status)


class TimePanel(Panel):
    """One column per step, split by phase; SFT logs no phases, so its columns are whole."""

    NAME = "time"
    DETAIL = "seconds per phase"
    NEEDS = ("timing_s/", "gpu_phase_duration_s", "reward_total_duration_s")

    def __init__(self) -> None:
        super().__init__()
        self._split = StepPhases()

    def compose(self) -> ComposeResult:
        yield StackedBar()

    def show(self, history: History) -> None:
        bar, clock = self.query_one(StackedBar), history.columns.times
        bar.show(
            partial(self._split.of, history),
            history.version,
            waiting_hint(history),
            clock,
            grows_since=history.rewrites,
        )


PANELS: Mapping[str, type[Panel]] = {
    panel.NAME: panel
    for panel in (
        RewardPanel,
        JudgePanel,
        TimePanel,
        PolicyPanel,
        SystemPanel,
        LogPanel,
        ValidationPanel,
        LossPanel,
        OptimizerPanel,
        ThroughputPanel,
    )
}
"""Every panel by its name. ``engine.run.kinds`` lists the panels of each kind of run."""


def external_layout(run: ExternalRun) -> Layout:
    """The panels that an external log has metrics for; all of them before its first step."""

    def has_metrics(panel: type[Panel]) -> bool:
        if panel is LogPanel:
            return run.console is not None
        if not run.metrics:
            return bool(panel.NEEDS)
        return any(name.startswith(panel.NEEDS) for name in run.metrics)

    names = [name for name in run.kind.panels if has_metrics(PANELS[name])]
    return first_layout(run.kind.name, names)
