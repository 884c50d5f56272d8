"""The numbers on the screen are those of the run's files, whatever became of the files.

The files are read here a second time, by the few lines of ``logged``; what the screen shows must
agree with that.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grubrics_tui.cli import app
from tests.grubrics_tui.pilots import LARGE, SMALL, Driver, running
from tests.grubrics_tui.sample_run import SampleRun

pytestmark = pytest.mark.waits

Numbers = dict[str, float | None]


def thousandth(value: float) -> str:
    return f"{value:.3f}"


def three_digits(value: float) -> str:
    return f"{value:.3g} s"


TABLES: dict[str, dict[str, tuple[str, Callable[[float], str]]]] = {
    "1": {
        "mean": ("reward/mean", thousandth),
        "val": ("val/reward", thousandth),
        "std": ("reward/std", thousandth),
        "min": ("reward/min", thousandth),
        "max": ("reward/max", thousandth),
    },
    "2": {
        "p50": ("judge_api_latency_p50_s", three_digits),
        "p95": ("judge_api_latency_p95_s", three_digits),
        "queue wait": ("semaphore_wait_s", three_digits),
    },
}
"""Panel, column of its table, metric, how it is written."""


@dataclass
class Written:
    """A run whose ``train_log.jsonl`` is written line by line."""

    sample: SampleRun
    attempt: int = 1
    shift: float = 0.0
    """Seconds by which the machine's clock is off."""

    def log(self, step: int, **changed: float | None) -> None:
        self.sample.step = step
        metrics = self.sample.grpo_metrics() | {
            name.replace("__", "/"): value for name, value in changed.items()
        }
        moment = self.sample.started + 14 * step + self.shift
        record = {"v": 1, "step": step, "attempt": self.attempt, "t": moment, "metrics": metrics}
        with self.sample.run.train_log.open("a") as log:
            log.write(json.dumps(record) + "\n")


def usual(run: Written) -> None:
    for step in range(1, 13):
        run.log(step)


def not_numbers(run: Written) -> None:
    """NaN and infinity as Python writes them, and null."""
    for step in range(1, 13):
        run.log(step)
    run.log(13, reward__mean=math.nan, reward__max=math.inf, judge_api_latency_p95_s=None)
    run.log(14, reward__mean=0.5, reward__std=math.nan, reward__min=-math.inf)


def resumed(run: Written) -> None:
    """Steps 9 to 12 are done a second time, with other rewards."""
    usual(run)
    run.attempt = 2
    run.sample.run.attempt(2).path.mkdir()
    for step in range(9, 15):
        run.log(step, reward__mean=0.9 + step / 1000, semaphore_wait_s=step / 10)


def clock_jumps(run: Written) -> None:
    """An hour back after step 4, a day ahead after step 8."""
    for step in range(1, 13):
        run.shift = 0.0 if step < 5 else -3600.0 if step < 9 else 86_400.0
        run.log(step)


def torn(run: Written) -> None:
    """The last line is not whole yet, and one in the middle never was."""
    for step in range(1, 13):
        run.log(step)
        if step == 6:
            with run.sample.run.train_log.open("a") as log:
                log.write('{"v": 1, "step": 6, "metr\n')
    with run.sample.run.train_log.open("a") as log:
        log.write('{"v": 1, "step": 13, "attempt": 1, "metrics": {"reward/mean": 0.9')


def only_the_log(run: Written) -> None:
    """Console, system samples, rewards and events were deleted."""
    usual(run)
    for path in run.sample.run.attempt(1).path.iterdir():
        path.unlink()
    run.sample.run.events.unlink(missing_ok=True)


HISTORIES = (usual, not_numbers, resumed, clock_jumps, torn, only_the_log)


@pytest.fixture(params=HISTORIES, ids=lambda history: history.__name__)
def run(request: pytest.FixtureRequest, runs: Path) -> SampleRun:
    sample = SampleRun.create(runs, "grpo-night")
    written = Written(sample)
    request.param(written)
    sample.say("running", attempt=written.attempt)
    return sample


