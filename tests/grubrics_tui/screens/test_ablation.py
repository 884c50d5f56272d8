"""Ablations on the screen: planning the arms, and their table while the runs train."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.config.load import load_config
from engine.measure.ablations import runner
from engine.measure.ablations.plan import FOLDER, PRESETS, AblationPlan, read_plan
from grubrics_tui.screens.ablation.guide import find_presets
from grubrics_tui.screens.live.screen import LiveScreen
from grubrics_tui.screens.navigation import OpenAblation, OpenGuide
from tests.grubrics_tui.pilots import LARGE, SMALL, Driver, running
from tests.grubrics_tui.sample_ablation import FAILED, make_ablation
from tests.grubrics_tui.world import NOW, RUNS, standing_clock

pytestmark = pytest.mark.waits


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders of the ablations whose runner was started; none really is."""
    folders: list[Path] = []

    def start(folder: Path, root: Path, *, stop: bool = True) -> bool:
        folders.append(folder)
        return True

    monkeypatch.setattr(runner, "start_runner", start)
    monkeypatch.setattr(runner, "require_launchable", lambda config, root: None)
    return folders


async def open_table(driver: Driver) -> AblationPlan:
    plan = make_ablation(RUNS, NOW - 7200)
    driver.app.post_message(OpenAblation(plan))
    await driver.shows("11 of 12 runs ended")
    return plan


async def open_guide(driver: Driver) -> None:
    """Without data, the number of steps is unknown until it is typed."""
    driver.app.post_message(OpenGuide("grpo_tiny"))
    await driver.shows("press s to set it")
    await driver.press("s", "6", "0", "enter")
    await driver.shows("n varies a key")


def row_of(screen: str, arm: str) -> str:
    return next(line for line in screen.splitlines() if f" {arm} " in line and "/3" in line)


@pytest.mark.sample(1)
@pytest.mark.parametrize("size", [LARGE, SMALL], ids=["large", "small"])
async def test_the_table_shows_differences_with_intervals_and_verdicts(
    size: tuple[int, int],
) -> None:
    with standing_clock(Path.cwd()):
        async with running(RUNS, size) as driver:
            await open_table(driver)
            better, worse = row_of(driver.screen, "lr=1e-3"), row_of(driver.screen, FAILED)
            assert "+0.117" in better and "better" in better
            assert "-0.270" in worse and "3 failed" in worse
            assert "undecided" in row_of(driver.screen, "temperature=0.7")


@pytest.mark.thorough
async def test_another_baseline_turns_the_difference_round() -> None:
    with standing_clock(Path.cwd()):
        async with running(RUNS) as driver:
            await open_table(driver)
            await driver.press("b")
            await driver.shows("Difference from lr=1e-3")
            assert "-0.117" in row_of(driver.screen, "base")


@pytest.mark.thorough
async def test_arms_are_sorted_with_the_best_first_and_failed_ones_hidden() -> None:
    with standing_clock(Path.cwd()):
        async with running(RUNS) as driver:
            await open_table(driver)
            await driver.press("o")
            screen = await driver.shows("sorted by difference")
            order = [screen.index(f" {arm} ") for arm in ("lr=1e-3", "base", FAILED)]
            assert order == sorted(order)
            await driver.press("d")
            screen = await driver.shows("1 failed hidden")
            assert f" {FAILED} " not in screen


@pytest.mark.thorough
async def test_enter_opens_the_selected_run() -> None:
    with standing_clock(Path.cwd()):
        async with running(RUNS) as driver:
            plan = await open_table(driver)
            await driver.press("j", "right", "enter")
            await driver.until(lambda: type(driver.app.screen) is LiveScreen)
            await driver.shows(f"{plan.id}-lr-1e-3-s2")


async def test_the_table_is_written_into_the_experiment_log_once() -> None:
    with standing_clock(Path.cwd()):
        async with running(RUNS) as driver:
            plan = await open_table(driver)
            await driver.press("e", "y")
            await driver.shows("EXP-001 appended to")
            await driver.press("e", "y")
            await driver.shows("already has an entry")
            assert driver.app.log_path.read_text().count(f"`{plan.id}`") == 1


@pytest.mark.thorough
async def test_no_table_is_written_while_the_ablation_is_running() -> None:
    with standing_clock(Path.cwd()):
        async with running(RUNS) as driver:
            plan = await open_table(driver)
            with runner.locked(plan.folder):
                await driver.press("e", "y")
                await driver.shows("append the table when all have")
            assert not driver.app.log_path.exists()


