"""The screen of what the model answered: its numbers are those of the files."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from typer.testing import CliRunner

from engine.base.follow import Cancelled
from engine.run.history.reward_records import Split
from engine.run.history.rollouts import RolloutStore, StepRollouts
from engine.run.trust import vouch
from grubrics_tui.cli import app
from grubrics_tui.commands import rollouts as rollouts_command
from grubrics_tui.screens.navigation import OpenRollouts
from grubrics_tui.screens.rollouts import reader as rollout_reader
from grubrics_tui.screens.rollouts.screen import RolloutsScreen
from tests.engine.run.history.rollout_files import (
    record,
    row,
    write_dump,
    write_records,
    write_step,
)
from tests.grubrics_tui.pilots import LARGE, SMALL, Driver, running
from tests.grubrics_tui.sample_run import SampleRun
from tests.manifests import change_config

pytestmark = pytest.mark.waits

HOSTILE = (
    "\x1b[2J\x1b]0;owned\x07[red]not markup[/] [@click=app.quit]x[/] \u202eabc\u200b\x00\x9b31m end"
)
WEIGHTS = {"lambda_len": 0.1, "lambda_info": 0.3, "lambda_defense": 0.3}


@pytest.fixture
def answered(run: SampleRun) -> SampleRun:
    """Steps 1 and 2; in step 2 one group with a spread and a failure, one without a spread."""
    weights = {f"reward_config.{key}": {"value": value} for key, value in WEIGHTS.items()}
    change_config(run.run, **{"algorithm.adv_estimator": {"value": "grpo"}, **weights})
    vouch(run.run)
    attempt = run.run.attempt(1).path
    write_step(attempt, 1, {"early": [0.1, 0.2]})
    write_step(attempt, 2, {"spread": [0.8, 0.2, None], "same": [0.8, 0.8]})
    return run


async def open_rollouts(driver: Driver, sample: SampleRun, step: int | None = None) -> None:
    await driver.shows("grpo-night")
    driver.app.post_message(OpenRollouts(sample.run, step))
    await driver.shows("rollouts", "rollout 0", "reward 0.")


async def test_it_opens_from_the_run_at_the_newest_step(answered: SampleRun, runs: Path) -> None:
    async with running(runs) as driver:
        await driver.shows("grpo-night")
        await driver.press("o")
        screen = await driver.shows("step 2 of 2", "group 1 of 2", "prompt of spread")
        assert "3 rollouts" in screen
        assert "1 failed" in screen


@pytest.mark.sample(2)
@pytest.mark.parametrize("size", [LARGE, SMALL, (200, 60), (40, 10), (100, 24)])
async def test_every_size_shows_the_answer_and_its_reward(
    answered: SampleRun, runs: Path, size: tuple[int, int]
) -> None:
    async with running(runs, size) as driver:
        await open_rollouts(driver, answered)
        await driver.shows("0.800", "+0.71")


async def test_advantages_and_terms_are_those_of_the_files(answered: SampleRun, runs: Path) -> None:
    group = RolloutStore(answered.run.path).load("train", 2).groups[0]
    first, second, failed = group.rollouts
    assert (first.advantage, second.advantage) == pytest.approx((0.7071, -0.7071), abs=1e-4)
    assert failed.advantage is None
    async with running(runs) as driver:
        await open_rollouts(driver, answered)
        screen = await driver.shows("= 0.50 alignment + 0.30 info")
        assert "-0.71" in screen
        assert "timeout" in screen
        assert "1 of 1 pairs in the gold order" in screen
        await driver.press("j", "j")
        await driver.shows("no reward", "timeout: no answer in 60 s")


async def test_a_group_without_spread_is_marked(answered: SampleRun, runs: Path) -> None:
    async with running(runs) as driver:
        await open_rollouts(driver, answered)
        await driver.press("l")
        screen = await driver.shows("group 2 of 2", "all scores are equal: no advantage")
        assert "★" not in screen


@pytest.mark.thorough
async def test_brackets_walk_the_steps(answered: SampleRun, runs: Path) -> None:
    async with running(runs) as driver:
        await open_rollouts(driver, answered)
        await driver.press("[")
        await driver.shows("step 1 of 2", "prompt of early")
        await driver.press("]")
        await driver.shows("step 2 of 2", "prompt of spread")


async def test_a_filter_leaves_only_what_it_keeps(answered: SampleRun, runs: Path) -> None:
    async with running(runs) as driver:
        await open_rollouts(driver, answered)
        await driver.press("f", *"error", "enter")
        screen = await driver.shows("filter error", "group 1 of 1", "1 of 3 rollouts")
        assert "0.800" not in screen.split("rollout 2")[1]


@pytest.mark.thorough
async def test_a_filter_that_is_not_understood_is_said_in_words(
    answered: SampleRun, runs: Path
) -> None:
    async with running(runs) as driver:
        await open_rollouts(driver, answered)
        await driver.press("f", *"eror", "enter")
        await driver.shows("filter 'eror' does not exist")
        await driver.press("escape")
        assert isinstance(driver.app.screen, RolloutsScreen)


@pytest.mark.thorough
async def test_a_search_goes_to_the_next_answer_that_holds_the_text(
    answered: SampleRun, runs: Path
) -> None:
    async with running(runs) as driver:
        await open_rollouts(driver, answered)
        await driver.press("slash", *"1 OF", "enter")
        await driver.shows("2 with '1 OF'", "rollout 1")
        await driver.press("n")
        await driver.shows("group 2 of 2", "rollout 1")
        await driver.press("escape")
        screen = await driver.shows("group 2 of 2")
        assert "with '1 OF'" not in screen


@pytest.mark.thorough
async def test_beyond_the_last_hit_of_a_step_the_search_goes_on_in_other_steps(
    answered: SampleRun, runs: Path
) -> None:
    async with running(runs) as driver:
        await open_rollouts(driver, answered)
        await driver.press("slash", *"of early", "enter")
        await driver.shows("0 with 'of early': n searches other steps")
        await driver.press("n")
        await driver.shows("step 1 of 2", "2 with 'of early'", "rollout 1")
        await driver.press("n")
        await driver.shows("rollout 0")
        await driver.press("n")
        await driver.shows("no other step contains 'of early'", "step 1 of 2")


@pytest.mark.thorough
async def test_a_search_backwards_comes_to_the_last_hit_of_an_earlier_step(
    answered: SampleRun, runs: Path
) -> None:
    async with running(runs) as driver:
        await open_rollouts(driver, answered)
        await driver.press("slash", *"0 of", "enter")
        await driver.shows("2 with '0 of'", "group 1 of 2", "rollout 0")
        await driver.press("N")
        await driver.shows("step 1 of 2", "1 with '0 of'", "rollout 0")


@pytest.mark.thorough
async def test_escape_ends_the_search_in_other_steps_and_then_the_search(
    answered: SampleRun, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Step 1 lies on a file system that hangs."""
    hung, load = Event(), RolloutStore.load

    def slow(store: RolloutStore, split: Split, step: int, cancelled: Cancelled) -> StepRollouts:
        while step == 1 and not cancelled() and not hung.wait(0.01):
            pass
        return load(store, split, step, cancelled)

    monkeypatch.setattr(RolloutStore, "load", slow)
    async with running(runs) as driver:
        await open_rollouts(driver, answered)
        await driver.press("slash", *"early", "enter")
        await driver.shows("n searches other steps")
        await driver.press("n")
        await driver.shows("searching other steps for 'early'")
        await driver.press("j", "escape")
        assert "searching other" not in driver.screen
        await driver.press("escape")
        assert isinstance(driver.app.screen, RolloutsScreen)
        assert not driver.app.screen.search.text
        hung.set()