def logged(sample: SampleRun) -> dict[int, Numbers]:
    """Every step with its numbers: of a step logged twice the later line counts."""
    found: dict[int, Numbers] = {}
    for line in sample.run.train_log.read_text().splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        numbers = record["metrics"].items()
        found[record["step"]] = {name: _finite(value) for name, value in numbers}
    return dict(sorted(found.items()))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def told(value: float | None, write: Callable[[float], str]) -> str:
    return "–" if value is None else write(value)


def table_on(screen: str) -> dict[int, dict[str, str]]:
    """The rows of a chart's table by step; columns end where their names end."""
    lines = [line for line in screen.splitlines() if line.startswith(" │")]
    head = next(line for line in lines if re.search(r"\bstep\s+time\b", line))
    ends = [match.end() for match in re.finditer(r"\S+(?: \S+)*", head) if match.group() != "│"]
    names = [head[:end].split("  ")[-1].strip() for end in ends]
    rows = {}
    for line in lines[lines.index(head) + 1 :]:
        cells = [line[start:end].strip(" │") for start, end in zip([2, *ends], ends, strict=False)]
        if cells[0].isdecimal():
            rows[int(cells[0])] = dict(zip(names, cells, strict=True))
    return rows


async def opened(driver: Driver, sample: SampleRun) -> None:
    await driver.shows(f"step {max(logged(sample))}/40")


@pytest.mark.sample(3)
@pytest.mark.parametrize("panel", TABLES)
async def test_the_table_of_a_panel_is_the_log(run: SampleRun, runs: Path, panel: str) -> None:
    async with running(runs, LARGE) as driver:
        await opened(driver, run)
        await driver.press(panel, "z", "t")
        await driver.shows(" time ")
        shown = table_on(driver.screen)
        assert list(shown) == list(logged(run))
        for step, numbers in logged(run).items():
            for column, (metric, write) in TABLES[panel].items():
                blank = "" if metric not in numbers else told(numbers[metric], write)
                assert shown[step][column] == blank, (step, column)


@pytest.mark.sample(3)
@pytest.mark.parametrize("size", [LARGE, SMALL])
async def test_the_header_has_the_numbers_of_the_last_step(
    run: SampleRun, runs: Path, size: tuple[int, int]
) -> None:
    last = list(logged(run).values())[-1]
    mean, std = told(last["reward/mean"], thousandth), told(last["reward/std"], thousandth)
    async with running(runs, size) as driver:
        await opened(driver, run)
        await driver.shows(f"reward {mean} ± {std}")


@pytest.mark.sample(2)
async def test_the_cursor_reads_the_numbers_of_its_step(run: SampleRun, runs: Path) -> None:
    steps = list(logged(run).items())
    async with running(runs, LARGE) as driver:
        await opened(driver, run)
        await driver.press("1", "z", "home")
        for step, numbers in (steps[0], steps[1]):
            await driver.shows(f"step {step}", f"mean {told(numbers['reward/mean'], thousandth)}")
            await driver.press("right")


def test_the_command_prints_the_log(run: SampleRun, runs: Path) -> None:
    words = ["metrics", "grpo-night", "reward/mean", "--runs", str(runs), "--json"]
    answer = json.loads(CliRunner().invoke(app, words).output)
    expected = [[step, numbers["reward/mean"]] for step, numbers in logged(run).items()]
    assert answer["series"]["reward/mean"] == expected


async def test_a_run_without_any_file_but_its_state_shows_no_number(runs: Path) -> None:
    sample = SampleRun.create(runs, "grpo-night")
    sample.say("running", step=None)
    sample.run.manifest_file.unlink()
    async with running(runs, LARGE) as driver:
        await driver.shows("step –/40", "reward – ± –")
