"""Every screen opens, and no change of the terminal's size makes one crash."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.grubrics_tui.every_screen import WAYS, package_screens
from tests.grubrics_tui.pilots import LARGE, running
from tests.grubrics_tui.world import RUNS, make_world, standing_clock

pytestmark = pytest.mark.waits

NARROWEST, WIDEST, LOWEST, HIGHEST = 40, 300, 10, 100
CORNERS = [(40, 10), (300, 100), (300, 10), (40, 100)]


def test_no_screen_is_left_out() -> None:
    assert package_screens() == {way.screen for way in WAYS.values()}


@pytest.mark.parametrize("name", WAYS)
async def test_a_screen_survives_a_resize_storm(name: str, tmp_path: Path) -> None:
    noise = random.Random(name)
    storm = [(noise.randint(NARROWEST, WIDEST), noise.randint(LOWEST, HIGHEST)) for _ in range(2)]
    with standing_clock(tmp_path):
        world = make_world()
        async with running(RUNS, LARGE, world.config) as driver:
            await WAYS[name].go(driver, world)
            for size in [*CORNERS, *storm, LARGE]:
                await driver.resize(size)
                assert type(driver.app.screen) is WAYS[name].screen
            assert driver.screen.strip()
