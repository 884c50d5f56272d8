"""The machine: GPUs where there are any, else CPU and memory, of the host and of this run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from textual.app import ComposeResult

from engine.jsonl import integer, line, moment, number
from grubrics_tui.drawing.braille import Point
from grubrics_tui.drawing.plot import Line, Plot
from grubrics_tui.drawing.scale import Range
from grubrics_tui.formats import memory
from grubrics_tui.history import History
from grubrics_tui.widgets.chart import Chart
from grubrics_tui.widgets.gauges import Gauge, Gauges
from grubrics_tui.widgets.panel import Panel

Sample = dict[str, Any]

_BUSY, _FULL = "series-1", "series-2"


class SystemPanel(Panel):
    """Gauges of the last sample above their history in percent."""

    TITLE = "machine"

    def compose(self) -> ComposeResult:
        yield Gauges()
        yield Chart()

    def show(self, history: History) -> None:
        if not history.system:
            self.query_one(Gauges).show((), "no sample of the machine yet")
            return
        last = history.system[-1]
        self.border_subtitle = headline(last)
        self.query_one(Gauges).show(gauges(last))
        self.query_one(Chart).show(system_plot(list(history.system)))


def headline(sample: Sample) -> str:
    """What the panel is about: the GPU's name, or that there is none."""
    gpus = _gpus(sample)
    if not gpus:
        return "no GPU"
    name = line(gpus[0].get("name")) or "GPU"
    return name if len(gpus) == 1 else f"{len(gpus)} x {name}"


def gauges(sample: Sample) -> list[Gauge]:
    gpus = _gpus(sample)
    if gpus:
        return [gauge for gpu in gpus for gauge in _gpu_gauges(gpu)]
    run = _object(sample.get("run"))
    cores, whole = integer(sample.get("cpu_count")) or 1, number(sample.get("mem_total"))
    host, own = number(sample.get("cpu_percent")), number(run.get("cpu_percent"))
    used = number(sample.get("mem_used"))
    held = number(run.get("pss")) or number(run.get("rss"))
    total, pids = memory(whole), integer(run.get("pids")) or 0
    return [
        Gauge("cpu host", _ratio(host, 100), f"{cores} cores", _BUSY),
        Gauge("cpu run", _ratio(own, 100 * cores), f"{pids} processes", _BUSY),
        Gauge("memory host", _ratio(used, whole), f"{memory(used)} of {total}", _FULL),
        Gauge("memory run", _ratio(held, whole), memory(held), _FULL),
    ]


def system_plot(samples: Sequence[Sample]) -> Plot:
    """Busy and full shares in percent over the samples, newest at the right."""
    with_gpu = bool(_gpus(samples[-1]))
    busy = _gpu_busy if with_gpu else lambda s: _percent(_ratio(number(s.get("cpu_percent")), 100))
    full = (
        _gpu_full
        if with_gpu
        else lambda s: _percent(_ratio(number(s.get("mem_used")), number(s.get("mem_total"))))
    )
    lines = (Line(_line(samples, full), _FULL), Line(_line(samples, busy), _BUSY))
    return Plot(lines, y=Range(0.0, 100.0), x_label="{} min")


def _gpu_gauges(gpu: Sample) -> list[Gauge]:
    index = integer(gpu.get("index")) or 0
    util, total = number(gpu.get("util")), number(gpu.get("mem_total"))
    used, own = number(gpu.get("mem_used")), number(gpu.get("run_mem"))
    power, heat = number(gpu.get("power_w")), number(gpu.get("temp_c"))
    state = ", ".join(
        text
        for text in (f"{power:.0f} W" if power else "", f"{heat:.0f} °C" if heat else "")
        if text
    )
    filled = f"{memory(used)} of {memory(total)}"
    held = (
        []
        if own is None
        else [Gauge(f"gpu {index} run", _ratio(own, total), f"{memory(own)} by this run", _FULL)]
    )
    return [
        Gauge(f"gpu {index} busy", _ratio(util, 100), state, _BUSY),
        Gauge(f"gpu {index} mem", _ratio(used, total), filled, _FULL),
        *held,
    ]


def _line(samples: Sequence[Sample], share: Callable[[Sample], float | None]) -> list[Point]:
    """Minutes since the first sample against a share."""
    start = moment(samples[0].get("t")) or 0.0
    return [(round(((moment(s.get("t")) or 0.0) - start) / 60, 2), share(s)) for s in samples]


def _gpu_busy(sample: Sample) -> float | None:
    return _mean([_ratio(number(gpu.get("util")), 100) for gpu in _gpus(sample)])


def _gpu_full(sample: Sample) -> float | None:
    gpus = _gpus(sample)
    return _mean([_ratio(number(g.get("mem_used")), number(g.get("mem_total"))) for g in gpus])


def _mean(shares: Sequence[float | None]) -> float | None:
    known = [share for share in shares if share is not None]
    return _percent(sum(known) / len(known)) if known else None


def _percent(share: float | None) -> float | None:
    return None if share is None else share * 100


def _ratio(value: float | None, whole: float | None) -> float | None:
    return None if value is None or not whole else number(value / whole)


def _gpus(sample: Sample) -> list[Sample]:
    found = sample.get("gpus")
    return [gpu for gpu in found if isinstance(gpu, dict)] if isinstance(found, list) else []


def _object(value: Any) -> Sample:
    return value if isinstance(value, dict) else {}
