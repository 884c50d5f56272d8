"""The form for a first config: it names what the data is, and writes what init writes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from textual import events
from textual.widgets import Input

from engine.launch.new_config import write_config
from grubrics_tui.screens.dialogs.new_config import NewConfigDialog
from grubrics_tui.screens.home.screen import HomeScreen
from grubrics_tui.screens.preflight.screen import PreflightScreen
from grubrics_tui.screens.start import StartScreen
from grubrics_tui.settings.settings import Loaded, Settings
from tests.engine.launch.test_new_config import loaded, questions_file
from tests.grubrics_tui.every_screen import arrive
from tests.grubrics_tui.pilots import SMALL, Driver, running
from tests.grubrics_tui.sample_run import SampleRun

pytestmark = pytest.mark.waits

RUNS = Path("runs")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


async def open_form(driver: Driver) -> None:
    await arrive(driver, StartScreen, "Start from your data")
    await driver.press("j", "j", "enter")
    await arrive(driver, NewConfigDialog, "Scored by")


def field(driver: Driver, name: str) -> Input:
    return driver.app.screen.query_one(f"#{name}", Input)


async def test_questions_become_a_config_that_a_task_scores() -> None:
    questions_file("q.jsonl")
    async with running(RUNS, SMALL, config="") as driver:
        await open_form(driver)
        await driver.press("q")
        await driver.shows("q.jsonl")
        await driver.press("right")
        await driver.shows("records with question, answer", "such as questions")
        await driver.press("tab", "q")
        await driver.shows("questions")
        await driver.press("right", "tab", *"models/base", "tab", *"mine", "enter")
        await arrive(driver, PreflightScreen, "mine", "grpo on")
    config = loaded("mine")
    assert config.get("reward.custom_reward_function.path") == "task://questions"
    assert config.get("actor_rollout_ref.model.path") == "models/base"
    assert Path("data/mine/train.parquet").is_file()


async def test_a_file_of_python_is_the_reward() -> None:
    questions_file("q.jsonl")
    Path("my.py").write_text("def compute_score(**_): ...\n")
    async with running(RUNS, SMALL, config="") as driver:
        await open_form(driver)
        await driver.press(*"q.jsonl", "tab", *"my.py", "enter")
        await arrive(driver, PreflightScreen, "grpo on")
    assert loaded("q").get("reward.custom_reward_function.path") == "my.py"


async def test_the_files_here_are_named_and_what_is_typed_is_not_appended_to_them() -> None:
    questions_file("q.csv")
    Path("world.json").write_text("{}")
    os.utime("world.json", (4e9, 4e9))
    async with running(RUNS, SMALL, config="") as driver:
        await open_form(driver)
        await driver.shows("files here: q.csv, world.json", "a JSONL, JSON, CSV or parquet file")
        await driver.press("x")
        await driver.until(lambda: field(driver, "data").value == "x", "the typed letter")
        await driver.press("backspace")
        await driver.shows("files here: q.csv, world.json")


async def test_a_name_that_is_taken_is_said_by_the_name_of_its_field() -> None:
    write_config(questions_file("q.jsonl"), task="questions")
    async with running(RUNS, SMALL, config="q") as driver:
        driver.app.push_screen(NewConfigDialog())
        await arrive(driver, NewConfigDialog, "files here")
        await driver.press(*"q.jsonl", "tab", *"questions", "enter")
        await driver.shows("choose another 'Name of the config'")


async def test_what_is_wrong_is_said_below_and_nothing_is_written() -> None:
    async with running(RUNS, SMALL, config="") as driver:
        await open_form(driver)
        await driver.press("enter")
        await driver.shows("Data: type the path of a JSONL, JSON, CSV or parquet file")
        await driver.press(*"no.jsonl", "enter")
        await driver.shows("no.jsonl is not a file", "'Scored by' also .csv, .json")
        await driver.press("escape")
        await arrive(driver, StartScreen, "Start from your data")
    assert not Path("configs").exists()


async def test_the_tasks_are_listed_and_the_typed_one_is_explained() -> None:
    questions_file("q.jsonl")
    async with running(RUNS, SMALL, config="") as driver:
        await open_form(driver)
        await driver.press(*"q.jsonl", "tab")
        await driver.shows("records with question", "tasks:", "puzzles", "reading", "code")
        await driver.press(*"reading")
        await driver.shows("reading: questions about a text")


async def test_a_hub_that_cannot_be_reached_is_named_with_a_model_that_needs_none() -> None:
    async with running(RUNS, SMALL, config="") as driver:
        await open_form(driver)
        await driver.press("tab", "tab")
        await driver.shows("http://127.0.0.1:9 cannot be reached", "data/tiny/model")


async def test_text_that_arrives_together_with_tab_is_for_the_next_field() -> None:
    questions_file("q.jsonl")
    async with running(RUNS, SMALL, config="") as driver:
        await open_form(driver)
        await driver.press(*"q.jsonl")
        await driver.until(lambda: field(driver, "data").value == "q.jsonl", "the typed file")
        driver.app.post_message(events.Key("tab", "\t"))
        driver.app.post_message(events.Key("c", "c"))
        await driver.until(lambda: field(driver, "scoring").value == "c", "c in the second field")


async def test_a_key_of_the_home_screen_opens_it() -> None:
    SampleRun.create(RUNS, "night", total=4)
    async with running(RUNS, SMALL, home=True) as driver:
        await arrive(driver, HomeScreen)
        await driver.press("N")
        await arrive(driver, NewConfigDialog, "Scored by")


async def test_a_read_only_screen_does_not_open_it() -> None:
    SampleRun.create(RUNS, "night", total=4)
    loaded_settings = Loaded(Settings(read_only=True), {})
    async with running(RUNS, SMALL, home=True, loaded=loaded_settings) as driver:
        await arrive(driver, HomeScreen)
        await driver.press("N")
        assert type(driver.app.screen) is HomeScreen
