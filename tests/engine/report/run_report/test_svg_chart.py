"""Charts: what is in the numbers is in the drawing."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from engine.report.run_record import RunRecord
from engine.report.run_report.charts import draw_chart, draw_file, draw_metrics
from engine.report.run_report.pages import write_charts
from engine.report.run_report.report import Chart, Legend
from engine.run.history.plot import Line, Plot
from tests.engine.report.run_report.reported_runs import (
    log_steps,
    make_run,
    make_sweep,
    report_of,
    section,
    usual_metrics,
)
from tests.hostile_text import ALL, MARKUP

PLOT_TOP, PLOT_BOTTOM = 10, 186


def chart_of(*values: float, is_log: bool = False) -> Chart:
    steps = np.arange(1.0, len(values) + 1)
    return Chart("reward", Plot((Line(steps, np.array(values), "run", key="A"),)), is_log=is_log)


def path_of(svg: str, kind: str = "line") -> str:
    return re.findall(rf'<path class="{kind} [sf]\d" d="([^"]*)"', svg)[0]


def heights(svg: str) -> list[float]:
    return [float(y) for y in re.findall(r"[ML]\S+ (\S+?)(?=[LMh]|$)", path_of(svg))]


def test_one_step_among_20000_that_sticks_out_is_drawn_at_its_height() -> None:
    values = np.random.default_rng(0).normal(1, 0.1, 20_000)
    values[12_345] = 50.0
    svg = draw_chart(chart_of(*values))
    drawn = heights(svg)
    assert len(drawn) <= 1500
    # The axis reaches 6% of the range beyond the values.
    share = (PLOT_BOTTOM - min(drawn)) / (PLOT_BOTTOM - PLOT_TOP)
    low, high = values.min(), values.max()
    air = 0.06 * (high - low)
    assert share * (high - low + 2 * air) + low - air == pytest.approx(50.0, rel=0.01)


def test_a_step_without_a_number_divides_the_line_and_is_marked() -> None:
    svg = draw_chart(chart_of(1, 2, float("nan"), 3, 4))
    assert path_of(svg).count("M") == 2
    assert path_of(svg, "gap").count("M") == 1


def test_a_lone_step_is_a_dot() -> None:
    nan = float("nan")
    assert path_of(draw_chart(chart_of(nan, 2, nan)), "line dot").endswith("h0")


def test_a_chart_without_values_says_so() -> None:
    assert ">no values</text>" in draw_chart(chart_of(float("nan")))


def test_powers_of_ten_are_at_equal_distances_on_a_log_axis() -> None:
    drawn = heights(draw_chart(chart_of(1, 10, 100, 1000, is_log=True)))
    assert np.diff(drawn) == pytest.approx([np.diff(drawn)[0]] * 3, abs=0.11)


def test_values_of_0_refuse_a_log_axis_and_the_note_names_the_first(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a")
    log_steps(run, [{"actor/grad_norm": value} for value in (1.0, 0.0, 100.0, -1.0)])
    (chart,) = report_of(run, metrics=("actor/grad_norm",), log=("actor/grad_norm",)).charts
    assert not chart.is_log
    assert chart.notes == (
        "linear axis: a has 2 values of 0 or less, first at step 2, and these have no logarithm",
    )


def test_seeds_are_a_mean_in_a_band_with_a_gap_where_one_of_them_has_none(tmp_path: Path) -> None:
    runs = [make_run(tmp_path, f"base-s{seed}", seed=seed) for seed in (1, 2, 3)]
    for run, low in zip(runs, (1.0, 2.0, 3.0), strict=True):
        log_steps(run, [{"reward/mean": low + step} for step in range(9)])
    rows = [{"reward/mean": None if step == 4 else 1.0 + step} for step in range(9)]
    log_steps(runs[0], rows)
    (chart,) = report_of(*runs, metrics=("reward/mean",)).charts
    (line,) = chart.plot.lines
    band = line.band("extremes")
    assert band is not None
    assert line.y[3] == 5.0 and band.low[3] == 4.0 and band.high[3] == 6.0
    assert line.gaps.tolist() == [5.0]
    svg = draw_chart(chart)
    assert path_of(svg, "band").count("Z") == 2 and path_of(svg).count("M") == 2


def test_every_chart_is_a_file_that_is_xml_and_follows_the_colors_around_it(
    tmp_path: Path,
) -> None:
    run = make_run(tmp_path, "a")
    hostile = {f"reward/{MARKUP}": 1.0, f"reward/{ALL}": 2.0, "reward/\"&<x>'": 3.0}
    log_steps(run, [{**usual_metrics(step, 1, 1e-6), **hostile} for step in (1, 2)])
    report = report_of(run)
    written = write_charts(report, tmp_path / "charts")
    assert len(written) == len(report.charts) == len({path.name.lower() for path in written})
    for path in written:
        root = ElementTree.fromstring(path.read_bytes())
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert not [node for node in root.iter() if node.tag.endswith(("script", "image", "a"))]
        text = path.read_text()
        assert "currentColor" in text and "prefers-color-scheme:dark" in text


def test_a_file_has_the_legend_and_the_notes_inside(tmp_path: Path) -> None:
    legend = [Legend("A", 1, "first", ("a",), ""), Legend("B", 2, "second", ("b",), "")]
    runs = [make_run(tmp_path, name) for name in ("a", "b")]
    log_steps(runs[0], [{"reward/mean": 1.0}, {"reward/mean": None}])
    records = [RunRecord.read(run, examine=False) for run in runs]
    (chart,) = draw_metrics(records, legend, ["reward/mean"], ())
    svg = draw_file(chart)
    assert ">A first</text>" in svg and ">B second</text>" in svg
    assert ">A has no number at 1 step, first 2</text>" in svg


def test_checkpoints_of_a_sweep_are_a_chart_of_their_own(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a")
    make_sweep(run)
    names = [chart.name for chart in report_of(run).charts]
    assert names[-1] == "checkpoints: reward (held_out-12345678)"
    assert section(report_of(run), "curves").blocks
