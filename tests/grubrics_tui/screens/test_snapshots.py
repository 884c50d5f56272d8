"""Every screen looks as it did when a person last looked at it: large, small, without colour.

``UPDATE_SNAPSHOTS=1 python -m pytest tests/grubrics_tui/screens/test_snapshots.py`` writes what the
screens show; read the diff before you commit it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.widgets import Input, TextArea

from tests.grubrics_tui.every_screen import WAYS, settled
from tests.grubrics_tui.pilots import LARGE, SMALL, Driver, running
from tests.grubrics_tui.snapshots import FOLDER, must_update, snapshot
from tests.grubrics_tui.world import RUNS, World, make_world, standing_clock

pytestmark = pytest.mark.waits

SIZES = (LARGE, SMALL)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with standing_clock(tmp_path):
        yield make_world()


def path_of(name: str, size: tuple[int, int], *, colours: bool) -> Path:
    kind = "colour" if colours else "mono"
    return FOLDER / f"{name}-{size[0]}x{size[1]}-{kind}.txt"


@pytest.mark.skipif(must_update(), reason="they are being written")
def test_no_snapshot_is_missing_or_left_over() -> None:
    wanted = {
        path_of(name, size, colours=colours)
        for name in WAYS
        for size in SIZES
        for colours in (True, False)
    }
    assert set(FOLDER.iterdir()) == wanted


@pytest.mark.parametrize("colours", [True, False], ids=["colour", "mono"])
@pytest.mark.parametrize("name", WAYS)
async def test_a_screen_looks_as_it_did(
    name: str, colours: bool, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not colours:
        monkeypatch.setenv("NO_COLOR", "1")
    async with running(RUNS, LARGE, world.config) as driver:
        await WAYS[name].go(driver, world)
        for size in SIZES:
            await driver.resize(size)
            _hold_cursors(driver)
            await _compare(driver, path_of(name, size, colours=colours), colours)


def _hold_cursors(driver: Driver) -> None:
    for field in driver.app.screen.query(Input):
        field.cursor_blink = False
    for area in driver.app.screen.query(TextArea):
        area.cursor_blink = False


async def _compare(driver: Driver, path: Path, colours: bool) -> None:
    """A screen may still be reading when it is first looked at: it has a while to agree."""
    if must_update():
        await settled(driver, looks=20)
        path.parent.mkdir(exist_ok=True)
        path.write_text(snapshot(driver.app, colours=colours))
        return
    before = path.read_text()
    try:
        await driver.until(lambda: snapshot(driver.app, colours=colours) == before, path.name)
    except AssertionError:
        assert snapshot(driver.app, colours=colours) == before
