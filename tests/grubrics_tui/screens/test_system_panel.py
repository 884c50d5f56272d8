"""The machine panel, whatever a sample holds."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.typed import convert_record
from engine.run.history.columns import Column
from engine.run.state import RunState
from engine.run.system_sample import SystemSample
from grubrics_tui.drawing.plot import render
from grubrics_tui.drawing.prepare import on_axis
from grubrics_tui.drawing.view import View
from grubrics_tui.model.system_history import SystemHistory
from grubrics_tui.screens.live.panels import gauges, headline, system_plot

KEYS = ("t", "cpu_percent", "cpu_count", "mem_used", "mem_total", "run")
GPU_KEYS = ("index", "name", "util", "mem_used", "mem_total", "run_mem", "power_w", "temp_c")
WRONG = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just([1])
GPUS = st.lists(WRONG | st.dictionaries(st.sampled_from(GPU_KEYS), WRONG), max_size=2)
SAMPLES = st.builds(
    lambda fields, gpus: convert_record({**fields, "gpus": gpus}, SystemSample),
    st.dictionaries(st.sampled_from(KEYS), WRONG),
    WRONG | GPUS | st.just({"a": 1}),
)


@given(st.lists(SAMPLES, min_size=1, max_size=4))
def test_any_samples_are_drawn(samples: list[SystemSample]) -> None:
    assert headline(samples[-1]).isprintable()
    assert all(gauge.label.isprintable() for gauge in gauges(samples[-1]))
    machine = SystemHistory()
    machine.add(samples)
    plot = on_axis(system_plot(machine, Column()), "elapsed")
    assert len(render(plot, View(axis="elapsed"), 40, 8)) == 8


def test_what_an_ended_run_used_is_told_as_past() -> None:
    taken = 1_767_312_000.0
    sample, when = SystemSample(t=taken), time.strftime("%m-%d %H:%M", time.localtime(taken))
    assert headline(sample, RunState("running")) == "no GPU"
    assert headline(sample, RunState("failed")) == f"as of {when}  no GPU"
    assert headline(sample, RunState("lost")) == f"last sample {when}  no GPU"


@pytest.mark.parametrize("fields", [{"gpus": [1]}, {"gpus": {"a": 1}}, {"run": 5}])
def test_what_is_no_gpu_is_left_out(fields: dict[str, Any]) -> None:
    sample = convert_record(fields, SystemSample)
    assert sample is not None
    assert headline(sample) == "no GPU"
    assert gauges(sample)[0].label == "cpu host"
