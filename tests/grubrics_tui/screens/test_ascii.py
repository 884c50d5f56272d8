"""What ``ascii: true`` does apart from the walk through every screen (``test_snapshots.py``)."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.segment import Segment
from textual.color import Color

from grubrics_tui.app.app import GrubricsApp
from grubrics_tui.app.base_app import AsciiFilter, plain
from grubrics_tui.model.history import _KINDS
from grubrics_tui.settings.keys import format_keys
from grubrics_tui.settings.settings import Loaded, Settings
from tests.grubrics_tui.every_screen import WAYS, settled
from tests.grubrics_tui.pilots import LARGE, SMALL, Driver, running
from tests.grubrics_tui.world import RUNS, make_world, standing_clock

ASCII = Loaded(Settings(ascii=True), {})


@pytest.mark.sample(1)
@pytest.mark.waits
@pytest.mark.parametrize("name", ["help", "live"])
async def test_an_app_that_starts_with_it_is_ascii(name: str, tmp_path: Path) -> None:
    """The help writes its keys when it opens: they are words from the start."""
    with standing_clock(tmp_path):
        world = make_world()
        async with running(RUNS, LARGE, world.config, loaded=ASCII) as driver:
            expecting_ascii(driver)
            await WAYS[name].go(driver, world)
            for size in (LARGE, SMALL):
                await driver.resize(size)
                screen = await settled(driver)
                assert [line for line in screen.splitlines() if not line.isascii()] == []


def test_the_locale_c_is_ascii_though_python_writes_utf_8(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    assert GrubricsApp(tmp_path, "").ascii_only


def expecting_ascii(driver: Driver) -> None:
    """The ways to the screens name what they wait for by its usual signs."""
    shows = driver.shows

    async def in_ascii(*texts: str) -> str:
        return await shows(*map(plain, texts))

    driver.shows = in_ascii  # type: ignore[method-assign]


def test_a_flag_has_an_ascii_sign_of_its_own() -> None:
    signs = [kind.ascii_glyph for kind in _KINDS]
    assert "".join(signs).isascii()
    assert len(set(signs)) == len(signs)


def test_texts_from_files_keep_their_letters() -> None:
    (shown,) = AsciiFilter().apply([Segment("naïve 宽 …")], Color(0, 0, 0))
    assert shown.text == "naïve 宽 ~"


def test_arrows_are_words() -> None:
    assert format_keys("j,down,question_mark", ascii_only=True) == "j down ?"
