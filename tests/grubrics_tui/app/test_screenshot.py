"""A key saves what the screen shows, as a picture and as text, and never over another file."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from grubrics_tui.app.base_app import picture_text, save_screenshot
from grubrics_tui.settings.settings import Loaded, Settings
from tests.grubrics_tui.pilots import LARGE, running
from tests.grubrics_tui.sample_run import SampleRun

pytestmark = pytest.mark.waits

MOMENT = "20260102-030405"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for screenshots, in the current one; the clock stands still."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time, "strftime", lambda form, *_: MOMENT)
    return Path("screenshots")


async def test_the_picture_and_the_text_hold_the_screen_and_the_message_says_where(
    run: SampleRun, runs: Path, folder: Path
) -> None:
    async with running(runs, LARGE) as driver:
        shown = await driver.shows("step 12/40", "reward 0.", "q quit")
        await driver.press("P")
        await driver.shows(f"Saved screenshots/grubrics-live-{MOMENT}.svg and .txt")
    text = (folder / f"grubrics-live-{MOMENT}.txt").read_text()
    # The line with the clock may differ.
    assert text.splitlines()[1:20] == shown.splitlines()[1:20]
    assert (folder / f"grubrics-live-{MOMENT}.svg").read_text().startswith("<svg")


def test_nothing_is_overwritten(folder: Path) -> None:
    svg = '<svg xmlns="http://www.w3.org/2000/svg"/>'
    folder.mkdir()
    (folder / f"grubrics-live-{MOMENT}-2.txt").write_text("mine")
    saved = [save_screenshot(svg, folder, "live").name for _ in range(2)]
    assert saved == [f"grubrics-live-{MOMENT}.svg", f"grubrics-live-{MOMENT}-3.svg"]
    assert (folder / f"grubrics-live-{MOMENT}-2.txt").read_text() == "mine"


def test_wide_characters_and_gaps_keep_their_columns() -> None:
    cell = '<text x="{}" clip-path="url(#terminal-1-line-{})">{}</text>'
    parts = cell.format(0, 0, "宽\xa0&amp;") + cell.format(73.2, 0, "x") + cell.format(24.4, 2, "y")
    svg = f'<svg xmlns="http://www.w3.org/2000/svg"><text x="9">title</text>{parts}</svg>'
    assert picture_text(svg) == "宽 &  x\n\n  y\n"


async def test_a_folder_that_cannot_be_written_is_named(
    run: SampleRun, runs: Path, folder: Path
) -> None:
    folder.write_text("a file")
    async with running(runs) as driver:
        await driver.shows("step 12/40")
        await driver.press("P")
        await driver.shows("No screenshot saved: screenshots: File exists")
    assert folder.read_text() == "a file"


async def test_read_only_refuses_without_a_folder_of_the_users_choice(
    run: SampleRun, runs: Path, folder: Path, tmp_path: Path
) -> None:
    async with running(runs, loaded=Loaded(Settings(read_only=True), {})) as driver:
        await driver.shows("step 12/40")
        await driver.press("P")
        await driver.shows("Read-only mode saves no screenshot")
    assert not folder.exists()
    chosen = tmp_path / "chosen" / "deep"
    settings = Settings(read_only=True, screenshots=str(chosen))
    async with running(runs, loaded=Loaded(settings, {})) as driver:
        await driver.shows("step 12/40")
        await driver.press("P")
        await driver.until(lambda: len(list(chosen.glob("*"))) == 2)