@pytest.mark.thorough
async def test_a_decision_begins_with_what_the_table_says() -> None:
    with standing_clock(Path.cwd()):
        async with running(RUNS) as driver:
            await open_table(driver)
            await driver.press("D")
            await driver.shows("lr=1e-3: better, +0.117", "temperature=0.7: undecided")


@pytest.mark.thorough
async def test_a_paused_ablation_is_continued(started: list[Path]) -> None:
    with standing_clock(Path.cwd()):
        async with running(RUNS) as driver:
            plan = await open_table(driver)
            await driver.press("u")
            await driver.shows("continues in the background")
            assert started == [plan.folder]


async def test_a_known_arm_and_a_key_become_a_plan_that_is_started(started: list[Path]) -> None:
    async with running(RUNS) as driver:
        await open_guide(driver)
        await driver.press("p", "j", "enter")
        await driver.shows("lambda_info: 0.3 -> 0")
        await driver.press("n", *"actor.optim.lr", "enter", *"1e-3,5e-3", "enter")
        await driver.shows("4 arms x 3 seeds x 60 steps = 12 runs", "0.0002 -> 0.005")
        await driver.press("minus")
        await driver.shows("4 arms x 2 seeds")
        await driver.press("l")
        await driver.shows("Difference from base")
        [folder] = started
        plan = read_plan(folder)
        assert [arm.name for arm in plan.arms] == ["base", "no-information", "lr=1e-3", "lr=5e-3"]
        assert len(plan.seeds) == 2


def test_known_arms_are_offered_where_the_config_has_their_keys() -> None:
    assert list(find_presets(load_config("grpo_tiny", (), {}))) == list(PRESETS)
    assert not find_presets(load_config("sft_tiny", (), {}))


@pytest.mark.thorough
async def test_the_end_of_a_key_is_enough_for_an_arm() -> None:
    async with running(RUNS) as driver:
        await open_guide(driver)
        await driver.press("n", *"optim.lr=1e-3", "enter")
        await driver.shows("actor_rollout_ref.actor.optim.lr: 0.0002 -> 0.001")
        await driver.press("n", *"optim.lx=1e-3", "enter")
        await driver.shows("unknown key 'optim.lx'")


@pytest.mark.thorough
async def test_an_arm_without_effect_is_refused_and_the_plan_before_it_stays() -> None:
    async with running(RUNS) as driver:
        await open_guide(driver)
        await driver.press("p", "enter")
        await driver.shows("trains exactly as 'base'")
        await driver.shows("1 arm x 3 seeds x 60 steps")
        assert not FOLDER.exists()


async def test_a_value_of_the_wrong_type_is_refused_in_one_line() -> None:
    async with running(RUNS) as driver:
        await open_guide(driver)
        await driver.press("n", *"rollout.n", "enter", *"many", "enter")
        await driver.shows("actor_rollout_ref.rollout.n", "many")
        await driver.press("escape")
        await driver.shows("1 arm x 3 seeds")


@pytest.mark.thorough
async def test_an_arm_can_be_removed_and_the_steps_set() -> None:
    async with running(RUNS) as driver:
        await open_guide(driver)
        await driver.press("p", "j", "enter")
        await driver.shows("2 arms")
        await driver.press("s", "backspace", "backspace", "9", "enter")
        await driver.shows("x 9 steps = 6 runs", "--steps 9")
        await driver.press("j", "d")
        await driver.shows("1 arm x 3 seeds x 9 steps = 3 runs")


async def test_nothing_starts_before_an_arm_differs_from_the_base(started: list[Path]) -> None:
    async with running(RUNS) as driver:
        await open_guide(driver)
        await driver.press("l", "enter")
        assert started == [] and not FOLDER.exists()


@pytest.mark.thorough
async def test_the_base_is_chosen_from_configs_and_runs() -> None:
    with standing_clock(Path.cwd()):
        make_ablation(RUNS, NOW - 7200)
        async with running(RUNS) as driver:
            await driver.press("A")
            await driver.shows("new ablation", "grpo_tiny-1a2b3c")
            await driver.press("enter")
            await driver.shows("sft_tiny", "run of grpo_tiny, finished")
