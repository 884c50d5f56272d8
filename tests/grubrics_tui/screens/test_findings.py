"""What the doctor found: on the findings screen, and the keys that fix it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.doctor.diagnose import diagnose_run
from engine.launch.rerun import check_rerun, config_of, launch_rerun
from engine.logs.formats.external_run import open_external
from engine.run.finding import Change, Evidence, Finding, Fix, Severity, launchable
from engine.run.manifest import Parent
from engine.run.run import Run
from engine.run.trust import vouch
from grubrics_tui.screens.dialogs.change_runs import reproduce_dialog
from grubrics_tui.screens.dialogs.confirm import Confirm
from grubrics_tui.screens.findings.screen import FindingList, FindingsScreen
from grubrics_tui.screens.live.screen import LiveScreen
from grubrics_tui.screens.log.screen import LogScreen
from grubrics_tui.screens.navigation import OpenFindings
from grubrics_tui.screens.rollouts.screen import RolloutsScreen
from grubrics_tui.settings.settings import Loaded, Settings
from tests.engine.run.history.rollout_files import write_step
from tests.grubrics_tui.pilots import LARGE, SMALL, Driver, running
from tests.grubrics_tui.sample_run import KEY, OOM, SampleRun
from tests.manifests import change_config, change_manifest

pytestmark = pytest.mark.waits

TITLE = "GPU out of memory in training"

Call = Callable[..., tuple[int, str]]


async def findings(driver: Driver, run: Any, *texts: str) -> str:
    driver.app.post_message(OpenFindings(run))
    await driver.until(lambda: isinstance(driver.app.screen, FindingsScreen))
    return await driver.shows(*texts)


def on(driver: Driver, screen: type) -> Any:
    return lambda: isinstance(driver.app.screen, screen)


@pytest.mark.parametrize("size", [LARGE, SMALL])
async def test_the_root_cause_is_shown_with_its_evidence_and_fixes(
    unhealthy: SampleRun, runs: Path, size: tuple[int, int]
) -> None:
    async with running(runs, size) as driver:
        await findings(driver, unhealthy.run, TITLE, "cuda_oom_training.oom", "90% sure")
        await driver.until(lambda: "requested 2.00 GiB" in " ".join(driver.screen.split()))
        for _ in range(3):
            await driver.press("pagedown")
        await driver.shows("A Ray task ran out of GPU memory", "Use smaller micro batches")


@pytest.fixture
def flat(run: SampleRun) -> SampleRun:
    """Every rollout of the newest steps has the same reward."""
    for step in range(1, 7):
        groups = {f"g{step}a": [0.4] * 4, f"g{step}b": [0.4] * 4}
        write_step(run.run.attempt(1).path, step, groups)
    return run


@pytest.mark.sample(1)
@pytest.mark.parametrize("size", [LARGE, SMALL])
async def test_equal_rewards_are_shown_with_three_rollouts_and_o_opens_them(
    flat: SampleRun, runs: Path, size: tuple[int, int]
) -> None:
    async with running(runs, size) as driver:
        await findings(driver, flat.run, "reward_zero_or_flat")
        await driver.press("pagedown")
        await driver.shows("rollout 0: reward 0.4", "rollout 1: reward 0.4", "o rollouts")
        await driver.press("o")
        await driver.until(on(driver, RolloutsScreen))
        await driver.shows("step 4 of 6", "rollout 0 · 1 of 4", "g4a")


async def test_rollouts_are_not_offered_where_the_evidence_has_none(
    unhealthy: SampleRun, runs: Path
) -> None:
    async with running(runs) as driver:
        await findings(driver, unhealthy.run, TITLE, "2.00 GiB")
        assert "o rollouts" not in driver.screen


@pytest.mark.thorough
async def test_j_and_k_choose_a_finding(unhealthy: SampleRun, runs: Path) -> None:
    unhealthy.print(*[KEY] * 3)
    _set_rate(unhealthy.run, 0.5)
    vouch(unhealthy.run)
    async with running(runs) as driver:
        await findings(driver, unhealthy.run, TITLE, "2.00 GiB")
        listed = driver.app.screen.selected  # type: ignore[attr-defined]
        await driver.press("j")
        other = driver.app.screen.selected  # type: ignore[attr-defined]
        assert listed.id != other.id
        await driver.shows(other.id)
        await driver.press("k")
        await driver.shows(listed.id)


def _set_rate(run: Run, rate: float) -> None:
    config = {"actor_rollout_ref.actor.optim.lr": {"value": rate, "origin": "cli"}}
    change_manifest(run, config=config)


async def test_enter_opens_the_log_at_the_line_that_tells_it(
    unhealthy: SampleRun, runs: Path
) -> None:
    async with running(runs) as driver:
        await findings(driver, unhealthy.run, TITLE, "line 21", "l log line")
        await driver.press("enter")
        await driver.until(on(driver, LogScreen))
        await driver.shows("line 21", "torch.OutOfMemoryError: CUDA out of memory.")
        await driver.press("escape")
        await driver.until(on(driver, FindingsScreen))


async def test_f_opens_them_from_the_list_and_from_the_live_screen_and_back(
    unhealthy: SampleRun, runs: Path
) -> None:
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("1 run")
        await driver.press("f")
        await driver.shows(TITLE)
        await driver.press("escape")
        await driver.shows("1 run")
        await driver.press("enter")
        await driver.until(on(driver, LiveScreen))
        await driver.press("f")
        await driver.shows(TITLE, "cuda_oom_training.oom")


async def test_a_healthy_run_has_no_findings(run: SampleRun, runs: Path) -> None:
    async with running(runs) as driver:
        screen = await findings(driver, run.run, "No known problems found.")
        assert "a fix" not in screen and "l log line" not in screen


async def test_a_run_that_cannot_be_examined_is_named(runs: Path, tmp_path: Path) -> None:
    run = SampleRun.create(runs, "gone")
    log = tmp_path / "night.log"
    log.write_text("step:1 - critic/score/mean:0.5\n")
    opened = open_external(log)
    log.unlink()
    async with running(runs) as driver:
        await findings(driver, opened, "Diagnosis failed", "night.log")
        assert run.run.path.exists()


async def test_a_log_from_elsewhere_has_findings_and_nothing_to_launch(
    runs: Path, tmp_path: Path
) -> None:
    log = tmp_path / "night.log"
    log.write_bytes(b"step:1 - critic/score/mean:0.5\n" + OOM + b"\n")
    async with running(runs, watched=open_external(log)) as driver:
        await driver.shows("external")
        await driver.press("f")
        screen = await driver.shows(TITLE, "night.log line 2", "l log line")
        assert "a fix" not in screen and "t reproduce" not in screen
        await driver.press("a", "t")
        assert on(driver, FindingsScreen)()


@pytest.mark.thorough
async def test_a_finding_that_only_numbers_tell_offers_no_line(
    unhealthy: SampleRun, runs: Path
) -> None:
    _set_rate(unhealthy.run, 0.5)
    vouch(unhealthy.run)
    async with running(runs) as driver:
        await findings(driver, unhealthy.run, TITLE)
        while "is too high" not in driver.app.screen.selected.title:  # type: ignore[attr-defined]
            await driver.press("j")
        assert "l log line" not in await driver.shows("is too high")
        await driver.press("enter")
        assert on(driver, FindingsScreen)()
        await driver.press("question_mark")
        shown = await driver.shows("Keys: findings", "Inactive")
        assert "l enter log line" in shown[shown.index("Inactive") :]


async def test_the_question_shows_the_whole_change_and_its_answer_launches(
    fixable: Run, runs: Path
) -> None:
    async with running(runs) as driver:
        await findings(driver, fixable, TITLE, "a fix")
        await driver.press("1")
        await driver.until(on(driver, Confirm))
        await driver.shows("ppo_micro_batch_size_per_gpu: 4 -> 1", "apply fix 1")
        await driver.press("escape", "a")
        await driver.until(on(driver, Confirm))
        screen = await driver.shows("ppo_micro_batch_size_per_gpu: 4 -> 1", "apply fix 1")
        assert "apply fix 2" not in screen
        assert "not applicable: run 'grpo-fail'" in screen
        await driver.press("1")
        await driver.until(on(driver, LiveScreen))
        await driver.shows("grpo-fail-fix")
    derived = Run(runs / "grpo-fail-fix").read_full_manifest()
    assert derived.parent == Parent("grpo-fail", "fix")
    key = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"
    assert derived.value(key) == 1


@pytest.mark.thorough
async def test_y_takes_the_first_fix_as_it_takes_the_repro(fixable: Run, runs: Path) -> None:
    async with running(runs) as driver:
        await findings(driver, fixable, TITLE, "a fix")
        await driver.press("a")
        await driver.shows("y 1  apply fix 1", "  3  apply fix 3", "  n  cancel")
        await driver.press("y")
        await driver.until(on(driver, LiveScreen))
        await driver.shows("grpo-fail-fix")


@pytest.mark.thorough
async def test_a_fix_applied_before_names_the_run_that_has_it(fixable: Run, runs: Path) -> None:
    launch_rerun(check_rerun(fixable, _first_fix(fixable).changes))
    async with running(runs) as driver:
        await findings(driver, fixable, TITLE, "a fix")
        await driver.press("a")
        screen = await driver.shows("note: grpo-fail-fix already has these overrides (starting)")
        assert "apply fix 1 again" in screen and "apply fix 3 again" not in screen
        await driver.press("1")
        await driver.until(on(driver, LiveScreen))
        await driver.shows("grpo-fail-fix-2")


def _first_fix(run: Run) -> Fix:
    return launchable(diagnose_run(run))[0]


async def test_n_launches_nothing(fixable: Run, runs: Path) -> None:
    async with running(runs) as driver:
        await findings(driver, fixable, TITLE, "a fix")
        await driver.press("a")
        await driver.shows("apply fix 1")
        await driver.press("n")
        await driver.until(on(driver, FindingsScreen))
    assert [path.name for path in runs.iterdir()] == ["grpo-fail"]


async def test_the_repro_is_shown_before_it_is_launched(fixable: Run, runs: Path) -> None:
    async with running(runs) as driver:
        await findings(driver, fixable, TITLE, "t reproduce")
        await driver.press("t")
        await driver.until(on(driver, Confirm))
        await driver.shows("trainer.total_training_steps: 6 -> 5", "y  launch the small run")
        await driver.press("y")
        await driver.until(on(driver, LiveScreen))
        await driver.shows("grpo-fail-repro")


async def test_a_run_without_its_config_says_why_there_is_no_repro(
    unhealthy: SampleRun, runs: Path
) -> None:
    change_manifest(unhealthy.run, cwd=None)
    vouch(unhealthy.run)
    async with running(runs) as driver:
        await findings(driver, unhealthy.run, TITLE)
        await driver.press("t")
        await driver.shows("cannot be reproduced at small scale", "the run's config is missing")


@pytest.mark.thorough
async def test_a_question_whose_thread_dies_says_of_what(
    fixable: Run, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(run: Run) -> None:
        raise LookupError("no such rule")

    monkeypatch.setattr("engine.launch.repro.plan_repro", broken)
    async with running(runs) as driver:
        await findings(driver, fixable, TITLE, "t reproduce")
        await driver.press("t")
        await driver.shows("Failed: LookupError: no such rule")
        await driver.press("n")
        await driver.until(on(driver, FindingsScreen))


@pytest.mark.thorough
async def test_a_read_only_screen_neither_fixes_nor_reproduces(fixable: Run, runs: Path) -> None:
    loaded = Loaded(Settings(read_only=True), {})
    async with running(runs, loaded=loaded) as driver:
        screen = await findings(driver, fixable, TITLE)
        assert "a fix" not in screen and "t reproduce" not in screen
        await driver.press("a", "t", "1", "y")
        for action in ("launch_fix", "reproduce"):
            await driver.app.screen.run_action(action)
        await driver.shows("read-only")
        assert on(driver, FindingsScreen)()
    assert [path.name for path in runs.iterdir()] == ["grpo-fail"]


async def test_what_a_log_says_is_inert(runs: Path) -> None:
    sample = SampleRun.create(runs, "grpo-fail")
    sample.print(b"step:1 - critic/score/mean:0.5", OOM + b" [red]x[/] \x1b[2J\x1b]0;owned\x07")
    sample.say("failed")
    async with running(runs) as driver:
        screen = await findings(driver, sample.run, "[red]x[/]")
        assert "\x1b" not in screen and "owned" not in screen


async def test_without_unicode_findings_are_ascii(
    unhealthy: SampleRun, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with running(runs, loaded=Loaded(Settings(ascii=True), {})) as driver:
        screen = await findings(driver, unhealthy.run, "cuda_oom_training.oom", TITLE)
        assert screen.isascii()


async def test_the_screen_says_of_a_log_what_diagnose_says(
    exploding: Path, runs: Path, quick: list[bool], call: Call
) -> None:
    async with running(runs, watched=open_external(exploding)) as driver:
        await driver.shows(TITLE, "f findings")
        seen = driver.app.screen.history.findings  # type: ignore[attr-defined]
        await driver.press("f")
        await driver.shows("cuda_oom_training.oom", "Gradients grew")
        listed = driver.app.screen.query_one(FindingList).items
    code, output = call("diagnose", "--json", str(exploding))
    printed = json.loads(output)["findings"]
    assert code == 1
    assert [finding.to_json() for finding in seen] == printed
    assert [finding.to_json() for finding in listed] == printed


@pytest.mark.thorough
async def test_fixes_have_the_numbers_that_the_command_takes(
    fixable: Run, runs: Path, call: Call
) -> None:
    rate = {"value": 0.5, "origin": "cli"}
    change_config(fixable, **{"actor_rollout_ref.actor.optim.lr": rate})
    vouch(fixable)
    output = call("diagnose", fixable.id, "--runs", str(runs))[1]
    number = (
        next(line for line in output.splitlines() if "Set the learning rate to" in line)
        .split(":")[0]
        .split()[1]
    )
    assert int(number) > 1
    assert "apply a fix: grubrics-tui fix grpo-fail --number N" in output
    dry = call("fix", fixable.id, "--runs", str(runs), "--number", number, "--dry-run")[1]
    assert dry.startswith("Set the learning rate to")
    async with running(runs) as driver:
        await findings(driver, fixable, TITLE)
        while "is too high" not in driver.app.screen.selected.title:  # type: ignore[attr-defined]
            await driver.press("j")
        await driver.shows(f"{number}  Set the learning rate to")
        await driver.press("a")
        await driver.shows(f"apply fix {number}")


@pytest.mark.thorough
@pytest.mark.sample(1)
@pytest.mark.parametrize("size", [LARGE, SMALL])
async def test_answers_stay_in_sight_and_the_list_above_them_scrolls(
    fixable: Run, runs: Path, size: tuple[int, int]
) -> None:
    async with running(runs, size) as driver:
        await findings(driver, fixable, TITLE, "t reproduce")
        await driver.press("t")
        screen = await driver.shows("Reduced:", "y  launch the small run", "n  cancel")
        assert "esc back" not in screen
        await driver.press(*["j"] * 40)
        screen = await driver.shows("n  cancel")
        assert "saves once, at the end" in screen
        assert ("j k scroll" in screen) == (size == SMALL)


@pytest.mark.thorough
async def test_a_repro_that_keeps_the_cause_is_expected_to_fail(fixable: Run, runs: Path) -> None:
    async with running(runs) as driver:
        await findings(driver, fixable, TITLE, "t reproduce")
        length = config_of(fixable).get("data.max_response_length")
        await driver.app.push_screen(reproduce_dialog(fixable, [_too_long(length)]))
        await driver.shows(f"data.max_response_length={length}", "Apply its fix instead (a)")


def _too_long(length: int) -> Finding:
    key = "data.max_response_length"
    fix = Fix("Another", (Change("config", key, 8, length),))
    seen = Evidence("it is long", values={key: length})
    return Finding("slow_step", Severity.WARNING, "long", "because", (seen,), (fix,))
