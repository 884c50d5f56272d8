"""The configuration of a run on the screen."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.logs.formats.external_run import open_external
from engine.run.run import Run
from engine.run.trust import vouch
from grubrics_tui.screens.config.screen import ConfigScreen, ValueList
from grubrics_tui.screens.navigation import OpenConfig
from tests.engine.logs.formats.samples import message, wandb_log
from tests.grubrics_tui.every_screen import arrive
from tests.grubrics_tui.pilots import SMALL, Driver, running
from tests.grubrics_tui.sample_run import SampleRun
from tests.manifests import change_manifest

pytestmark = pytest.mark.waits

CONFIG = {
    "actor.optim.lr": {"value": 0.02, "origin": "cli"},
    "actor.clip_ratio": {"value": 0.2, "origin": "default"},
    "data.train_files": {"value": ["a.parquet", "b.parquet"], "origin": "file"},
}
CHANGES = [{"key": "actor.optim.lr", "before": 0.0002, "after": 0.02, "origin": "cli"}]


@pytest.fixture
def hot(run: SampleRun) -> Run:
    """A run with a changed learning rate."""
    change_manifest(run.run, config=CONFIG, changes=CHANGES, recipe="tiny")
    vouch(run.run)
    return run.run


async def open_config(driver: Driver, run: Run) -> ValueList:
    driver.app.post_message(OpenConfig(run))
    await arrive(driver, ConfigScreen, "row 1 of")
    return driver.app.screen.query_one(ValueList)


@pytest.mark.parametrize("keys", [("C",), ("r", "C")])
async def test_one_key_opens_it_from_the_live_view_and_the_list(
    hot: Run, runs: Path, keys: tuple[str, ...]
) -> None:
    async with running(runs) as driver:
        for key in keys:
            await driver.shows("grpo-night")
            await driver.press(key)
        await arrive(driver, ConfigScreen, "Config of grpo-night")


async def test_changed_values_come_first_with_the_value_of_the_file(hot: Run, runs: Path) -> None:
    async with running(runs, SMALL) as driver:
        await open_config(driver, hot)
        text = await driver.shows("1 value changed from tiny", "0.02 (file: 0.0002)", "row 1 of 3")
        assert text.index("actor.optim.lr") < text.index("train_files")


async def test_the_filter_takes_any_part_of_key_or_value(hot: Run, runs: Path) -> None:
    async with running(runs) as driver:
        await open_config(driver, hot)
        await driver.press("slash", *"B.PARQ", "enter")
        await driver.shows("row 1 of 1", "data.train_files")
        await driver.press("escape")
        await driver.shows("row 3 of 3")
        await driver.press("slash", "z", "z")
        await driver.shows("no value matches the filter")


async def test_values_that_nobody_set_are_shown_by_a_key_and_found_by_the_filter(
    hot: Run, runs: Path
) -> None:
    async with running(runs) as driver:
        await open_config(driver, hot)
        assert "clip_ratio" not in await driver.shows("without defaults, row 1 of 3")
        await driver.press("slash", *"clip", "enter")
        await driver.shows("clip_ratio", "row 1 of 1")
        await driver.press("escape", "d")
        await driver.shows("clip_ratio", "row 1 of 4")


async def test_a_value_is_copied_as_a_command_takes_it(hot: Run, runs: Path) -> None:
    async with running(runs) as driver:
        await open_config(driver, hot)
        await driver.press("y")
        assert driver.app.clipboard == "actor.optim.lr=0.02"
        await driver.press("G", "Y")
        assert driver.app.clipboard == "[a.parquet, b.parquet]"


async def test_a_click_selects_a_value(hot: Run, runs: Path) -> None:
    async with running(runs) as driver:
        values = await open_config(driver, hot)
        await driver.click(values, (4, 4))
        await driver.shows("row 2 of 3")
        assert values.selected is not None and values.selected.value is not None
        assert values.selected.value.key == "actor.optim.lr"


async def test_the_config_of_a_log_is_shown_where_it_holds_one(tmp_path: Path, runs: Path) -> None:
    log = tmp_path / "run-abc.wandb"
    setting = message((1, message((1, "max_steps"), (16, "40"))))
    log.write_bytes(wandb_log([message((17, message((1, "abc"), (4, setting))))]))
    async with running(runs) as driver:
        driver.app.post_message(OpenConfig(open_external(log)))
        await arrive(driver, ConfigScreen, "max_steps", "40")


async def test_of_a_run_without_a_config_the_screen_says_so(run: SampleRun, runs: Path) -> None:
    run.run.manifest_file.write_text("{}")
    async with running(runs) as driver:
        driver.app.post_message(OpenConfig(run.run))
        await arrive(driver, ConfigScreen, "hold no configuration")


async def test_a_value_is_shown_with_what_its_key_means_and_takes(
    run: SampleRun, runs: Path
) -> None:
    config = {"algorithm.gamma": {"value": 0.9, "origin": "cli"}}
    change_manifest(run.run, config=config)
    vouch(run.run)
    async with running(runs, SMALL) as driver:
        await open_config(driver, run.run)
        await driver.shows(
            "origin   cli", "at least 0 and at most 1", "Discount factor for future rewards"
        )
