"""The home screen: what happened to the runs since the last visit."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from engine.base import jsonl
from grubrics_tui.model.machine import GpuNow, Machine
from grubrics_tui.screens.home.screen import HomeScreen, NewsList, machine_facts
from grubrics_tui.screens.live.screen import LiveScreen
from grubrics_tui.screens.preflight.screen import PreflightScreen
from grubrics_tui.settings.settings import Loaded, Settings
from grubrics_tui.settings.state_files import VisitFile
from tests.grubrics_tui.every_screen import arrive
from tests.grubrics_tui.pilots import LARGE, SMALL, running
from tests.grubrics_tui.sample_run import SampleRun

pytestmark = pytest.mark.waits

HOUR = 3600.0


def ended(runs: Path, name: str, state: str, ago: float, **details: object) -> SampleRun:
    """A run that ended so many seconds ago."""
    sample = SampleRun.create(runs, name, started=time.time() - ago - 600)
    sample.grow(5)
    sample.say(state, ended=time.time() - ago, **details)  # type: ignore[arg-type]
    return sample


def visited(runs: Path, ago: float, monkeypatch: pytest.MonkeyPatch) -> None:
    moment = time.time() - ago
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: moment)
        VisitFile().record(runs)


@pytest.mark.parametrize("size", [LARGE, SMALL])
async def test_runs_are_listed_by_what_happened_since_the_last_visit(
    runs: Path, run: SampleRun, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    ended(runs, "night", "failed", HOUR, reason="exit code 1 at step 5 of 40: OutOfMemoryError")
    ended(runs, "early", "finished", 30 * HOUR)
    waiting = SampleRun.create(runs, "next")
    waiting.say("queued", waiting_for=f"its turn: run {run.run.id}")
    visited(runs, 8 * HOUR, monkeypatch)
    async with running(runs, size, home=True) as driver:
        screen = await driver.shows(
            "12/40", "ETA ", "8h ago", "✗ failed", "OutOfMemoryError", "1h ago", "its turn"
        )
        titles = ("Active", "Ended since", "Queued", "Earlier")
        order = [screen.index(f"\n │ {title}") for title in titles]
        assert order == sorted(order)


async def test_the_first_visit_shows_the_runs_that_ended_last(runs: Path) -> None:
    for hours in range(1, 9):
        ended(runs, f"run-{hours}", "finished", hours * HOUR)
    async with running(runs, home=True) as driver:
        await driver.shows("Ended last", "run-1", "run-8")


async def test_if_nothing_happened_the_last_run_is_shown(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(runs, "old", "finished", 9 * HOUR)
    visited(runs, HOUR, monkeypatch)
    async with running(runs, home=True) as driver:
        await driver.shows("Nothing has happened since", "(1h ago)", "The last run:", "old")


async def test_earlier_runs_fill_the_screen(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for hours in range(2, 6):
        ended(runs, f"run-{hours}", "finished", hours * HOUR)
    visited(runs, HOUR, monkeypatch)
    async with running(runs, home=True) as driver:
        screen = await driver.shows("The last run:", "run-2", "Earlier", "run-3", "run-5")
        assert screen.count("run-2") == 1


async def test_the_config_of_the_run_is_one_key_away(run: SampleRun, runs: Path) -> None:
    async with running(runs, home=True) as driver:
        await driver.shows("grpo-night")
        await driver.press("C")
        await driver.shows("Config of grpo-night")


async def test_a_finished_run_that_learned_nothing_is_named_with_the_cause(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = ended(runs, "unhealthy", "finished", HOUR)
    for step in range(6, 16):
        metrics = {"actor/pg_loss": None, "actor/grad_norm": None, "reward/mean": 0.1}
        record = {"v": 1, "step": step, "attempt": 1, "t": time.time(), "metrics": metrics}
        jsonl.append(sample.run.train_log, record)
    visited(runs, 2 * HOUR, monkeypatch)
    async with running(runs, home=True) as driver:
        await driver.shows("! finished", "unhealthy: ")


async def test_enter_opens_the_run_and_escape_returns(run: SampleRun, runs: Path) -> None:
    async with running(runs, home=True) as driver:
        await driver.shows("12/40")
        await driver.press("enter")
        await arrive(driver, LiveScreen, "step 12/40")
        await driver.press("escape")
        await arrive(driver, HomeScreen, "12/40")


@pytest.mark.parametrize(("key", "shown"), [("r", "1 run"), ("c", "Preflight checks")])
async def test_the_list_and_the_checks_are_one_key_away(
    run: SampleRun, runs: Path, key: str, shown: str
) -> None:
    async with running(runs, home=True) as driver:
        await driver.shows("12/40")
        await driver.press(key)
        await driver.shows(shown)
        await driver.press("escape")
        await arrive(driver, HomeScreen, "12/40")


async def test_n_chooses_the_config_of_a_new_run(run: SampleRun, runs: Path) -> None:
    async with running(runs, home=True) as driver:
        await driver.press("n")
        await driver.shows("Choose a config", "grpo_tiny")


async def test_a_run_that_ends_moves_to_the_ended_ones(run: SampleRun, runs: Path) -> None:
    async with running(runs, home=True) as driver:
        await driver.shows("Active", "● running")
        run.say("failed", reason="killed by SIGKILL")
        screen = await driver.shows("✗ failed", "killed by SIGKILL")
        assert "Active" not in screen


async def test_a_visit_is_recorded_unless_the_screen_is_read_only(
    run: SampleRun, runs: Path
) -> None:
    async with running(runs, home=True, loaded=Loaded(Settings(read_only=True), {})) as driver:
        await driver.shows("12/40")
    assert VisitFile().read(runs) is None
    async with running(runs, home=True) as driver:
        await driver.shows("12/40")
    assert VisitFile().read(runs) is not None


async def test_a_folder_without_runs_opens_the_checks(runs: Path) -> None:
    async with running(runs, home=True) as driver:
        await arrive(driver, PreflightScreen)


def test_gpus_are_listed_with_load_and_memory() -> None:
    gpus = (GpuNow(0, 87, 61 << 30, 80 << 30), GpuNow(1, None, 1 << 29, 80 << 30))
    machine = Machine(5 << 30, 2 << 30, 1.0, 16, 1 << 30, 2 << 30, gpus)
    assert machine_facts(machine) == [
        ("disk", "5.0 GiB free, checkpoints take 2.0 GiB"),
        ("GPUs", "0: 87%, 61.0 GiB of 80.0 GiB   1: –, 512.0 MiB of 80.0 GiB"),
    ]


async def test_g_and_shift_g_go_to_both_ends(run: SampleRun, runs: Path) -> None:
    for name in ("one", "two"):
        ended(runs, name, "finished", HOUR)
    async with running(runs, home=True) as driver:
        await driver.shows("3 runs")
        listed = driver.app.screen.query_one(NewsList)
        first = listed.selected
        await driver.press("G")
        last = listed.selected
        await driver.press("g")
        assert listed.selected == first != last


@pytest.mark.parametrize("size", [(40, 10), (20, 5)])
async def test_in_a_low_window_each_screen_keeps_its_list(
    run: SampleRun, runs: Path, size: tuple[int, int]
) -> None:
    run.say("finished", ended=time.time())
    async with running(runs, size, home=True) as driver:
        await driver.shows("✓ fin", "1 run")
        await driver.press("r")
        await driver.shows("Runs", "✓ fin")
        await driver.press("question_mark")
        await driver.shows("Keys: runs" if size[0] > 20 else "Keys:", "Actions")
        await driver.press("escape", "H", "n", "enter")
        await driver.shows("Preflight", "✓ ok")
        await driver.resize(LARGE)
        await driver.shows("Run to launch", "Details")
