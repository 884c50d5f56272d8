"""The log on the whole screen: opened at its end, followed, searched, filtered, harmless."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from grubrics_tui.screens.log.screen import LogScreen
from grubrics_tui.widgets.log_view import LogView
from tests.grubrics_tui.pilots import LARGE, SMALL, Driver, running
from tests.grubrics_tui.sample_run import SampleRun

pytestmark = pytest.mark.waits

STEP = b"\x1b[36m(TaskRunnerV1 pid=7)\x1b[0m step:%d - reward/mean:0.%d - timing_s/step:1.5\n"
ERROR = b"\x1b[36m(WorkerDict pid=9)\x1b[0m torch.OutOfMemoryError: rank %d\n"
FILLER = b"filler " * 60 + b"\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """300 steps in 400 KB, errors after steps 100 and 200."""
    path = tmp_path / "console.log"
    with path.open("wb") as file:
        for step in range(1, 301):
            file.write(FILLER * 3 + STEP % (step, step))
            if step in (100, 200):
                file.write(ERROR % step)
    return path


def append(path: Path, *lines: bytes) -> None:
    with path.open("ab") as file:
        file.write(b"".join(line + b"\n" for line in lines))


def keys(text: str) -> list[str]:
    names = {" ": "space", "%": "percent_sign", "(": "left_parenthesis", "+": "plus"}
    names |= {":": "colon", "-": "minus"}
    return [names.get(char, char) for char in text]


async def ask(driver: Driver, key: str, text: str) -> None:
    await driver.press(key)
    await driver.press(*keys(text), "enter")


def view_of(driver: Driver) -> LogView:
    assert isinstance(driver.app.screen, LogScreen)
    return driver.app.screen.view


@pytest.mark.sample(2)
@pytest.mark.parametrize("size", [LARGE, SMALL, (40, 10), (300, 100)])
async def test_a_log_opens_at_its_end_and_then_knows_what_it_holds(
    log: Path, runs: Path, size: tuple[int, int]
) -> None:
    async with running(runs, size, log=log) as driver:
        screen = await driver.shows("step:300", "following")
        assert "TaskRunnerV1 7" in screen
        if size[0] >= 80:
            await driver.shows("1,202 lines", "2 errors", "line 1,202", "step 300")


async def test_a_reading_process_that_ends_early_is_reported(
    log: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    async with running(runs, LARGE, log=log) as driver:
        await driver.shows("scan stopped at 0%")
        await driver.press("e")
        await driver.shows("No error below found (the scan of the log was stopped)")


async def test_new_lines_appear_while_following_and_not_while_reading(
    log: Path, runs: Path
) -> None:
    async with running(runs, SMALL, log=log) as driver:
        await driver.shows("step:300")
        append(log, b"fresh words")
        await driver.shows("fresh words")
        await driver.press("g")
        assert "step:1 " in await driver.shows("0%")
        append(log, b"more words")
        await driver.press("G")
        await driver.shows("more words", "following")


async def test_a_search_goes_to_the_nearest_hit_and_n_goes_on(log: Path, runs: Path) -> None:
    async with running(runs, SMALL, log=log) as driver:
        await driver.shows("step:300", "1,202 lines")
        await ask(driver, "slash", "outofmemory.*rank")
        await driver.shows("rank 200", "2 of 2 lines", "step 200")
        await driver.press("N")
        await driver.shows("rank 100", "1 of 2 lines")
        await driver.press("N")
        await driver.shows("2 of 2 lines", "first hit; the search continues at the bottom")
        await driver.press("n")
        await driver.shows("1 of 2 lines", "last hit; the search continues at the top")
        await driver.press("n")
        await driver.shows("rank 200")
        await driver.press("escape")
        await driver.until(lambda: "outofmemory.*rank" not in driver.screen)


@pytest.mark.thorough
async def test_a_search_with_one_hit_says_that_there_is_no_other(log: Path, runs: Path) -> None:
    async with running(runs, SMALL, log=log) as driver:
        await driver.shows("step:300", "1,202 lines")
        await ask(driver, "slash", "rank 100")
        await driver.shows("1 of 1 line")
        await driver.press("n")
        await driver.shows("No other hit")


async def test_the_frame_names_the_last_line_after_going_to_the_start_and_back(
    log: Path, runs: Path
) -> None:
    async with running(runs, LARGE, log=log) as driver:
        await driver.shows("line 1,202")
        await driver.press("g")
        await driver.shows("0%   line 1 ")
        await driver.press("G")
        await driver.shows("following   line 1,202")


async def test_a_log_that_is_visible_as_a_whole_shows_no_percentage(
    tmp_path: Path, runs: Path
) -> None:
    path = tmp_path / "short.log"
    append(path, *(b"line of text" for _ in range(3)), b"the end", b"after it")
    async with running(runs, LARGE, log=path) as driver:
        await driver.shows("following   line 5")
        await driver.press("k")
        await driver.shows("all   line 4")


@pytest.mark.thorough
async def test_what_is_written_after_the_search_is_found_too(log: Path, runs: Path) -> None:
    async with running(runs, SMALL, log=log) as driver:
        await driver.shows("step:300")
        await ask(driver, "slash", "needle")
        await driver.shows("0 lines")
        append(log, b"a needle at last")
        await driver.shows("1 line")


async def test_a_filter_shows_only_its_lines_and_follows(log: Path, runs: Path) -> None:
    async with running(runs, SMALL, log=log) as driver:
        await driver.shows("step:300")
        await ask(driver, "ampersand", "step:")
        screen = await driver.shows("300 lines")
        assert "filler" not in screen and "step:285" in screen
        append(log, FILLER.strip(), (STEP % (301, 1)).strip())
        await driver.shows("step:301", "301 lines")
        await driver.press("escape")
        await driver.shows("filler")


@pytest.mark.thorough
async def test_a_search_under_a_filter_finds_only_what_is_shown(log: Path, runs: Path) -> None:
    async with running(runs, SMALL, log=log) as driver:
        await driver.shows("step:300")
        await ask(driver, "ampersand", "mean:0.1")
        await driver.shows("111 lines")
        await ask(driver, "slash", "reward")
        await driver.shows("111 of 111 lines")


@pytest.mark.thorough
async def test_errors_are_walked_and_a_filter_does_not_hide_them(log: Path, runs: Path) -> None:
    async with running(runs, SMALL, log=log) as driver:
        await driver.shows("2 errors")
        await driver.press("E")
        await driver.shows("rank 200")
        await driver.press("e")
        await driver.shows("No error below")
        await ask(driver, "ampersand", "step:")
        await driver.shows("300 lines")
        await driver.press("E")
        screen = await driver.shows("rank 200", "filler")
        assert "300 lines" not in screen


@pytest.mark.thorough
async def test_a_source_can_be_shown_alone(log: Path, runs: Path) -> None:
    async with running(runs, SMALL, log=log) as driver:
        await driver.shows("1,202 lines")
        await driver.press("s")
        await driver.shows(
            "Filter by source", "all sources", "driver", "900 lines", "WorkerDict pid=9"
        )
        await driver.press("down", "down", "down", "enter")
        screen = await driver.shows("filter WorkerDict pid=9 2 lines", "rank 100", "rank 200")
        assert "filler" not in screen


@pytest.mark.thorough
async def test_places_are_reached_by_line_share_and_step(log: Path, runs: Path) -> None:
    async with running(runs, SMALL, log=log) as driver:
        await driver.shows("1,202 lines")
        await ask(driver, "colon", "s150")
        await driver.shows("step:150", "step 150")
        await ask(driver, "colon", "12")
        await driver.shows("line 12")
        await ask(driver, "colon", "50%")
        await driver.shows("50%")
        await ask(driver, "colon", "s999")
        await driver.shows("No line for step 999")
        await ask(driver, "colon", "nowhere")
        await driver.shows("is not a position")


async def test_a_link_leads_to_the_line_that_holds_a_byte(log: Path, runs: Path) -> None:
    offset = log.read_bytes().index(b"OutOfMemoryError: rank 100")
    async with running(runs, SMALL, log=log) as driver:
        await driver.shows("step:300")
        view_of(driver).go_to_offset(offset)
        await driver.shows("rank 100")
        assert (view_of(driver).line_under_cursor() or "").endswith("rank 100")


async def test_a_link_to_a_step_waits_until_the_step_is_found(log: Path, runs: Path) -> None:
    async with running(runs, SMALL, log=log) as driver:
        await driver.until(lambda: view_of(driver).file is not None)
        assert view_of(driver).go_to_step(42)
        await driver.shows("step:42 ", "step 42")


async def test_repeated_lines_are_one_row_with_a_count_until_unfolded(
    log: Path, runs: Path
) -> None:
    append(log, *[b"again"] * 50)
    async with running(runs, SMALL, log=log) as driver:
        await driver.shows("again", "×50")
        await driver.press("f")
        await driver.shows("unfolded")
        assert driver.screen.count("again") > 15


async def test_long_lines_are_cut_wrapped_or_scrolled(log: Path, runs: Path) -> None:
    append(log, b"start " + b"x" * 300 + b" middle " + b"y" * 10_000_000 + b" end")
    async with running(runs, SMALL, log=log) as driver:
        assert "middle" not in await driver.shows("start", "…")
        await driver.press("w")
        await driver.shows("start", "middle")
        await driver.press("w", *["right"] * 7)
        await driver.shows("middle", "column")


async def test_a_line_is_copied_without_its_colors(log: Path, runs: Path) -> None:
    async with running(runs, SMALL, log=log) as driver:
        await driver.shows("step:300")
        await driver.press("y")
        await driver.shows("Copied")
        assert driver.app.clipboard.startswith("(TaskRunnerV1 pid=7) step:300 - ")


async def test_truncation_rotation_and_deletion_are_said(log: Path, runs: Path) -> None:
    async with running(runs, SMALL, log=log) as driver:
        await driver.shows("step:300", "2 errors")
        log.write_bytes(b"from the start\n")
        await driver.shows("the file was truncated", "1 line")
        assert "2 errors" not in driver.screen
        (log.parent / "new").write_bytes(b"the new file\n")
        (log.parent / "new").replace(log)
        await driver.shows("the log was rotated", "the new file")
        log.unlink()
        await driver.shows("the file was deleted", "the new file")


async def test_a_file_that_is_not_there_yet_is_waited_for(tmp_path: Path, runs: Path) -> None:
    async with running(runs, log=tmp_path / "later.log") as driver:
        await driver.shows("later.log", "waiting for the file")
        append(tmp_path / "later.log", b"here it is")
        await driver.shows("here it is")


async def test_no_expression_is_refused_and_one_without_end_is_stopped(
    tmp_path: Path, runs: Path
) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"a" * 64 + b"!\n")
    async with running(runs, SMALL, log=log) as driver:
        await driver.shows("aaaa")
        await ask(driver, "slash", "(")
        await driver.shows("is no regular expression")
        await driver.press("slash")
        view_of(driver).query_ancestor(LogScreen).query_one("#prompt").value = "(a+)+b"  # type: ignore[attr-defined]
        await driver.press("enter")
        await driver.shows("esc stops")
        await driver.press("escape")
        await driver.until(lambda: "esc stops" not in driver.screen)


async def test_hostile_text_is_inert(tmp_path: Path, runs: Path) -> None:
    log = tmp_path / "[red]name[@click=app.quit]"
    hostile = (
        b"[red]no[/red] [@click=app.quit]no[/] \x1b]0;owned\x07\x1b[2J\x1b[Hnul\0 "
        b"\xff\xfe \xe2\x80\xaebidi\xe2\x80\x8b \x1b[30;40mvisible"
    )
    append(log, hostile, b"\0" * 5000, b"\xf0\x9f\x8e\x89 wide \xe5\xae\xbd")
    async with running(runs, SMALL, log=log) as driver:
        screen = await driver.shows(
            "[red]name[@click=app.quit]", "[@click=app.quit]no[/]", "visible", "wide"
        )
        assert "nul" in screen and "\x1b" not in screen


@pytest.mark.thorough
async def test_resizes_and_keys_of_all_kinds_do_no_harm(log: Path, runs: Path) -> None:
    async with running(runs, SMALL, log=log) as driver:
        await driver.shows("step:300")
        for size in [(40, 10), (300, 100), (41, 11)]:
            await driver.resize(size)
            await driver.press("k", "pageup", "w", "pagedown", "left", "f", "home", "e", "right")
        await driver.press("escape", "G")
        await driver.shows("following")


@pytest.mark.thorough
async def test_an_empty_file_is_shown_as_such(tmp_path: Path, runs: Path) -> None:
    (tmp_path / "log").touch()
    async with running(runs, log=tmp_path / "log") as driver:
        await driver.shows("following")
        await driver.press("k", "j", "g", "e", "n", "y", "w", "f")
        await ask(driver, "colon", "50%")
        append(tmp_path / "log", b"first words")
        await driver.shows("first words")


async def test_the_live_screen_opens_its_run_s_log_and_esc_leads_back(
    run: SampleRun, runs: Path
) -> None:
    async with running(runs, LARGE) as driver:
        await driver.shows("step 12/40", "following")
        await driver.press("l")
        await driver.shows("log of grpo-night", "WorkerDict 25577", "line 48")
        await driver.press("escape")
        await driver.shows("step 12/40")


def stamped(path: Path, *moments: str) -> None:
    """A line without a time before and after each one that has it."""
    append(path, *[b"INFO:%s,123:words\nmore of it" % moment.encode() for moment in moments])


@pytest.mark.thorough
async def test_a_time_leads_to_the_first_line_written_at_or_after_it(
    tmp_path: Path, runs: Path
) -> None:
    log = tmp_path / "log"
    stamped(log, *[f"2026-01-31 {hour:02}:30:00" for hour in range(10, 24)])
    stamped(log, *[f"2026-02-01 {hour:02}:30:00" for hour in range(5)])
    async with running(runs, SMALL, log=log) as driver:
        await driver.shows("2026-02-01 04:30")
        for asked, line in [
            ("14:03", "INFO:2026-01-31 14:30:00"),
            ("02:30", "INFO:2026-02-01 02:30:00"),
            ("2026-01-31 12:00:01", "INFO:2026-01-31 12:30:00"),
            ("-10h", "INFO:2026-01-31 18:30:00"),
        ]:
            await ask(driver, "t", asked)
            await driver.until(lambda line=line: under_cursor(driver).startswith(line), line)  # type: ignore[misc]


@pytest.mark.thorough
async def test_a_time_a_share_and_the_start_keep_the_filter(tmp_path: Path, runs: Path) -> None:
    log = tmp_path / "log"
    stamped(log, *[f"2026-01-31 {hour:02}:30:00" for hour in range(10, 24)])
    append(log, b"ERROR:2026-01-31 23:40:00,123:words")
    async with running(runs, SMALL, log=log) as driver:
        await driver.shows("23:40:00")
        await ask(driver, "ampersand", ":30:00|ERROR")
        await driver.shows("15 lines")
        await ask(driver, "ampersand", "2[0-3]:30")
        await driver.shows("4 lines")
        for key, asked in (("t", "14:03"), ("colon", "1%"), ("t", "20:00")):
            await ask(driver, key, asked)
            await driver.until(lambda: "20:30:00" in under_cursor(driver), "20:30:00")
            assert "more of it" not in await driver.shows("4 lines")
        await driver.press("G", "g")
        await driver.until(lambda: "20:30:00" in under_cursor(driver), "20:30:00")
        await driver.shows("4 lines")


def under_cursor(driver: Driver) -> str:
    return view_of(driver).line_under_cursor() or ""


@pytest.mark.thorough
async def test_a_time_that_is_not_in_the_log_is_said_so(tmp_path: Path, runs: Path) -> None:
    log = tmp_path / "log"
    stamped(log, "2026-01-31 10:30:00")
    async with running(runs, SMALL, log=log) as driver:
        await driver.shows("10:30:00")
        await ask(driver, "t", "2026-01-31 11:00")
        await driver.shows("No line at or after that time")
        await ask(driver, "t", "noon")
        await driver.shows("'noon' is no time")


async def test_a_log_without_times_says_so(log: Path, runs: Path) -> None:
    async with running(runs, SMALL, log=log) as driver:
        await driver.shows("step:300")
        await ask(driver, "t", "14:03")
        await driver.shows("This log has no timestamps")


@pytest.mark.thorough
async def test_the_attempts_of_a_run_have_a_key_and_a_search_goes_along(
    run: SampleRun, runs: Path
) -> None:
    second = run.run.attempt(2)
    second.path.mkdir()
    second.console.write_bytes(b"second start\nneedle of two\n")
    run.print(b"needle of one")
    async with running(runs, LARGE, log=run.run.attempt(1).console) as driver:
        await driver.shows("log of grpo-night", "attempt 1 of 2")
        await ask(driver, "slash", "needle")
        await driver.shows("needle of one", "1 line")
        await driver.press("]")
        await driver.shows("attempt 2 of 2", "second start", "needle of two", "1 line")
        await driver.press("]")
        await driver.shows("No later attempt")
        await driver.press("[")
        await driver.shows("attempt 1 of 2", "needle of one")


@pytest.mark.thorough
async def test_a_log_of_no_run_offers_no_other_attempts(log: Path, runs: Path) -> None:
    async with running(runs, LARGE, log=log) as driver:
        await driver.shows("step:300")
        offered = {entry.binding.action for entry in driver.app.screen.active_bindings.values()}
        assert "follow" in offered and not offered & {"attempt(1)", "attempt(-1)"}
        await driver.press("question_mark")
        shown = await driver.shows("Inactive")
        assert "next, previous attempt" in shown[shown.index("Inactive") :]


@pytest.mark.thorough
async def test_a_chosen_source_does_not_hide_another_attempt(run: SampleRun, runs: Path) -> None:
    second = run.run.attempt(2)
    second.path.mkdir()
    second.console.write_bytes(b"\x1b[36m(WorkerDict pid=99)\x1b[0m second start\n")
    async with running(runs, LARGE, log=run.run.attempt(1).console) as driver:
        await driver.shows("48 lines")
        await driver.press("s")
        await driver.shows("Filter by source", "RewardLoopWorker pid=25611 judge")
        await driver.press("j", "j", "enter")
        await driver.shows("filter", "12 lines")
        await driver.press("]")
        await driver.shows("second start")
