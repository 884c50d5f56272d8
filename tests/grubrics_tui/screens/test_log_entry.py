"""The run summary, and the forms for the experiment log and for decisions."""

from __future__ import annotations

from pathlib import Path

import pytest

from grubrics_tui.screens.forms import LogEntryScreen
from tests.grubrics_tui.pilots import LARGE, SMALL, running
from tests.grubrics_tui.sample_run import SampleRun


@pytest.fixture
def done(runs: Path) -> SampleRun:
    sample = SampleRun.create(runs, "grpo-done")
    sample.grow(40)
    sample.say("finished")
    return sample


@pytest.mark.sample(1)
@pytest.mark.parametrize("size", [LARGE, SMALL])
async def test_the_verdict_names_state_reward_validation_and_checkpoint(
    done: SampleRun, runs: Path, size: tuple[int, int]
) -> None:
    async with running(runs, size) as driver:
        await driver.press("r")
        await driver.shows("grpo-done")
        await driver.press("v")
        await driver.shows(
            "✓ finished", "first 10 steps", "last 10 steps", "validation reward", "✗ none complete"
        )


async def test_the_form_is_filled_in_and_appends_what_a_person_adds(
    done: SampleRun, runs: Path, tmp_path: Path
) -> None:
    log = tmp_path / "docs" / "experiment-log.md"
    async with running(runs, log_path=log) as driver:
        await driver.press("r")
        await driver.shows("grpo-done")
        await driver.press("e")
        await driver.shows("EXP-001", "step 40 of 40", "Research question")
        await driver.press(*"RQ1")
        assert not log.exists()
        await driver.press("ctrl+s")
        await driver.called(LogEntryScreen.show_appended)
        await driver.shows("✓ EXP-001 appended to")
    text = log.read_text()
    assert "### [EXP-001]" in text
    assert "- **Research question:** RQ1" in text
    assert "`grpo-done`" in text


@pytest.mark.thorough
async def test_what_is_typed_while_the_draft_is_made_stays(
    done: SampleRun, runs: Path, tmp_path: Path
) -> None:
    async with running(runs, log_path=tmp_path / "log.md") as driver:
        await driver.press("r")
        await driver.shows("grpo-done")
        await driver.press("e")
        await driver.until(lambda: isinstance(driver.app.screen, LogEntryScreen))
        await driver.press(*"RQ1")
        screen = driver.app.screen
        assert isinstance(screen, LogEntryScreen)
        screen.fill_in({"question": "?", "result": "step 40 of 40"})
        await driver.shows("step 40 of 40")
        assert screen.texts()["question"] == "RQ1"


async def test_a_second_entry_for_the_same_run_is_refused_in_one_line(
    done: SampleRun, runs: Path, tmp_path: Path
) -> None:
    log = tmp_path / "experiment-log.md"
    async with running(runs, log_path=log) as driver:
        await driver.press("r")
        await driver.shows("grpo-done")
        await driver.press("e")
        await driver.shows("ctrl+s appends the entry")
        await driver.press("ctrl+s")
        await driver.called(LogEntryScreen.show_appended)
        await driver.press("ctrl+s")
        await driver.called(LogEntryScreen.say)
        await driver.shows("already has an entry")
    assert log.read_text().count("### [EXP-") == 1


async def test_typed_text_is_not_dropped_by_one_escape(
    done: SampleRun, runs: Path, tmp_path: Path
) -> None:
    async with running(runs, log_path=tmp_path / "log.md") as driver:
        await driver.press("r")
        await driver.shows("grpo-done")
        await driver.press("e")
        await driver.shows("ctrl+s appends the entry")
        await driver.press("x", "escape")
        await driver.shows("esc again discards it")
        await driver.press("escape")
        await driver.shows("1 run ")


async def test_a_decision_is_appended_with_the_context_it_was_opened_with(
    done: SampleRun, runs: Path, tmp_path: Path
) -> None:
    log = tmp_path / "docs" / "experiment-log.md"
    async with running(runs, log_path=log) as driver:
        await driver.press("r")
        await driver.shows("grpo-done")
        await driver.press("v")
        await driver.shows("✓ finished")
        await driver.press("D")
        await driver.shows("What was decided", "Run grpo-done")
        await driver.press(*"Keep it", "ctrl+s")
        await driver.shows("the decision is missing")
        await driver.press("tab", "tab", "tab", "tab", *"It stays")
        await driver.press("tab", *"It is better", "ctrl+s")
        await driver.shows("✓ DEC-001 appended to")
    text = (log.parent / "decisions.md").read_text()
    assert "### [DEC-001] Keep it" in text
    assert "- **Context:** Run grpo-done" in text
    assert "- **Decision:** It stays" in text
    assert "- **Reason:** It is better" in text
