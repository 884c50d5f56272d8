"""What the screen keeps of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.base import files, jsonl
from engine.run.events import Event
from engine.run.history.columns import Batch
from engine.run.history.live import RunWatch, Update
from engine.run.history.train_log import Step
from engine.run.run import Run
from engine.run.state import RunState
from grubrics_tui.drawing.axis import moments, places, steps_at
from grubrics_tui.model.history import History


def timing(seconds: float) -> dict[str, Any]:
    return {"timing_s/step": seconds}


def step(number: int, attempt: int = 1, time: float = 0.0, **metrics: float | None) -> Step:
    return Step(number, attempt, time, metrics)


def seen(*steps: Step, total: int = 10, console: tuple[bytes, ...] = ()) -> History:
    history = History()
    last = steps[-1].step if steps else None
    state = RunState("running", step=last, total_steps=total)
    history.add(Update(state, Batch.from_steps(steps), list(console), [], []))
    return history


def points(history: History, name: str) -> list[tuple[float, float]]:
    series = history.series(name)
    return list(zip(series.steps.tolist(), series.values.tolist(), strict=True))


def test_a_redone_step_replaces_the_first_one() -> None:
    history = seen(step(1, reward=0.1), step(2, reward=0.2), step(2, attempt=2, reward=0.9))
    assert points(history, "reward") == [(1, 0.1), (2, 0.9)]


def test_a_history_that_was_cut_or_replaced_keeps_nothing_of_the_old_one(tmp_path: Path) -> None:
    run = Run(tmp_path)
    watch, history = RunWatch(run), History()

    def look() -> list[tuple[float, float]]:
        history.add(watch.poll())
        return points(history, "reward")

    for number in (1, 2, 3):
        jsonl.append(run.train_log, step(number, reward=0.5).to_json())
    assert look() == [(1, 0.5), (2, 0.5), (3, 0.5)]
    drawn = (history.version, history.rewrites)
    run.train_log.write_text(json.dumps(step(1, reward=0.1).to_json()) + "\n")
    assert look() == [(1, 0.1)]
    assert history.version > drawn[0] and history.rewrites > drawn[1]
    another = json.dumps(step(2, reward=0.2).to_json()) + "\n"
    files.write_atomic(run.train_log, another)  # A new file of that name.
    assert look() == [(2, 0.2)]
    jsonl.append(run.train_log, step(3, reward=0.3).to_json())
    assert look() == [(2, 0.2), (3, 0.3)]
    run.train_log.write_bytes(b"")
    assert look() == []


def test_the_newest_values_come_with_the_first_part_of_a_long_history(tmp_path: Path) -> None:
    run, padding = Run(tmp_path), {f"extra/{n}": 0.125 for n in range(1000)}
    steps = (Step(n, 1, 0.0, {"reward": n / 1000, **padding}) for n in range(1, 301))
    lines = [json.dumps(step.to_json()) for step in steps]
    run.train_log.write_text("\n".join([*lines, '{"torn": ']))
    watch, history = RunWatch(run), History()
    history.add(watch.poll())
    assert history.read_share < 1 and points(history, "reward")[-1][0] < 300
    assert history.last_point("reward") == (300, 0.3)
    while history.read_share < 1:
        history.add(watch.poll())
    jsonl.append(run.train_log, step(301, reward=0.5).to_json())
    history.add(watch.poll())
    assert history.last_point("reward") == (301, 0.5)


def test_a_nan_is_a_gap_in_the_series() -> None:
    series = seen(step(1, reward=0.1), step(2, reward=None)).series("reward")
    assert series.steps.tolist() == [1, 2]
    assert np.isnan(series.values[1])


def test_the_last_value_is_that_of_the_last_step_that_has_it() -> None:
    assert seen(step(1, val=0.4), step(2)).last_point("val") == (1, 0.4)


def test_the_remaining_time_is_the_median_step_times_the_steps_left() -> None:
    times = [30.0, 2.0, 2.0, 8.0]
    history = seen(*(step(n, **timing(t)) for n, t in enumerate(times, start=1)))
    assert history.remaining() == pytest.approx(2.0 * 6)


def test_without_measured_times_the_clock_between_two_steps_counts() -> None:
    steps, seconds = seen(step(1, time=100.0), step(2, time=103.0)).step_times()
    assert (steps.tolist(), seconds.tolist()) == ([2], [3.0])


def test_an_ended_run_has_nothing_remaining() -> None:
    history = seen(step(1, **timing(1.0)))
    history.add(
        Update(RunState("finished", step=1, total_steps=10), Batch.from_steps([]), [], [], [])
    )
    assert history.remaining() is None


def test_the_newest_values_are_known_while_the_history_is_read() -> None:
    history, state = History(), RunState("external", step=900)
    newest = step(900, loss=0.25)
    batch = Batch.from_steps([step(1, loss=4.0)])
    history.add(Update(state, batch, [], [], [], read_share=0.1, newest=newest))
    assert history.last_point("loss") == (900, 0.25)
    history.add(Update(state, Batch.from_steps([step(900, loss=0.5)]), [], [], []))
    assert history.last_point("loss") == (900, 0.5)


def test_the_last_console_lines_are_kept_clean() -> None:
    history = seen(step(1), console=(b"\x1b[31mred\x1b[0m",))
    assert list(history.console) == ["red"]


def test_the_time_axis_of_a_resumed_run_begins_at_its_start_and_leaves_out_the_pause() -> None:
    history = seen(step(1, time=1060.0), step(2, time=1090.0), step(3, attempt=2, time=5030.0))
    events = [("start", 1000.0), ("end", 1100.0), ("start", 5000.0)]
    records = [Event(name=name, t=moment) for name, moment in events]
    history.add(Update(RunState("running"), Batch.from_steps([]), [], [], records))
    clock = history.columns.times
    assert places(clock.steps, clock, "elapsed").tolist() == [60, 90, 130]
    samples = np.array([1002.0, 5001.0])
    assert moments(samples, clock, "elapsed").tolist() == [2, 101]
    assert steps_at(np.array([90.0, 130.0]), clock, "elapsed").tolist() == [2, 3]


def test_steps_that_came_in_together_share_the_time_since_the_last_ones() -> None:
    history = History()
    for step in range(1, 9):
        look = 1000.0 + (step - 1) // 4 + step * 1e-6
        history.columns.add(Step(step, 1, look, {"train/loss": 1.0}))
    steps, took = history.step_times()
    assert steps.tolist() == [8]
    assert took[0] == pytest.approx(0.25, rel=1e-3)
