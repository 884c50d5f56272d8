"""Keys of one packet, as a paste or a slow line delivers them, do what slow keys do."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from textual import events

from tests.grubrics_tui.every_screen import settled
from tests.grubrics_tui.pilots import Driver, running
from tests.grubrics_tui.sample_run import SampleRun

NAMES = {
    "\r": "enter",
    "\x1b": "escape",
    " ": "space",
    "/": "slash",
    "&": "ampersand",
    ":": "colon",
    "%": "percent_sign",
    "?": "question_mark",
}


def names(text: str) -> list[str]:
    return [NAMES.get(character, character) for character in text]


async def type_at_once(driver: Driver, text: str) -> None:
    for name, character in zip(names(text), text, strict=True):
        driver.app.post_message(events.Key(name, character if character.isprintable() else None))
    await driver.settle()
    await driver.until(lambda: not driver.app.typed.is_busy)


@pytest.mark.parametrize(
    ("way", "text"),
    [
        ("r", "/night\rjj"),
        ("r", "/state:failed\rgj  x"),
        ("r", "/sy/dy"),
        ("r", "ntwo words"),
        ("r", "?\x1b/a"),
        ("l", "/step 3\r"),
        ("l", "&reset\rjj"),
        ("l", ":50%\r"),
        ("", "/rew\r6"),
        ("", "C/seed\rj"),
        ("o", "/step\rn"),
        ("", "sn/kl"),
    ],
)
async def test_text_after_a_key_that_opens_a_line_goes_into_the_line(
    way: str, text: str, run: SampleRun, runs: Path
) -> None:
    run.say("finished")
    slowly = ""
    for at_once in (False, True):
        async with running(runs, watched=run.run) as driver:
            await driver.shows("12/40")
            await driver.press(*way)
            await driver.until(partial(_is_read, driver))
            await settled(driver)
            if at_once:
                await type_at_once(driver, text)
                await driver.shows(*slowly.splitlines())
            else:
                await driver.press(*names(text))
                slowly = await settled(driver)


def _is_read(driver: Driver) -> bool:
    return "scanning" not in driver.screen
