"""Every screen: it looks as it did when a person last looked at it, large and small, in color and
without; no size makes it crash; and with ``ascii: true`` it needs no more than ASCII.

``make test`` compares every screen in color and some without, and gives some every size;
``make thorough`` does so with all. ``test_hostile_text.py`` walks through the same screens with
hostile data.

``UPDATE_SNAPSHOTS=1 python -m pytest tests/grubrics_tui/screens/test_snapshots.py`` writes what the
screens show; read the diff before you commit it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.widgets import Input, TextArea

from grubrics_tui.app.base_app import AsciiFilter
from tests.grubrics_tui.every_screen import WAYS, package_screens, settled
from tests.grubrics_tui.pilots import LARGE, SMALL, Driver, running
from tests.grubrics_tui.snapshots import FOLDER, must_update, snapshot
from tests.grubrics_tui.world import RUNS, World, make_world, standing_clock

pytestmark = pytest.mark.waits

SIZES = (LARGE, SMALL)
OTHERWISE_WITHOUT_COLOR = frozenset(
    {
        "choose-metric", "compare", "confirm-fix", "confirm-repro", "confirm-stop",
        "confirm-trust", "help", "live", "live-failed", "live-sft", "metrics", "rollouts-diff",
        "whole-values",
    }
)  # fmt: skip
"""Screens whose cells say without color what else a color says."""
NARROWEST, WIDEST, LOWEST, HIGHEST = 40, 300, 10, 100
EXTREMES = ((40, 10), (300, 10), (40, 100))
"""Not (300, 100), which takes as long to draw as all others: ``test_layout.py`` has it."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with standing_clock(tmp_path):
        yield make_world()


def path_of(name: str, size: tuple[int, int], *, colors: bool) -> Path:
    kind = "color" if colors else "mono"
    return FOLDER / f"{name}-{size[0]}x{size[1]}-{kind}.txt"


def test_no_screen_is_left_out() -> None:
    assert package_screens() == {way.screen for way in WAYS.values()}


@pytest.mark.skipif(must_update(), reason="they are being written")
def test_no_snapshot_is_missing_or_left_over() -> None:
    wanted = {
        path_of(name, size, colors=colors)
        for name in WAYS
        for size in SIZES
        for colors in (True, False)
    }
    assert set(FOLDER.iterdir()) == wanted


def test_the_cells_of_the_other_screens_are_the_same_without_color() -> None:
    differing = set()
    for name in WAYS:
        for size in SIZES:
            colored = path_of(name, size, colors=True).read_text()
            plain = path_of(name, size, colors=False).read_text()
            differing |= set() if colored.startswith(plain) else {name}
    assert differing == OTHERWISE_WITHOUT_COLOR


@pytest.mark.parametrize("name", WAYS)
async def test_a_screen_looks_as_it_did(name: str, world: World) -> None:
    async with running(RUNS, LARGE, world.config) as driver:
        await WAYS[name].go(driver, world)
        await _compare_sizes(driver, name, colors=True)


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", WAYS)
async def test_a_screen_survives_every_size(name: str, world: World) -> None:
    async with running(RUNS, LARGE, world.config) as driver:
        await WAYS[name].go(driver, world)
        noise = random.Random(name)
        any_size = noise.randint(NARROWEST, WIDEST), noise.randint(LOWEST, HIGHEST)
        for size in (*EXTREMES, any_size, LARGE):
            await driver.resize(size)
            assert type(driver.app.screen) is WAYS[name].screen
        assert driver.screen.strip()


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", WAYS)
async def test_a_screen_looks_as_it_did_without_color_and_can_be_ascii(
    name: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with running(RUNS, LARGE, world.config) as driver:
        await WAYS[name].go(driver, world)
        await _compare_sizes(driver, name, colors=False)
        await _require_ascii(driver)


async def _require_ascii(driver: Driver) -> None:
    await _switch_to_ascii(driver)
    for size in SIZES:
        await driver.resize(size)
        screen = await settled(driver)
        assert [line for line in screen.splitlines() if not line.isascii()] == []


async def _switch_to_ascii(driver: Driver) -> None:
    """As if the app had been started with ``ascii: true``; a new size draws everything again."""
    driver.app.ascii_only, driver.app._ascii_filters = True, [AsciiFilter()]
    await driver.resize((LARGE[0] - 1, LARGE[1] - 1))


async def _compare_sizes(driver: Driver, name: str, *, colors: bool) -> None:
    for size in SIZES:
        await driver.resize(size)
        _hold_cursors(driver)
        await _compare(driver, path_of(name, size, colors=colors), colors)


def _hold_cursors(driver: Driver) -> None:
    for field in driver.app.screen.query(Input):
        field.cursor_blink = False
    for area in driver.app.screen.query(TextArea):
        area.cursor_blink = False


async def _compare(driver: Driver, path: Path, colors: bool) -> None:
    """A screen may still be reading when it is first looked at: it has a while to agree."""
    if must_update():
        await settled(driver, looks=20)
        path.parent.mkdir(exist_ok=True)
        path.write_text(snapshot(driver.app, colors=colors))
        return
    before = path.read_text()
    try:
        await driver.until(lambda: snapshot(driver.app, colors=colors) == before, path.name)
    except AssertionError:
        assert snapshot(driver.app, colors=colors) == before
