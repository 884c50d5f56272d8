"""The machine: GPUs if there are any, else CPU, memory and disk, of the host and of this run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.app import ComposeResult

from engine.base.jsonl import integer, line, moment, number
from engine.base.ticks import Range
from engine.history.columns import Column
from engine.runs.state import RunState
from grubrics_tui.drawing.chart_data import Line, Plot
from grubrics_tui.drawing.spans import Row, Span, bar
from grubrics_tui.model.history import History
from grubrics_tui.model.system_history import Sample, SystemHistory, gpus_of, ratio
from grubrics_tui.text.formats import MISSING, memory, percent
from grubrics_tui.widgets.chart import Chart
from grubrics_tui.widgets.panel import Panel
from grubrics_tui.widgets.span_widget import SpanWidget

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


def headline(sample: Sample, state: RunState | None = None) -> str:
    """GPU name and free disk space; for an ended run, also the time of the last sample."""
    sampled = _format_moment(sample, state)
    gpus = gpus_of(sample)
    free = number(sample.get("disk_free"))
    disk = "" if free is None else f"   disk {memory(free)} free"
    if not gpus:
        return f"{sampled}no GPU{disk}"
    name = line(gpus[0].get("name")) or "GPU"
    return sampled + (name if len(gpus) == 1 else f"{len(gpus)} x {name}") + disk


def _format_moment(sample: Sample, state: RunState | None) -> str:
    """When the last sample of an ended run was taken; empty for an active run."""
    taken = moment(sample.get("t"))
    if state is None or not state.has_ended or taken is None:
        return ""
    label = "last sample" if state.state == "lost" else "as of"
    return f"{label} {time.strftime('%m-%d %H:%M', time.localtime(taken))}  "


def gauges(sample: Sample) -> list[Gauge]:
    """Several lines for a single GPU, one line per GPU for more."""
    gpus = gpus_of(sample)
    if len(gpus) == 1:
        return _one_gpu(gpus[0])
    return [_gpu_in_one_line(gpu) for gpu in gpus] or _host(sample)


def system_plot(machine: SystemHistory, clock: Column) -> Plot:
    """Busy and full shares in percent over the samples, newest at the right."""
    moments, busy, full = machine.series()
    lines = (
        Line(moments, full, "memory", _in_percent, ink=_FULL),
        Line(moments, busy, "busy", _in_percent, ink=_BUSY),
    )
    return Plot(lines, y=Range(0.0, 100.0), clock=clock, timed=True)


def _host(sample: Sample) -> list[Gauge]:
    run_sample = sample.get("run")
    run = run_sample if isinstance(run_sample, dict) else {}
    cores, mem_total = integer(sample.get("cpu_count")) or 1, number(sample.get("mem_total"))
    host_cpu, run_cpu = number(sample.get("cpu_percent")), number(run.get("cpu_percent"))
    used = number(sample.get("mem_used"))
    run_memory = number(run.get("pss")) or number(run.get("rss"))
    total, pids = memory(mem_total), integer(run.get("pids")) or 0
    return [
        Gauge("cpu host", ratio(host_cpu, 100), f"{cores} cores", _BUSY),
        Gauge(
            "cpu run",
            ratio(run_cpu, 100 * cores),
            f"{pids} process{'' if pids == 1 else 'es'}",
            _BUSY,
        ),
        Gauge("memory host", ratio(used, mem_total), f"{memory(used)} of {total}", _FULL),
        Gauge("memory run", ratio(run_memory, mem_total), memory(run_memory), _FULL),
    ]


def _one_gpu(gpu: Sample) -> list[Gauge]:
    index = integer(gpu.get("index")) or 0
    used, run_memory, total = (number(gpu.get(key)) for key in ("mem_used", "run_mem", "mem_total"))
    by_run = "not measurable here" if run_memory is None else f"{memory(run_memory)} by this run"
    return [
        Gauge(f"gpu {index} busy", ratio(number(gpu.get("util")), 100), _state(gpu), _BUSY),
        Gauge(f"gpu {index} mem", ratio(used, total), f"{memory(used)} of {memory(total)}", _FULL),
        Gauge(f"gpu {index} run", ratio(run_memory, total), by_run, _FULL),
    ]


def _gpu_in_one_line(gpu: Sample) -> Gauge:
    """Utilization as a bar, everything else as numbers."""
    used, run_memory, total = (number(gpu.get(key)) for key in ("mem_used", "run_mem", "mem_total"))
    by_run = MISSING if run_memory is None else memory(run_memory)
    detail = f"{memory(used)} of {memory(total)}, run {by_run}  {_state(gpu)}"
    return Gauge(
        f"gpu {integer(gpu.get('index')) or 0}", ratio(number(gpu.get("util")), 100), detail, _BUSY
    )


def _state(gpu: Sample) -> str:
    power, heat = number(gpu.get("power_w")), number(gpu.get("temp_c"))
    parts = (f"{power:.0f} W" if power else "", f"{heat:.0f} °C" if heat else "")
    return ", ".join(part for part in parts if part)


def _in_percent(value: float | None) -> str:
    return percent(None if value is None else value / 100)


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
                Span(percent(gauge.share).rjust(_PERCENT)),
                Span(f"  {gauge.detail}", "quiet"),
            ]
            for gauge in self._gauges
        ]
