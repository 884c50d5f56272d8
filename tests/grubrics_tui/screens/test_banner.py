"""The doctor speaks up in the live screen, and rings once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.logs.formats.external_run import open_external
from engine.run.finding import Finding, Severity
from engine.run.history.columns import Columns
from engine.run.state import RunState
from grubrics_tui.model import run_doctor
from grubrics_tui.model.history import FINDING
from grubrics_tui.model.run_doctor import RunDoctor
from grubrics_tui.screens.live.banner import Banner
from grubrics_tui.settings.settings import Loaded, Settings
from tests.grubrics_tui.pilots import LARGE, SMALL, running
from tests.grubrics_tui.sample_run import KEY, OOM, SampleRun, verl_line
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.waits

TITLE = "GPU out of memory in training"

Call = Callable[..., tuple[int, str]]


@pytest.mark.parametrize("size", [LARGE, SMALL])
async def test_a_log_from_elsewhere_has_its_banner_and_its_flags(
    exploding: Path, runs: Path, quick: list[bool], size: tuple[int, int]
) -> None:
    async with running(runs, size, watched=open_external(exploding)) as driver:
        await driver.shows("GPU out of memory in training", "and 1 more", "f findings")
        history = driver.app.screen.history  # type: ignore[attr-defined]
        [flagged] = [flags for flags in history.flags() if flags.kind is FINDING]
        assert flagged.texts == ("Gradients grew to 939", "GPU out of memory in training")


async def test_findings_in_an_external_log_are_shown_as_they_appear(
    tmp_path: Path, runs: Path, quick: list[bool]
) -> None:
    log = tmp_path / "night.log"
    log.write_bytes(verl_line(1, 0.5))
    loaded = Loaded(Settings(bell=True), {})
    async with running(runs, watched=open_external(log), loaded=loaded) as driver:
        await driver.until(lambda: driver.app.screen._was_diagnosed)  # type: ignore[attr-defined]
        assert not driver.app.screen.query_one(Banner).display
        with log.open("ab") as handle:
            handle.write(OOM + b"\n")
        await driver.shows(TITLE, "f findings")
    assert quick == [True]


async def test_opening_a_log_with_old_trouble_rings_nothing(
    exploding: Path, runs: Path, quick: list[bool]
) -> None:
    loaded = Loaded(Settings(bell=True), {})
    async with running(runs, watched=open_external(exploding), loaded=loaded) as driver:
        await driver.shows(TITLE, "f findings")
    assert quick == []


async def test_the_banner_tells_of_trouble_as_it_comes_and_rings_once(
    run: SampleRun, runs: Path, quick: list[bool]
) -> None:
    async with running(runs, loaded=Loaded(Settings(bell=True), {})) as driver:
        await driver.shows("step 12/40")
        assert not driver.app.screen.query_one(Banner).display
        run.print(b"step:12 - critic/score/mean:0.5", KEY)
        run.grow()
        run.say("running")
        await driver.shows("The judge rejected the credentials", "f findings")
        assert quick == [True]
        history = driver.app.screen.history  # type: ignore[attr-defined]
        flagged = [flags for flags in history.flags() if flags.kind is FINDING]
        assert flagged[0].texts == ("The judge rejected the credentials",)
        run.print(KEY)
        run.grow()
        run.say("running")
        await driver.shows("step 14/40")
        assert quick == [True]


async def test_without_the_setting_nothing_rings(
    run: SampleRun, runs: Path, quick: list[bool]
) -> None:
    run.print(KEY)
    async with running(runs) as driver:
        await driver.shows("The judge rejected the credentials")
    assert quick == []


@pytest.mark.thorough
async def test_opening_a_run_that_failed_long_ago_rings_nothing(
    unhealthy: SampleRun, runs: Path, quick: list[bool]
) -> None:
    async with running(runs, loaded=Loaded(Settings(bell=True), {})) as driver:
        await driver.press("r")
        await driver.shows("1 run")
        await driver.press("enter")
        await driver.shows(TITLE, "f findings")
    assert quick == []


def test_a_closed_screen_gets_no_more_messages(unhealthy: SampleRun) -> None:
    doctor = RunDoctor(unhealthy.run)
    doctor.close()
    assert list(doctor.findings()) == []


def test_a_run_that_ends_is_looked_at_at_once(
    run: SampleRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_doctor, "_FIRST_S", 0.01)
    monkeypatch.setattr(run_doctor, "_POLL_S", 3600.0)
    doctor = RunDoctor(run.run)
    doctor.update(RunState("running"), Columns())
    looks = doctor.findings()
    assert next(looks) == []
    run.print(OOM)
    doctor.update(RunState("failed"), Columns())
    with ThreadPoolExecutor(1) as pool:
        try:
            found = pool.submit(next, looks).result(timeout=PATIENCE_S)
        finally:
            doctor.close()
    assert found[0].category == "cuda_oom_training"


@pytest.mark.thorough
@pytest.mark.parametrize("state", ["running", "stopping"])
async def test_the_key_that_tells_more_fits_beside_a_long_title(
    run: SampleRun, runs: Path, state: str
) -> None:
    title = "a title that says much more than one line of a small terminal has room for " * 2
    async with running(runs, SMALL) as driver:
        await driver.shows("step 12/40")
        # What the doctor says of the run itself would take the place of the long title.
        await driver.until(lambda: driver.app.screen._was_diagnosed)  # type: ignore[attr-defined]
        banner = driver.app.screen.query_one(Banner)
        history = driver.app.screen.history  # type: ignore[attr-defined]
        history.findings = [Finding("slow_step", Severity.ERROR, title, "because")]
        history.state = RunState(state)  # type: ignore[arg-type]
        banner.show(history)
        screen = await driver.shows("a title")
        assert sum("a title" in line and "f findings" in line for line in screen.splitlines()) == 1
