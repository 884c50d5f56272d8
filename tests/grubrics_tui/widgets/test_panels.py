"""The numbers on the panels are those of the run's files, whatever the files went through."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from textual.app import App, ComposeResult

from engine.base.ticks import around
from engine.run.history.live import RunWatch
from engine.run.history.plot import Plot, Values
from engine.run.run import Run
from engine.run.state import RunState
from grubrics_tui.model.history import History
from grubrics_tui.model.step_phases import PARTS, StepPhases
from grubrics_tui.settings.settings import JudgePrice
from grubrics_tui.widgets.chart import Chart
from grubrics_tui.widgets.chart_panels import (
    QUANTITIES,
    PolicyPanel,
    ValidationPanel,
    arranged,
    judge_plot,
    metrics_plot,
    mfu_plot,
    quantity_plot,
    reward_plot,
    speed_plot,
    tokens_per_second,
    validation_plot,
)
from grubrics_tui.widgets.panel import waiting_hint

pytestmark = pytest.mark.waits

Step = tuple[int, dict[str, Any]]


def history_of(folder: Path, *steps: Step, attempt: int = 1, gap: float = 2.0) -> History:
    """What the screen holds after it read a run with these steps."""
    run = Run(folder)
    run.attempt(1).path.mkdir(parents=True, exist_ok=True)
    with run.train_log.open("a") as log:
        for place, (step, metrics) in enumerate(steps):
            record = {"step": step, "attempt": attempt, "t": 1e9 + gap * place, "metrics": metrics}
            log.write(json.dumps(record) + "\n")
    history = History()
    history.add(RunWatch(run).poll())
    return history


def told(plot: Plot) -> dict[str, str]:
    """Every label with its newest value as the legend writes it."""
    bands = [fact for line in plot.lines for band in line.bands for fact in band.facts]
    named: list[Values] = [*plot.lines, *plot.marks, *plot.facts, *bands]
    return {one.label: one.write(one.at(math.inf)[1]) for one in named}


async def test_the_hint_of_a_panel_without_numbers_has_the_whole_panel(tmp_path: Path) -> None:
    class Alone(App[None]):
        def get_theme_variable_defaults(self) -> dict[str, str]:
            return dict.fromkeys(("line", "line-focus", "quiet"), "white")

        def compose(self) -> ComposeResult:
            yield PolicyPanel()

    app = Alone()
    async with app.run_test(size=(80, 24)) as pilot:
        panel = app.query_one(PolicyPanel)
        panel.show(History())
        await pilot.pause()
        assert [chart.display for chart in panel.query(Chart)].count(True) == 1
        panel.show(history_of(tmp_path, (1, {"actor/grad_norm": 0.5})))
        await pilot.pause()
        assert [chart.display for chart in panel.query(Chart)].count(True) == PolicyPanel.CHARTS


def test_the_reward_panel_says_mean_spread_extremes_and_what_went_wrong(tmp_path: Path) -> None:
    values = {
        "reward/mean": 0.5,
        "reward/std": 0.125,
        "reward/min": -0.25,
        "reward/max": 1.25,
        "reward/zero_std_share": 0.25,
        "reward/failed_share": 0.5,
        "val/reward": 0.75,
    }
    plot = reward_plot(history_of(tmp_path, (1, values)))
    assert told(plot) == {
        "mean": "0.500",
        "std": "0.125",
        "min": "-0.250",
        "max": "1.250",
        "val": "0.750",
        "zero-std groups": "25%",
        "failed": "50%",
    }
    spread = plot.lines[0].band("spread")
    assert spread is not None
    assert (spread.low.tolist(), spread.high.tolist()) == ([0.375], [0.625])


def test_a_nan_is_a_gap_and_a_dash_not_a_zero(tmp_path: Path) -> None:
    steps: list[tuple[int, dict[str, Any]]]
    steps = [(1, {"reward/mean": 0.5}), (2, {"reward/mean": None}), (3, {"reward/mean": math.nan})]
    plot = reward_plot(history_of(tmp_path, *steps))
    assert np.isnan(plot.lines[0].y[1:]).all()
    assert told(plot)["mean"] == "–"


def test_a_redone_step_counts_once_with_its_last_value(tmp_path: Path) -> None:
    name = "actor/pg_loss"
    history_of(tmp_path, (1, {name: 1.0}), (2, {name: 2.0}), (3, {name: 3.0}))
    history = history_of(tmp_path, (2, {name: 20.0}), (3, {name: 30.0}), attempt=2)
    line = metrics_plot(history, (name,)).lines[0]
    assert (line.x.tolist(), line.y.tolist()) == ([1, 2, 3], [1.0, 20.0, 30.0])


def test_the_judge_panel_counts_faults_and_costs_a_step_where_prices_are_known(
    tmp_path: Path,
) -> None:
    values = {
        "judge_api_latency_p50_s": 1.5,
        "judge_api_latency_p95_s": 12.25,
        "semaphore_wait_s": 0.05,
        "judge/calls": 70,
        "judge/timeouts": 2,
        "judge/parse_failures": 3,
        "judge/errors": 1,
        "judge/tokens_in": 200_000,
        "judge/tokens_out": 10_000,
    }
    history = history_of(tmp_path, (1, values))
    assert told(judge_plot(history)) == {
        "p50": "1.5 s",
        "p95": "12.2 s",
        "queue wait": "50 ms",
        "calls": "70",
        "timeouts": "2",
        "unreadable": "3",
        "failed": "1",
    }
    assert told(judge_plot(history, JudgePrice(1.25, 10)))["cost"] == "$0.35"


def test_a_run_from_before_the_median_was_recorded_shows_the_mean(tmp_path: Path) -> None:
    plot = judge_plot(history_of(tmp_path, (1, {"judge_api_latency_s": 2.0})))
    assert told(plot)["mean"] == "2 s"


def test_the_parts_of_a_step_add_up_to_it(tmp_path: Path) -> None:
    timing = {
        "timing_s/gen": 4.0,
        "timing_s/reward": 2.0,
        "timing_s/old_log_prob": 1.0,
        "timing_s/ref": 0.5,
        "timing_s/update_actor": 1.5,
        "timing_s/update_critic": 0.5,
        "timing_s/update_weights": 0.25,
        "timing_s/save_checkpoint": 1.0,
        "timing_s/step": 11.0,
    }
    stacks = StepPhases().of(history_of(tmp_path, (1, timing)))
    sizes = {p.name: s for p, s in zip(stacks.parts, stacks.sizes[0].tolist(), strict=True)}
    assert stacks.parts == PARTS
    assert sizes == {
        "gen": 4.0,
        "reward": 2.0,
        "old log prob": 1.0,
        "ref": 0.5,
        "update": 2.0,
        "weights": 0.25,
        "save": 1.0,
        "other": 0.25,
    }


def test_a_kl_that_is_off_is_a_dash_with_the_reason_and_not_a_zero(tmp_path: Path) -> None:
    off = history_of(tmp_path / "off", (1, {"actor/ppo_kl": 0.0, "actor/pg_loss": 0.1}))
    place = [quantity.label for quantity in QUANTITIES].index("KL")
    plot = quantity_plot(off, QUANTITIES[place])
    assert told(plot) == {"KL": "–"} and plot.is_empty
    assert PolicyPanel().hint(off, place) == "off: no KL term logged"
    on = history_of(tmp_path / "on", (1, {"actor/ppo_kl": 0.0, "actor/kl_loss": 0.0}))
    assert told(quantity_plot(on, QUANTITIES[place])) == {"KL": "0"}


def test_an_axis_of_zeros_goes_from_zero_to_one() -> None:
    assert (around([0.0, 0.0]).low, around([0.0, 0.0]).high) == (pytest.approx(-0.06), 1.06)
    flat = around([0.5, 0.5])
    assert flat.low < 0.5 < flat.high < 0.6


@pytest.mark.parametrize(
    ("metrics", "key"),
    [({"train/loss": 0.5}, "data.val_file"), ({"reward/mean": 0.5}, "trainer.test_freq")],
)
def test_a_run_without_validation_names_the_key_that_enables_it(
    tmp_path: Path, metrics: dict[str, Any], key: str
) -> None:
    history = history_of(tmp_path, (1, metrics))
    history.state = RunState("finished")
    hint = ValidationPanel().hint(history, 0)
    assert hint == f"no validation logged: set {key}"


def test_a_run_with_steps_did_not_end_before_its_first(tmp_path: Path) -> None:
    history = history_of(tmp_path, (1, {"train/loss": 0.5}))
    history.state = RunState("finished")
    assert waiting_hint(history) == "not logged"


def test_the_policy_panel_takes_the_kl_that_is_logged(tmp_path: Path) -> None:
    history = history_of(tmp_path, (1, {"actor/ppo_kl": 0.25, "response_length/clip_ratio": 0.5}))
    plots = {one.label: told(quantity_plot(history, one)) for one in QUANTITIES}
    assert plots["KL"]["KL"] == "0.25"
    assert plots["length"] == {"length": "–", "at cap": "50%"}


def test_every_validation_score_has_its_line(tmp_path: Path) -> None:
    values = {"val/reward": 0.5, "val-core/a/acc/mean@1": 0.25, "val-aux/a/n_chars/mean@1": 9.0}
    assert told(validation_plot(history_of(tmp_path, (1, values)))) == {
        "val/reward": "0.500",
        "a/acc/mean@1": "0.250",
    }


def test_tokens_per_second_of_wall_clock_time(tmp_path: Path) -> None:
    steps = [(n, {"train/global_tokens": 300.0}) for n in (1, 2, 3)]
    assert tokens_per_second(history_of(tmp_path, *steps)).tolist() == [150.0, 150.0]


def test_throughput_is_shown_as_it_was_logged_where_no_tokens_were(tmp_path: Path) -> None:
    steps = [(n, {"perf/throughput": 900.0}) for n in (1, 2, 3)]
    assert told(speed_plot(history_of(tmp_path, *steps))) == {"throughput": "900", "step": "2 s"}


def test_mfu_is_in_percent_in_the_legend_and_on_the_axis(tmp_path: Path) -> None:
    plot = mfu_plot(history_of(tmp_path, (1, {"train/mfu": 0.25})))
    assert (told(plot), plot.lines[0].y.tolist()) == ({"MFU": "25.0%"}, [25.0])


def test_a_clock_that_was_set_back_gives_no_negative_speed(tmp_path: Path) -> None:
    steps = [(n, {"train/global_tokens": 300.0}) for n in (1, 2, 3)]
    assert tokens_per_second(history_of(tmp_path, *steps, gap=-5.0)).tolist() == []


def test_missing_files_are_empty_panels(tmp_path: Path) -> None:
    history = History()
    history.add(RunWatch(Run(tmp_path / "nothing")).poll())
    assert reward_plot(history).is_empty
    assert StepPhases().of(history).x.size == 0
    assert history.machine.last is None


def test_a_long_history_comes_in_parts_and_says_how_far_it_is(tmp_path: Path) -> None:
    line = json.dumps({"step": 0, "attempt": 1, "t": 1e9, "metrics": {"a": 0.5, "b": "x" * 900}})
    run = Run(tmp_path)
    run.attempt(1).path.mkdir(parents=True)
    with run.train_log.open("w") as log:
        for step in range(6000):
            log.write(line.replace('"step": 0', f'"step": {step}') + "\n")
    watch, history = RunWatch(run), History()
    shares: list[float] = []
    while not shares or shares[-1] < 1:
        history.add(watch.poll())
        shares.append(history.read_share)
    assert len(shares) > 2
    assert shares == sorted(shares)
    assert history.series("a").steps.tolist() == list(range(6000))


@pytest.mark.parametrize("size", [(0, 0), (10, 3), (54, 9), (76, 16), (150, 40)])
def test_small_charts_are_never_smaller_than_they_can_be_read(size: tuple[int, int]) -> None:
    columns, rows = arranged(6, *size)
    assert columns == 1 or size[0] // columns >= 16
    assert rows == 1 or size[1] // rows >= 5
