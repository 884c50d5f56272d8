"""What holds on every screen: keys, help, themes, a terminal without color."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Static

from grubrics_tui.app.app import GrubricsApp
from grubrics_tui.screens.help import HelpScreen
from grubrics_tui.screens.navigation import OpenLogEntry, OpenRun
from grubrics_tui.settings.actions import ACTIONS, Action, actions_of, bindings
from grubrics_tui.settings.themes import THEMES
from tests.grubrics_tui.pilots import LARGE, SMALL, running
from tests.grubrics_tui.sample_run import SampleRun


async def test_help_lists_the_keys_of_the_screen_and_their_commands(
    run: SampleRun, runs: Path
) -> None:
    async with running(runs, LARGE) as driver:
        await driver.shows("step 12/40")
        await driver.press("question_mark")
        await driver.shows("Keys: live", "s stop", "1-7 select", "stop RUN")
        await driver.press("escape")
        assert "Keys: live" not in driver.screen


async def test_a_message_covers_only_the_end_of_the_footer(run: SampleRun, runs: Path) -> None:
    async with running(runs, SMALL) as driver:
        before = (await driver.shows("step 12/40", "◆ val", "q quit")).splitlines()
        driver.app.notify("first", title="not launched")
        await driver.shows("not launched: first")
        driver.app.notify("nothing was done")
        shown = (await driver.shows("nothing was done", before[-1][:40])).splitlines()
        assert "first" not in "".join(shown)
        assert _without_clock(shown[:-1]) == _without_clock(before[:-1])
        assert shown[-1].startswith(before[-1][:40])


async def test_the_next_key_clears_a_message(run: SampleRun, runs: Path) -> None:
    async with running(runs, SMALL) as driver:
        await driver.shows("step 12/40")
        driver.app.notify("no such step", severity="error")
        await driver.shows("no such step")
        await driver.press("tab")
        assert "no such step" not in await driver.shows("q quit")


def _without_clock(lines: list[str]) -> list[str]:
    return [line for line in lines if "elapsed" not in line]


async def test_an_error_is_shown_in_full_beside_the_next_message(
    run: SampleRun, runs: Path
) -> None:
    async with running(runs, SMALL) as driver:
        long = " ".join(f"word{number}" for number in range(20))
        driver.app.notify(long, title="could not be read", severity="error")
        driver.app.notify("nothing was done")
        await driver.shows("could not be read: word0", "word19", "nothing was done")


async def test_f1_opens_the_help_from_a_text_field(run: SampleRun, runs: Path) -> None:
    async with running(runs, SMALL) as driver:
        driver.app.post_message(OpenLogEntry(run.run))
        await driver.shows("Research question", "f1 help")
        await driver.press("question_mark", "f1")
        await driver.shows("Keys: log entry", "ctrl+s save", "entry RUN --append")
        await driver.press("escape")
        await driver.shows("│ ?")


async def test_quit_and_help_are_named_in_the_footer_at_80_columns(
    run: SampleRun, runs: Path
) -> None:
    async with running(runs, SMALL) as driver:
        for key in ("r", "c"):
            await driver.shows("? help", "q quit")
            await driver.press(key)
        await driver.shows("? help", "q quit")


async def test_the_footer_of_a_finished_run_fits_80_columns(run: SampleRun, runs: Path) -> None:
    run.say("finished")
    async with running(runs, SMALL) as driver:
        driver.app.post_message(OpenRun(run.run))
        await driver.shows("v summary", "e log entry", "f findings", "? help", "q quit")


def test_a_crash_is_the_exit_code_of_the_process(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def crash(_: GrubricsApp) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(GrubricsApp, "on_mount", crash)
    with pytest.raises(SystemExit) as caught:
        GrubricsApp(runs, "").run_to_end(headless=True)
    assert caught.value.code == 1 and "broken" in capsys.readouterr().err


async def test_every_theme_draws_the_live_screen(run: SampleRun, runs: Path) -> None:
    async with running(runs) as driver:
        for theme in [*(theme.name for theme in THEMES), "nord"]:
            driver.app.theme = theme
            await driver.shows("step 12/40", "std")


async def test_without_color_shapes_and_letters_say_what_colors_would(
    run: SampleRun, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with running(runs) as driver:
        await driver.shows("● running", "ggg", "uuu", "****", "g gen", "* p50")


async def test_an_ascii_terminal_gets_no_braille(run: SampleRun, runs: Path) -> None:
    async with running(runs) as driver:
        driver.app.ascii_only = True
        driver.app.theme = "grubrics-light"
        screen = await driver.shows("####", "::::")
        assert not any("\u2800" <= char <= "\u28ff" for char in screen)


def test_no_screen_binds_a_key_twice() -> None:
    for where in {place for action in ACTIONS for place in action.where}:
        own = [a for a in actions_of(where) if not (_is_log(a) or _is_palette(a))]
        keys = [key for action in own for key in action.key.split(",")]
        assert len(keys) == len(set(keys)), where


def _is_log(action: Action) -> bool:
    """The live screen's keys for its log, which stand back where a chart is in front."""
    return "live" in action.where and action.description.startswith("Log: ")


def _is_palette(action: Action) -> bool:
    """The palette's key, which dialogs use for the previous row: they offer no palette."""
    return action.name == "app.command_palette"


def test_every_action_is_bound_where_it_is_offered() -> None:
    bound = {where: len(bindings(where)) for where in ("live", "preflight", "runs", "")}
    assert all(bound.values())


async def test_an_unreadable_folder_of_runs_still_opens_the_preflight(tmp_path: Path) -> None:
    not_a_folder = tmp_path / "runs"
    not_a_folder.write_text("")
    async with running(not_a_folder) as driver:
        await driver.shows("Run to launch")


async def test_the_help_of_a_small_terminal_breaks_no_entry(run: SampleRun, runs: Path) -> None:
    async with running(runs, (60, 15)) as driver:
        await driver.shows("step 12/40")
        await driver.press("question_mark")
        await driver.until(lambda: isinstance(driver.app.screen, HelpScreen))
        text = driver.app.screen.query_one(Static)
        await driver.until(lambda: text.size.height > 15)
        lines = [text.render_line(y).text for y in range(text.size.height)]
        heads = {line[:10].strip() for line in lines}
        assert heads <= {"", "Actions", "Panels", "Chart", "Table", "Log", "Move", "Global",
                         "Inactive", "CLI"}  # fmt: skip
