"""The preflight checks and the launch screen, on a small project in a folder of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from textual.widgets import Input

from engine.checks import preflight
from engine.checks.check import Check, ok, warn
from engine.checks.preflight import ITEMS
from engine.launch import launcher
from engine.launch.plan_launch import Order
from grubrics_tui.screens.live.screen import LiveScreen
from grubrics_tui.screens.preflight.edit_launch import OverridesScreen
from grubrics_tui.screens.preflight.launch import LaunchScreen
from grubrics_tui.screens.preflight.screen import CheckChoices, PreflightScreen
from tests.grubrics_tui.pilots import LARGE, SMALL, Driver, running
from tests.grubrics_tui.sample_run import SampleRun

SFT = """
grubrics: {kind: sft, device: cpu, description: a small warm-up}
model: {path: model}
data: {train_file: train.jsonl, max_seq_length: 64}
training: {output_dir: checkpoints/small, max_steps: 3}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two configs and no data: its checks cannot all pass."""
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "small.yaml").write_text(SFT)
    (tmp_path / "configs" / "other.yaml").write_text(SFT.replace("a small", "another"))
    (tmp_path / "configs" / "notes.yaml").write_text("presets: [a, b]\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("size", [LARGE, SMALL])
async def test_answers_appear_with_words_and_a_summary(
    project: Path, runs: Path, size: tuple[int, int]
) -> None:
    async with running(runs, size, "small") as driver:
        screen = await driver.shows("small", "sft on cpu", "a small warm-up", "✓ ok", "✗ fail")
        await driver.until(lambda: driver.app.screen.query_one(CheckChoices).unanswered == 0)
        assert "environment" in screen


async def test_without_a_config_the_configs_of_the_folder_are_offered(
    project: Path, runs: Path
) -> None:
    async with running(runs, config="") as driver:
        screen = await driver.shows("small", "a small warm-up", "other")
        assert "error" not in screen
        await driver.press("escape")
        await driver.shows("none selected; press o to choose one")
        await driver.press("l")
        await driver.shows("No config selected")
        await driver.press("o")
        await driver.shows("a small warm-up")
        await driver.press("j", "enter")
        await driver.shows("sft on cpu")


async def test_the_selected_failure_shows_its_fix(project: Path, runs: Path) -> None:
    async with running(runs, config="small") as driver:
        await driver.shows("✗ fail")
        selected = driver.app.screen.query_one(CheckChoices).selected
        assert selected is not None
        assert selected.status == "fail"
        assert selected.fix is not None
        await driver.shows("fix", selected.fix.split()[0])


async def test_a_warning_is_shown_in_full_beside_its_fix(project: Path, runs: Path) -> None:
    async with running(runs, SMALL, "small") as driver:
        await driver.until(lambda: bool(driver.app.screen.query(CheckChoices)))
        checks = driver.app.screen.query_one(CheckChoices)
        await driver.until(lambda: len(checks.checks) > 0 and checks.unanswered == 0)
        checks.highlighted = None
        warned = warn("disk", "a long story " * 8 + "to its end", "mend=it")
        for check in [*(ok(id, "fine") for id in list(checks.checks)), warned]:
            driver.answer(check)
        await driver.shows("1 warning. Press l to launch anyway.", "end", "mend=it")


async def test_enter_opens_the_launch_screen_while_no_line_is_highlighted(
    project: Path, runs: Path
) -> None:
    async with running(runs, config="small") as driver:
        await driver.until(lambda: bool(driver.app.screen.query(CheckChoices)))
        checks = driver.app.screen.query_one(CheckChoices)
        await driver.until(lambda: len(checks.checks) > 0 and checks.unanswered == 0)
        for id in list(checks.checks):
            driver.answer(ok(id, "fine"))
        checks.highlighted = None
        await driver.shows("All checks passed. Press l to review the launch.")
        await driver.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, LaunchScreen))


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("warned", "shown"),
    [
        ("", "enter launch"),
        ("machine", "enter launch"),
        ("disk", "1 warning. Press l to launch anyway."),
    ],
)
async def test_a_launch_with_changes_is_reviewed_once_no_check_has_to_be_read(
    project: Path, runs: Path, monkeypatch: pytest.MonkeyPatch, warned: str, shown: str
) -> None:
    def run_checks(*_: object, **__: object) -> Iterator[Check]:
        ids = [*(item.id for item in ITEMS), "tests"]
        return (warn(id, "look") if id == warned else ok(id, "fine") for id in ids)

    monkeypatch.setattr(preflight, "run_checks", run_checks)
    async with running(runs, config="small") as driver:
        await driver.app.push_screen(PreflightScreen(runs, "small", (), edits=True))
        await driver.called(OverridesScreen.list_keys)
        await driver.press(*"learning_rate=1e-4", "enter")
        await driver.shows(shown)


async def test_launching_is_refused_with_the_reason_while_a_check_fails(
    project: Path, runs: Path
) -> None:
    async with running(runs, config="small") as driver:
        await driver.until(lambda: bool(driver.app.screen.query(CheckChoices)))
        checks = driver.app.screen.query_one(CheckChoices)
        await driver.until(lambda: len(checks.checks) > 0 and checks.unanswered == 0)
        await driver.press("l")
        await driver.shows("not launched", f"{checks.failures[0].id} failed")
        assert not isinstance(driver.app.screen, LaunchScreen)
    assert not runs.exists()


async def test_the_first_click_on_a_check_selects_it_and_the_second_launches(
    project: Path, runs: Path
) -> None:
    async with running(runs, config="small") as driver:
        await driver.until(lambda: bool(driver.app.screen.query(CheckChoices)))
        checks = driver.app.screen.query_one(CheckChoices)
        await driver.until(lambda: len(checks.checks) > 0 and checks.unanswered == 0)
        for id in list(checks.checks):
            driver.answer(ok(id, "fine"))
        checks.highlighted = None
        await driver.click(checks, (5, 3))
        assert checks.highlighted == 2
        assert not isinstance(driver.app.screen, LaunchScreen)
        await driver.click(checks, (5, 3))
        await driver.until(lambda: isinstance(driver.app.screen, LaunchScreen))


async def test_a_missing_config_is_one_line(project: Path, runs: Path) -> None:
    async with running(runs, config="smal") as driver:
        await driver.called(PreflightScreen.show_refusal)
        await driver.shows("config 'smal' does not exist; did you mean 'small'?")


async def test_another_config_is_chosen_from_the_configs_of_the_folder(
    project: Path, runs: Path
) -> None:
    async with running(runs, config="small") as driver:
        await driver.called(PreflightScreen.show_config)
        await driver.press("o")
        screen = await driver.shows("another warm-up")
        assert "notes" not in screen
        await driver.press("k", "enter")
        await driver.called(PreflightScreen.show_config)
        await driver.shows("another warm-up")
        assert driver.app.config == "other"


async def test_a_config_in_the_folder_of_the_command_can_be_chosen_too(
    project: Path, runs: Path
) -> None:
    config = (project / "configs" / "small.yaml").read_text()
    (project / "mine.yaml").write_text(config)
    (project / "compose.yaml").write_text("services: {}")
    async with running(runs, config="small") as driver:
        await driver.called(PreflightScreen.show_config)
        await driver.press("o")
        screen = await driver.shows("mine.yaml")
        assert "compose" not in screen
        await driver.press("j", "enter")
        await driver.called(PreflightScreen.show_config)
        assert driver.app.config == "mine.yaml"


async def test_overrides_are_continued_at_their_end_and_a_key_is_completed_before_its_value(
    project: Path, runs: Path
) -> None:
    async with running(runs, config="small") as driver:
        await driver.app.push_screen(OverridesScreen("small", ("training.max_steps=7",), runs))
        await driver.called(OverridesScreen.list_keys)
        await driver.press(*" learning_r=1e-4", "tab")
        field = driver.app.screen.query_one(Input)
        assert field.value == "training.max_steps=7 training.learning_rate=1e-4"


async def test_an_override_is_checked_before_it_is_taken(project: Path, runs: Path) -> None:
    async with running(runs, config="small") as driver:
        await driver.called(PreflightScreen.show_config)
        await driver.press("v")
        await driver.press(*"training.max_step=5", "enter")
        await driver.called(OverridesScreen.show_refusal)
        await driver.shows("unknown key 'training.max_step'", "'training.max_steps'?")
        await driver.press(*["backspace"] * 2, *"s=5", "enter")
        await driver.called(PreflightScreen.show_config)
        await driver.shows("training.max_steps=5 (cli)")
        assert driver.app.overrides == ("training.max_steps=5",)


async def test_a_key_is_found_by_a_part_of_its_name_and_completed(
    project: Path, runs: Path
) -> None:
    async with running(runs, config="small") as driver:
        await driver.called(PreflightScreen.show_config)
        await driver.press("v")
        await driver.called(OverridesScreen.list_keys)
        await driver.press(*"grad_norm", "tab", *"0.5", "enter")
        await driver.called(PreflightScreen.show_config)
        assert driver.app.overrides == ("training.max_grad_norm=0.5",)


async def test_the_key_under_the_cursor_is_explained(project: Path, runs: Path) -> None:
    async with running(runs, config="small") as driver:
        await driver.called(PreflightScreen.show_config)
        await driver.press("v")
        await driver.called(OverridesScreen.list_keys)
        await driver.press(*"lora.r")
        await driver.shows("accepts at least 0", "meaning LoRA rank; 0 is full fine-tuning.")


async def test_a_value_out_of_range_is_refused_before_the_launch(project: Path, runs: Path) -> None:
    async with running(runs, config="small") as driver:
        await driver.called(PreflightScreen.show_config)
        await driver.press("v")
        await driver.press(*"lora.r=-1", "enter")
        await driver.called(OverridesScreen.show_refusal)
        await driver.shows("lora.r=-1", "greater than or equal to 0")


async def test_the_launch_screen_shows_command_changes_and_plan(project: Path, runs: Path) -> None:
    (project / "train.jsonl").write_text('{"messages": []}\n' * 40)
    async with running(runs, config="small") as driver:
        await driver.called(PreflightScreen.show_config)
        await driver.app.push_screen(LaunchScreen("small", ["training.max_steps=5"], runs))
        await driver.shows("-m engine.train.sft", "training.max_steps", "3 → 5", "cli")
        # A long temporary path wraps the command.
        await driver.until(lambda: "training.max_steps=5" in re.sub(r"[\s│\\]", "", driver.screen))
        await driver.shows("(5 requested; 40 rows", "small-", "enter launch")
        await driver.press("escape")
        await driver.shows("Run to launch")
    assert not runs.exists()


async def test_the_launch_screen_draws_the_schedule_of_the_temperature(
    project: Path, runs: Path
) -> None:
    rows = pa.table({"prompt": ["?"] * 40})
    pq.write_table(rows, project / "train.parquet")
    ends = ("initial=0.5", "final=0.15", "steps=150")
    overrides = [f"grubrics.temperature_schedule.{end}" for end in ends]
    settings = [f"data.train_files={project / 'train.parquet'}", *overrides]
    async with running(runs, config="small") as driver:
        await driver.called(PreflightScreen.show_config)
        await driver.app.push_screen(
            LaunchScreen("grpo_tiny", [*settings, "trainer.total_training_steps=75"], runs)
        )
        await driver.shows("0.5 -> 0.15 over 150 steps (at the end of this run: 0.325)")
        await driver.shows("step 1: 0.4977 █", "▁ 0.325: step 75")


async def test_the_launch_screen_draws_the_phases_of_a_curriculum(
    project: Path, runs: Path
) -> None:
    files = [str(project / name) for name in ("verifiable.parquet", "open.parquet")]
    for file in files:
        pq.write_table(pa.table({"prompt": ["?"] * 40}), file)
    phases = "grubrics.curriculum=0.8:0.2:0.5 0.2:0.8:0.5:0.1"
    settings = [f"data.train_files=[{','.join(files)}]", phases]
    async with running(runs, config="small") as driver:
        await driver.called(PreflightScreen.show_config)
        await driver.app.push_screen(
            LaunchScreen("grpo_tiny", [*settings, "trainer.total_training_steps=8"], runs)
        )
        await driver.shows("phase 1: steps 1 to 4, 0.8 verifiable, 0.2 open-ended")
        await driver.shows("phase 2: steps 5 to 8", "learning rate x 0.1", "verifiable ████▁▁▁▁")


async def test_the_launch_screen_names_the_active_run_and_offers_the_queue(
    project: Path, runs: Path
) -> None:
    (project / "train.jsonl").write_text('{"messages": []}\n' * 40)
    async with running(runs, config="small") as driver:
        await driver.called(PreflightScreen.show_config)
        SampleRun.create(runs, "busy").say("running")
        await driver.app.push_screen(LaunchScreen("small", [], runs))
        await driver.shows("run 'busy' is running", "w queues this run", "w start")


async def test_name_seeds_and_start_are_chosen_on_the_launch_screen(
    project: Path, runs: Path
) -> None:
    async with running(runs, config="small") as driver:
        await driver.called(PreflightScreen.show_config)
        SampleRun.create(runs, "busy").say("running")
        await driver.app.push_screen(LaunchScreen("small", [], runs))
        await driver.shows("small-", "now", "as in the config")
        await driver.press("n", *"a trial", "enter")
        await driver.shows("run name 'a trial' must be")
        await driver.press("ctrl+u", *"trial", "enter")
        await driver.press("s", *"1,2", "enter")
        await driver.shows("trial-s1, trial-s2", "1, 2", "in the queue")
        await driver.press("w", "j", "j", "enter")
        await driver.shows("after run busy, then in the queue")
    assert [path.name for path in runs.iterdir()] == ["busy"]


async def test_enter_while_the_plan_is_made_again_starts_it_once_it_is_made(
    project: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher, "start_supervisor", lambda run, variables=None: None)
    async with running(runs, config="small") as driver:
        await driver.called(PreflightScreen.show_config)
        launch = LaunchScreen("small", [], runs)
        await driver.app.push_screen(launch)
        await driver.shows("small-", "as in the config")
        launch._change(Order(name="trial"))
        launch.action_start()
        await driver.until(lambda: (runs / "trial").is_dir(), "the run")
        await driver.called(LiveScreen.show)


async def test_seeds_that_are_no_numbers_are_refused_in_the_dialog(
    project: Path, runs: Path
) -> None:
    async with running(runs, config="small") as driver:
        await driver.called(PreflightScreen.show_config)
        await driver.app.push_screen(LaunchScreen("small", [], runs))
        await driver.press("s", *"1,x", "enter")
        await driver.shows("seed 'x' is not a whole number")


async def test_values_that_change_on_the_launch_screen_are_checked_again(
    project: Path, runs: Path
) -> None:
    async with running(runs, config="small") as driver:
        await driver.called(PreflightScreen.show_config)
        preflight = driver.app.screen
        assert isinstance(preflight, PreflightScreen)
        preflight._open_launch()
        await driver.shows("small-")
        await driver.press("v", *"max_steps=7", "enter")
        await driver.shows("3 → 7")
        assert driver.app.overrides == ("max_steps=7",)
        await driver.press("enter")
        await driver.shows("not launched")
    assert not runs.exists()


async def _show_one_check(driver: Driver, check: Check) -> None:
    """As if every other check had passed."""
    checks = driver.app.screen.query_one(CheckChoices)
    await driver.until(lambda: len(checks.checks) > 0 and checks.unanswered == 0)
    for answered in [*(ok(id, "fine") for id in list(checks.checks)), check]:
        driver.answer(answered)
    checks.highlighted = None


async def test_a_fix_of_values_is_applied_with_one_key(project: Path, runs: Path) -> None:
    async with running(runs, config="small") as driver:
        await driver.called(PreflightScreen.show_config)
        await _show_one_check(driver, warn("values", "too many", "training.max_steps=2"))
        await driver.shows("press f to apply")
        await driver.press("f")
        await driver.called(PreflightScreen.show_config)
        assert driver.app.overrides == ("training.max_steps=2",)


async def test_a_fix_that_queues_opens_the_launch_screen(project: Path, runs: Path) -> None:
    async with running(runs, config="small") as driver:
        await driver.called(PreflightScreen.show_config)
        await _show_one_check(driver, warn("machine", "busy", "grubrics-tui launch small --queue"))
        await driver.shows("press f to apply")
        await driver.press("f")
        await driver.shows("in the queue")


async def test_a_command_that_fixes_is_shown_before_it_runs(project: Path, runs: Path) -> None:
    async with running(runs, config="small") as driver:
        await driver.called(PreflightScreen.show_config)
        await _show_one_check(driver, warn("disk", "short", "grubrics-tui runs"))
        await driver.shows("press f to apply")
        await driver.press("f")
        await driver.shows("Run this command?", "grubrics-tui runs", "run it")
        await driver.press("y")
        await driver.shows("no runs in")


async def test_a_fix_for_a_person_has_no_key(project: Path, runs: Path) -> None:
    async with running(runs, config="small") as driver:
        await driver.called(PreflightScreen.show_config)
        await _show_one_check(driver, warn("credentials", "open", "chmod 600 .env"))
        screen = await driver.shows("chmod 600 .env")
        assert "press f to apply" not in screen
