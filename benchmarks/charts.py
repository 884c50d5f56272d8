"""How long one redraw of a line chart takes, from the numbers to what the terminal is sent.

    python benchmarks/charts.py [--peers PYTHON]

Ours: ``Chart`` of a metric's column, a new step before each redraw; strips for all its rows are
built, which is all that is left to do but to write them. Without and with smoothing. Beside it, in
the same run, ``textual-plot`` and ``textual-plotext`` where ``PYTHON`` can import them: data set,
then every row of the widget rendered, as Textual does it. 120x30 cells; CPU time, since whatever
else the machine does would be in the other one. The peers are not asked for a million points: they
would need half a minute a redraw.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
COUNTS = (100, 1_000, 10_000, 100_000, 1_000_000)
PEER_COUNTS = COUNTS[:-1]
SIZE = (120, 30)
GOAL_MS = 6.0


def noisy(count: int) -> list[float]:
    """A curve that rises and trembles."""
    return [math.tanh(3 * i / count) + 0.1 * math.sin(i * 12.9898) for i in range(count)]


def timed(redraw: Callable[[], None], repeats: int) -> float:
    """Milliseconds of CPU time of one redraw: the median of ``repeats`` after a warm-up."""
    redraw()
    seconds = []
    for _ in range(repeats):
        started = time.process_time()
        redraw()
        seconds.append(time.process_time() - started)
    return statistics.median(seconds) * 1000


async def ours(smoothing: float) -> dict[int, float]:
    from dataclasses import replace

    from textual.app import App, ComposeResult

    from engine.history.train_log import Step
    from grubrics_tui.drawing.chart_data import Plot
    from grubrics_tui.model.history import History
    from grubrics_tui.widgets.chart import Chart, line_of

    class Bench(App[None]):
        def compose(self) -> ComposeResult:
            yield Chart()

    found = {}
    app = Bench()
    async with app.run_test(size=SIZE):
        chart = app.query_one(Chart)
        chart.apply_view(replace(chart.view, smoothing=smoothing))
        for count in COUNTS:
            history = History()
            for step, value in enumerate(noisy(count)):
                history.columns.add(Step(step, 1, 1e9 + step, {"loss": value}))

            def redraw(history: History = history) -> None:
                last = history.columns.times.steps[-1]
                history.columns.add(Step(int(last) + 1, 1, 2e9 + last, {"loss": 0.9}))
                chart.show(
                    lambda: Plot(
                        (line_of(history, "loss", "loss"),),
                        flags=history.flags(),
                        clock=history.columns.times,
                    ),
                    (id(history), history.version),
                )
                for row in range(chart.size.height):
                    chart.render_line(row)

            found[count] = timed(redraw, 41)
    return found


async def textual_plot() -> dict[int, float]:
    from textual.app import App, ComposeResult
    from textual.geometry import Region
    from textual_plot import HiResMode, PlotWidget

    class Bench(App[None]):
        def compose(self) -> ComposeResult:
            yield PlotWidget()

    found = {}
    app = Bench()
    async with app.run_test(size=SIZE) as pilot:
        plot = app.query_one(PlotWidget)
        for count in PEER_COUNTS:
            x, y = list(range(count)), noisy(count)

            def draw(x: list[int] = x, y: list[float] = y) -> None:
                plot.clear()
                plot.plot(x=x, y=y, hires_mode=HiResMode.BRAILLE)

            seconds = []
            for _ in range(_peer_repeats(count)):
                started = time.process_time()
                draw()
                # It draws when it is next refreshed, so that has to be waited for.
                plot.refresh()
                await pilot.pause()
                for child in plot.query("*"):
                    child.render_lines(Region(0, 0, *child.size))
                seconds.append(time.process_time() - started)
            found[count] = statistics.median(seconds) * 1000
    return found


async def textual_plotext() -> dict[int, float]:
    from textual.app import App, ComposeResult
    from textual.geometry import Region
    from textual_plotext import PlotextPlot

    class Bench(App[None]):
        def compose(self) -> ComposeResult:
            yield PlotextPlot()

    found = {}
    app = Bench()
    async with app.run_test(size=SIZE):
        widget = app.query_one(PlotextPlot)
        for count in PEER_COUNTS:
            x, y = list(range(count)), noisy(count)

            def redraw(x: list[int] = x, y: list[float] = y) -> None:
                widget.plt.clear_data()
                widget.plt.plot(x, y, marker="braille")
                widget.refresh()
                widget.render_lines(Region(0, 0, *widget.size))

            found[count] = timed(redraw, _peer_repeats(count))
    return found


def _peer_repeats(count: int) -> int:
    return 3 if count >= 100_000 else 7


PEERS: dict[str, Callable[[], Any]] = {
    "textual-plot": textual_plot,
    "textual-plotext": textual_plotext,
}


def of_peer(name: str, python: str) -> dict[int, float]:
    """Measured by a Python that has the peer; nothing where there is none."""
    command = [python, str(Path(__file__).resolve()), "--peer", name]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:]
        print(f"{name}: {' '.join(last)}", file=sys.stderr)
        return {}
    return {int(count): ms for count, ms in json.loads(done.stdout.splitlines()[-1]).items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peers", default=sys.executable, help="a Python that has the peers")
    parser.add_argument("--peer", choices=PEERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        print(json.dumps(asyncio.run(PEERS[options.peer]())))
        return 0
    sys.path.insert(0, str(ROOT))
    table = {"ours": asyncio.run(ours(0.0)), "ours, smoothed 0.9": asyncio.run(ours(0.9))}
    table |= {name: of_peer(name, options.peers) for name in PEERS}
    print("| redraw, CPU ms | " + " | ".join(f"{count:,}" for count in COUNTS) + " |")
    print("|---" * (len(COUNTS) + 1) + "|")
    for name, found in table.items():
        cells = [f"{found[count]:,.1f}" if count in found else "–" for count in COUNTS]
        print(f"| {name} | " + " | ".join(cells) + " |")
    kept = max(table["ours"][100_000], table["ours, smoothed 0.9"][100_000]) <= GOAL_MS
    print(f"goal, 100,000 points in at most {GOAL_MS:g} ms: {'kept' if kept else 'missed'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
