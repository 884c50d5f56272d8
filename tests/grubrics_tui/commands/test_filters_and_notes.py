"""The list of runs: filters, tags and notes, on the screen and in the shell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.base.errors import UsageError
from engine.run.notes import Notes, edit_notes, read_notes
from grubrics_tui.cli import app
from tests.grubrics_tui.pilots import cli_output, running
from tests.grubrics_tui.sample_run import SampleRun

pytestmark = pytest.mark.waits


async def test_a_filter_is_live_and_escape_takes_it_back(
    three: dict[str, SampleRun], runs: Path
) -> None:
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("3 runs")
        await driver.press("slash", *"state:fin")
        await driver.shows("2 of 3 runs")
        await driver.press(*" step>10")
        await driver.shows("1 of 3 runs")
        await driver.press("enter")
        assert "growing" not in driver.screen
        await driver.press("escape")
        await driver.shows("3 runs ", "growing")


async def test_an_invalid_filter_is_explained_beside_it(
    three: dict[str, SampleRun], runs: Path
) -> None:
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("3 runs")
        await driver.press("slash", *"stat:x")
        await driver.shows("character 1: unknown field 'stat'; did you mean 'state'?")


async def test_tags_and_a_note_are_written_on_the_screen(
    three: dict[str, SampleRun], runs: Path
) -> None:
    run = three["growing"].run
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("3 runs")
        await driver.press("n", *"best lr-3", "tab", *"keep this", "ctrl+s")
        await driver.shows("#best #lr-3", "keep this")
    assert read_notes(run).tags == ("best", "lr-3")
    assert read_notes(run).text == "keep this"


async def test_a_note_that_was_written_elsewhere_is_shown_before_it_is_replaced(
    three: dict[str, SampleRun], runs: Path
) -> None:
    run = three["growing"].run
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("3 runs")
        await driver.press("n", "tab", *"mine")
        cli_output(runs, "note", run.id, "from the shell")
        await driver.press("ctrl+s")
        await driver.shows("changed meanwhile, to: from the shell", "ctrl+s again replaces it")
        assert read_notes(run).text == "from the shell"
        await driver.press("ctrl+s")
        await driver.shows("3 runs")
    assert read_notes(run).text == "mine"


@pytest.mark.thorough
async def test_a_wrong_tag_is_refused_and_typed_text_is_not_lost_by_one_escape(
    three: dict[str, SampleRun], runs: Path
) -> None:
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("3 runs")
        await driver.press("n", *"[red]", "ctrl+s")
        await driver.shows("must be ASCII letters")
        await driver.press("escape")
        await driver.shows("esc again discards it")
        await driver.press("escape")
        await driver.shows("3 runs")
    assert not three["growing"].run.notes_file.exists()


def test_runs_are_filtered_in_the_shell(three: dict[str, SampleRun], runs: Path) -> None:
    edit_notes(three["short"].run, Notes(), ["best"], "")
    found = json.loads(cli_output(runs, "runs", "--filter", "tag:best or step>20", "--json"))
    assert [run["id"] for run in found["runs"]] == ["short", "long"]
    assert found["runs"][0]["tags"] == ["best"]
    done = CliRunner().invoke(app, ["runs", "--filter", "stat:x", "--runs", str(runs)])
    assert isinstance(done.exception, UsageError)


def test_tags_and_notes_are_written_in_the_shell(three: dict[str, SampleRun], runs: Path) -> None:
    assert cli_output(runs, "tag", "short", "a", "b") == "a b\n"
    assert cli_output(runs, "tag", "short", "a", "--remove") == "b\n"
    assert cli_output(runs, "note", "short", "why") == "why\n"
    assert json.loads(cli_output(runs, "note", "short", "--json")) == {
        "run": "short",
        "tags": ["b"],
        "note": "why",
    }
    assert cli_output(runs, "note", "short", "because") == "because\nreplaced: why\n"
    assert "#b" in cli_output(runs, "runs")