@pytest.mark.thorough
async def test_a_step_is_shown_though_reading_takes_longer_than_the_run_needs_for_a_step(
    run: SampleRun, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = RolloutStore.load
    attempt = run.run.attempt(1).path
    write_records(attempt, [record("g1", 0, 0.5, 1)])

    def slow(store: RolloutStore, split: Split, step: int, cancelled: Cancelled) -> StepRollouts:
        for _ in range(20):
            time.sleep(0.01)
            if cancelled():
                break
        return load(store, split, step, cancelled)

    monkeypatch.setattr(RolloutStore, "load", slow)
    monkeypatch.setattr(rollout_reader, "_POLL_S", 0.02)
    async with running(runs) as driver:
        await driver.shows("grpo-night")
        await driver.press("o")
        for step in range(2, 12):
            write_records(attempt, [record(f"g{step}", 0, 0.5, step)])
            await driver.called(RolloutsScreen.take_steps)
        await driver.shows("answer 0 of g1")


@pytest.mark.thorough
async def test_on_a_machine_with_one_core_screens_below_leave_threads_for_those_above(
    answered: SampleRun, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    async with running(runs) as driver:
        await driver.shows("grpo-night")
        await driver.press("r")
        await driver.shows("1 run ")
        await driver.press("enter")
        await driver.shows("step 12/40")
        await driver.press("o")
        await driver.shows("answer 0 of spread")


@pytest.mark.thorough
async def test_a_step_that_could_not_be_read_is_said_and_read_again(
    answered: SampleRun, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load, repaired = RolloutStore.load, Event()

    def broken(store: RolloutStore, *args: Any) -> StepRollouts:
        if not repaired.is_set():
            raise OSError("stale file handle")
        return load(store, *args)

    monkeypatch.setattr(RolloutStore, "load", broken)
    monkeypatch.setattr(rollout_reader, "_POLL_S", 0.05)
    async with running(runs) as driver:
        await driver.shows("grpo-night")
        await driver.press("o")
        await driver.shows("cannot read step 2: OSError: stale file handle")
        repaired.set()
        await driver.shows("step 2 of 2", "prompt of spread")


@pytest.mark.thorough
async def test_a_step_asked_for_while_another_is_read_is_the_one_shown(
    answered: SampleRun, runs: Path
) -> None:
    async with running(runs) as driver:
        await open_rollouts(driver, answered)
        for _ in range(20):
            await driver.press("v", "v", "[", "]", "G")
        await driver.shows("step 2 of 2", "prompt of spread")


@pytest.mark.thorough
async def test_sorting_by_errors_puts_failures_first(answered: SampleRun, runs: Path) -> None:
    async with running(runs) as driver:
        await open_rollouts(driver, answered)
        await driver.press("s", "s", "s")
        await driver.shows("sort error", "rollout 2 ✗ · 1 of 3")


async def test_a_prompt_is_followed_across_steps(run: SampleRun, runs: Path) -> None:
    asked: dict[str, Any] = {"input": "What helps?"}
    for step, score in ((1, 0.1), (4, 0.5), (9, 0.9)):
        rows = [row(f"g{step}", n, score + n / 10, **asked) for n in range(2)]
        write_dump(run.run.attempt(1).path, step, [row("other", 0, 0.0), *rows])
    write_dump(run.run.attempt(1).path, 6, [row("other", 0, 0.0)])
    async with running(runs) as driver:
        await open_rollouts(driver, run, 9)
        await driver.press("l")
        await driver.shows("What helps?")
        await driver.press("p")
        await driver.shows("this prompt across steps", "step 9: mean 0.950, best 1.000")
        await driver.press("[")
        await driver.shows("step 4: mean 0.550, best 0.600", "step 4 of 9", "group 2 of 2")
        await driver.press("escape")
        screen = await driver.shows("step 4 of 9")
        assert "across steps" not in screen


async def test_the_difference_to_the_best_answer_is_shown(run: SampleRun, runs: Path) -> None:
    rows = [
        {**row("g", 0, 0.9), "output": "drink warm water"},
        {**row("g", 1, 0.1), "output": "drink cold water"},
    ]
    write_dump(run.run.attempt(1).path, 1, rows)
    async with running(runs, SMALL) as driver:
        await driver.shows("grpo-night")
        await driver.press("o")
        await driver.shows("drink warm water")
        await driver.press("j", "d")
        await driver.shows("drink warm cold water", "diff against rollout 0")
        await driver.press("escape")
        assert "diff against" not in await driver.shows("drink cold water")


async def test_enter_shows_the_whole_prompt(answered: SampleRun, runs: Path) -> None:
    async with running(runs, SMALL) as driver:
        await open_rollouts(driver, answered)
        await driver.press("enter")
        await driver.shows("(r - mean) / (std + 1e-6) within the group", "─ prompt ─")
        await driver.press("enter")
        await driver.shows("question of spread")


async def test_validation_rollouts_have_a_key(answered: SampleRun, runs: Path) -> None:
    write_dump(answered.run.attempt(1).path, 2, [row("held", 0, 0.4)], to="validation")
    async with running(runs) as driver:
        await open_rollouts(driver, answered)
        await driver.press("v")
        await driver.shows("validation at step 2", "prompt of held", "0.400")
        await driver.press("v")
        await driver.shows("prompt of spread")


@pytest.mark.thorough
async def test_a_step_that_goes_on_is_shown_from_its_records(run: SampleRun, runs: Path) -> None:
    attempt = run.run.attempt(1).path
    write_records(attempt, [record("g", 0, 0.5, 1)])
    async with running(runs) as driver:
        await driver.shows("grpo-night")
        await driver.press("o")
        await driver.shows("no advantages before verl dumps the step", "answer 0 of g")
        write_dump(attempt, 1, [row("g", 0, 0.5), row("g", 1, 0.1)])
        await driver.shows("2 rollouts", "prompt of g")


async def test_a_run_without_rollouts_says_so(run: SampleRun, runs: Path) -> None:
    async with running(runs) as driver:
        await driver.shows("grpo-night")
        await driver.press("o")
        screen = await driver.shows("no training rollouts in")
        assert screen.count("no training rollouts in") == 1
        await driver.press("j", "l", "[", "d", "p", "n", "s", "enter", "enter", "escape")
        await driver.shows("step 12/40")


@pytest.mark.sample(1)
@pytest.mark.parametrize("size", [LARGE, SMALL])
async def test_hostile_text_is_inert(run: SampleRun, runs: Path, size: tuple[int, int]) -> None:
    attempt = run.run.attempt(1).path
    hostile = {"input": HOSTILE, "output": HOSTILE * 3}
    write_dump(attempt, 1, [{**row("g", n, 0.1 * n), **hostile} for n in range(2)])
    error = {"kind": HOSTILE, "message": HOSTILE}
    write_records(attempt, [record("g", 2, None, 1, error=error, question_id=HOSTILE)])
    async with running(runs, size) as driver:
        await driver.shows("grpo-night")
        await driver.press("o")
        await driver.shows("[red]not markup[/] [@click=app.quit]x[/]")
        await driver.press("j", "d", "j", "enter", "slash", *"[red]", "enter")
        screen = await driver.shows("with '[red]'")
        assert not {"\x1b", "\x07", "\u202e", "\u200b", "\x00", "\x9b"} & set(screen)


def test_the_command_prints_what_the_screen_shows(answered: SampleRun, runs: Path) -> None:
    result = CliRunner().invoke(
        app, ["rollouts", "grpo-night", "--runs", str(runs), "--json", "--filter", "score>0.5"]
    )
    value = json.loads(result.stdout)
    assert (value["step"], value["steps"]) == (2, [1, 2])
    assert [group["flat"] for group in value["groups"]] == [False, True]
    rollout = value["groups"][0]["answers"][0]
    assert (rollout["rollout"], rollout["score"], rollout["best"]) == (0, 0.8, True)
    assert rollout["advantage"] == pytest.approx(0.7071, abs=1e-4)
    assert rollout["judge_scores"] == [0.9, 0.1]
    assert rollout["text"] == "answer 0 of spread"


def test_the_command_prints_one_group_with_its_texts(answered: SampleRun, runs: Path) -> None:
    result = CliRunner().invoke(
        app, ["rollouts", "grpo-night", "--runs", str(runs), "--step", "1", "--group", "1"]
    )
    assert "prompt of early" in result.stdout
    assert "answer 1 of early" in result.stdout
    assert "advantage 0.707" in result.stdout


def test_the_command_follows_a_prompt(answered: SampleRun, runs: Path) -> None:
    result = CliRunner().invoke(
        app, ["rollouts", "grpo-night", "--runs", str(runs), "--group", "spread", "--across-steps"]
    )
    assert result.stdout.split() == ["step", "2", "mean", "0.500", "best", "0.800", "2", "rollouts"]


def test_the_command_says_that_nothing_was_found(answered: SampleRun, runs: Path) -> None:
    asked = ["rollouts", "grpo-night", "--runs", str(runs), "--search", "nowhere"]
    text = CliRunner().invoke(app, asked).output
    assert "no rollout of step " in text and "'nowhere'. To search all steps" in text
    filtered = CliRunner().invoke(app, [*asked[:-2], "--filter", "score>99"]).output
    assert filtered.endswith("matches 'score>99'\n")
    assert "no rollout of" not in CliRunner().invoke(app, asked[:-2]).output


def test_the_command_searches_all_steps(answered: SampleRun, runs: Path) -> None:
    asked = ["rollouts", "grpo-night", "--runs", str(runs), "--search", "0 OF", "--across-steps"]
    result = CliRunner().invoke(app, [*asked, "--json"])
    hits = [
        (hit["step"], hit["group"], hit["rollout"]) for hit in json.loads(result.stdout)["found"]
    ]
    assert hits == [(1, 1, 0), (2, 1, 0), (2, 2, 0)]
    assert "step      1  group 1  rollout 0  score 0.100" in CliRunner().invoke(app, asked).stdout


def test_a_search_through_all_steps_says_how_far_it_is(
    runs: Path, answered: SampleRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollouts_command, "_PROGRESS_S", 0.0)
    asked = ["rollouts", "grpo-night", "--runs", str(runs), "--search", "nowhere", "--across-steps"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    assert re.search(r"(?m)^searched 0 of \d+ steps, 0 rollouts found$", done.stderr)
    assert done.stdout.startswith("no rollout of ")


@pytest.fixture
def trio(answered: SampleRun) -> SampleRun:
    """A step with three scored answers of one group."""
    attempt = answered.run.attempt(1).path
    for number, word in enumerate(("alpha", "beta", "gamma")):
        write_records(attempt, [record("trio", number, 0.9 - number / 10, 3)])
        dumped = row("trio", number, 0.9 - number / 10) | {"output": f"says {word}"}
        write_dump(attempt, 3, [dumped])
    return answered


def boxes(driver: Driver) -> tuple[str, str]:
    """What stands in the left and in the right half of the screen."""
    lines = [line for line in driver.screen.splitlines() if "││" in line or "╮╭" in line]
    halves = [re.split("││|╮╭", line, maxsplit=1) for line in lines]
    return "\n".join(half[0] for half in halves), "\n".join(half[1] for half in halves)


async def test_two_answers_are_side_by_side_from_100_columns_on(
    trio: SampleRun, runs: Path
) -> None:
    async with running(runs, (100, 30)) as driver:
        await open_rollouts(driver, trio)
        await driver.press("d")
        await driver.shows("j k other rollout", "J K other rollout")
        left, right = boxes(driver)
        assert "rollout 0" in left and "reward 0.900" in left and "says alpha" in left
        assert "rollout 1" in right and "reward 0.800" in right and "says beta" in right


@pytest.mark.thorough
async def test_either_answer_of_a_pair_can_be_changed(trio: SampleRun, runs: Path) -> None:
    async with running(runs) as driver:
        await open_rollouts(driver, trio)
        await driver.press("J")
        await driver.shows("says alpha", "says gamma")
        await driver.press("j")
        await driver.shows("says beta", "says gamma")
        await driver.press("K")
        await driver.shows("says beta", "says alpha")


@pytest.mark.thorough
async def test_at_80_columns_a_line_lists_the_group_above_the_answer(
    trio: SampleRun, runs: Path
) -> None:
    async with running(runs, SMALL) as driver:
        await open_rollouts(driver, trio)
        await driver.shows("★0 0.90", "1 0.80", "2 0.70", "says alpha")
        await driver.press("d")
        await driver.shows("diff against rollout 1", "alpha", "beta")
