"""The first screen in an empty folder: ways to begin."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.launch import demo
from engine.logs.formats.detect import trainers
from grubrics_tui.screens.dialogs.new_config import NewConfigDialog
from grubrics_tui.screens.live.screen import LiveScreen
from grubrics_tui.screens.log.screen import LogScreen
from grubrics_tui.screens.preflight.screen import PreflightScreen
from grubrics_tui.screens.start import StartScreen
from grubrics_tui.settings.settings import Loaded, Settings
from tests.engine.launch.test_new_config import MESSAGES, jsonl_file
from tests.grubrics_tui.every_screen import arrive
from tests.grubrics_tui.pilots import SMALL, Driver, running
from tests.grubrics_tui.sample_run import verl_line

pytestmark = pytest.mark.waits


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


async def choose(driver: Driver, title: str) -> None:
    await arrive(driver, StartScreen, title)
    titles = ("Try it", "Watch a log", "Start from your data", "Choose a config")
    await driver.press(*"j" * titles.index(title), "enter")


async def test_an_empty_folder_offers_ways_to_begin() -> None:
    async with running(Path("runs"), SMALL, config="") as driver:
        await arrive(driver, StartScreen, "Try it", "Watch a log", "Start from your data")


async def test_a_folder_with_configs_opens_the_preflight() -> None:
    Path("configs").mkdir()
    Path("configs/mine.yaml").write_text("grubrics: {kind: sft}\n")
    async with running(Path("runs"), SMALL, config="") as driver:
        await driver.shows("Choose a config", "mine")


async def test_the_newest_log_of_the_folder_is_offered_and_opened() -> None:
    Path("train.log").write_bytes(b"".join(verl_line(step, 0.5) for step in range(1, 6)))
    async with running(Path("runs"), SMALL, config="") as driver:
        await choose(driver, "Watch a log")
        await driver.shows("train.log")
        await driver.press("enter")
        await arrive(driver, LiveScreen, "step 5")


async def test_a_file_name_with_control_characters_is_not_offered() -> None:
    Path("\x1b]0;owned\x07.log").write_text("anything\n")
    async with running(Path("runs"), SMALL, config="") as driver:
        await choose(driver, "Watch a log")
        await driver.shows("Log file or folder")
        assert "owned" not in driver.screen


async def test_a_log_of_an_unknown_format_is_opened_as_text() -> None:
    Path("notes.txt").write_text("nothing that is a step\n")
    async with running(Path("runs"), SMALL, config="") as driver:
        await choose(driver, "Watch a log")
        await driver.press("enter")
        await arrive(driver, LogScreen, "nothing that is a step")


async def test_the_trainers_whose_logs_can_be_watched_are_named() -> None:
    async with running(Path("runs"), SMALL, config="") as driver:
        await arrive(driver, StartScreen, *trainers())


async def test_a_log_that_does_not_exist_is_named() -> None:
    async with running(Path("runs"), SMALL, config="") as driver:
        await choose(driver, "Watch a log")
        await driver.press(*"no.log", "enter")
        await driver.shows("no.log: No such file or directory")


async def test_conversations_become_a_config_and_its_preflight() -> None:
    jsonl_file("chats.jsonl", {"messages": MESSAGES})
    async with running(Path("runs"), SMALL, config="") as driver:
        await choose(driver, "Start from your data")
        await arrive(driver, NewConfigDialog, "files here: chats.jsonl")
        await driver.press(*"chats.jsonl")
        await driver.shows("conversations: SFT")
        await driver.press("enter")
        await arrive(driver, PreflightScreen, "chats", "sft on")
    assert Path("configs/chats.yaml").is_file()


async def test_the_demo_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_TRAINER_PACKAGES", ("torch", "package_that_is_absent"))
    async with running(Path("runs"), SMALL, config="") as driver:
        await choose(driver, "Try it")
        await driver.shows("package_that_is_absent is not installed", "[train]")
        await driver.press("j", "enter")
        await driver.shows("Log file or folder")


async def test_a_read_only_screen_offers_only_what_writes_nothing() -> None:
    loaded = Loaded(Settings(read_only=True), {})
    async with running(Path("runs"), SMALL, config="", loaded=loaded) as driver:
        await arrive(driver, StartScreen, "Try it")
        await driver.press("enter")
        await driver.shows("Log file or folder")
