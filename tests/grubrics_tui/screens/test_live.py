"""The live screen: what it shows of a run, and that it leaves the run alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.base import jsonl
from engine.run.events import pending_stop
from engine.run.history.sweep import Sweep, SweepPoint, write_sweep
from engine.run.history.train_log import Step
from engine.run.trust import vouch
from grubrics_tui.screens.live.screen import LiveScreen
from grubrics_tui.screens.navigation import OpenRun
from tests.grubrics_tui.pilots import LARGE, SMALL, running
from tests.grubrics_tui.sample_run import SampleRun


def last_metrics(sample: SampleRun) -> dict[str, float]:
    line = sample.run.train_log.read_text().splitlines()[-1]
    metrics: dict[str, float] = json.loads(line)["metrics"]
    return metrics


def files_of(sample: SampleRun) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(sample.run.path.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("size", [LARGE, SMALL])
async def test_an_active_run_is_opened_with_the_numbers_of_its_files(
    run: SampleRun, runs: Path, size: tuple[int, int]
) -> None:
    values = last_metrics(run)
    async with running(runs, size) as driver:
        screen = await driver.shows("running", "grpo-night", "step 12/40", " 30%")
        assert f"reward {values['reward/mean']:.3f} ± {values['reward/std']:.3f}" in screen
        assert f"mean {values['reward/mean']:.3f}" in screen
        assert f"std {values['reward/std']:.3f}" in screen
        assert f"judge {values['judge_api_latency_s']:.3g} s" in screen


async def test_every_panel_shows_the_last_values_of_the_large_screen(
    run: SampleRun, runs: Path
) -> None:
    values = last_metrics(run)
    async with running(runs, LARGE) as driver:
        titles = ("1 reward", "2 judge", "3 step time", "4 policy", "5 machine", "6 log")
        await driver.shows(*titles)
        await driver.called(LiveScreen.show)
        screen = driver.screen
        for label, name in PHASES.items():
            assert f"{label} {values[f'timing_s/{name}']:.2f}" in screen
        assert f"p50 {values['judge_api_latency_p50_s']:.3g} s" in screen
        assert f"p95 {values['judge_api_latency_p95_s']:.3g} s" in screen
        assert f"wait {values['semaphore_wait_s']:.3g} s" in screen
        assert "calls 64" in screen
        assert "memory host" in screen


PHASES = {
    "gen": "gen",
    "reward": "reward",
    "old log prob": "old_log_prob",
    "update": "update_actor",
    "weights": "update_weights",
}


async def test_new_steps_appear_as_they_are_logged(run: SampleRun, runs: Path) -> None:
    async with running(runs) as driver:
        await driver.shows("step 12/40")
        run.grow()
        run.say("running")
        await driver.shows("step 13/40", f"mean {last_metrics(run)['reward/mean']:.3f}")


async def test_checkpoints_are_drawn_as_a_sweep_measures_them(run: SampleRun, runs: Path) -> None:
    async with running(runs, LARGE) as driver:
        await driver.shows("step 12/40")
        points = (SweepPoint(0, 0.21, 0.15, 0.27, 8, 0), SweepPoint(10, 0.52, 0.44, 0.6, 8, 0))
        write_sweep(run.run, Sweep("tiny-1a2b3c", "reward", points))
        await driver.press("7", "z")
        await driver.shows("best checkpoint: step 10, 0.520", "sweep reward 0.520")
        await driver.shows("from 0.440", "to 0.600")


@pytest.mark.thorough
async def test_one_panel_at_a_time_on_a_small_screen(run: SampleRun, runs: Path) -> None:
    async with running(runs, SMALL) as driver:
        assert "gen " not in await driver.shows("[1 reward]", "mean ± in-group std")
        await driver.press("3")
        assert "± std in group" not in await driver.shows("[3 step time]", "old log prob")
        await driver.press("tab", "tab")
        await driver.shows("[5 machine]", "memory run")
        await driver.press("shift+tab", "shift+tab", "shift+tab")
        await driver.shows("[2 judge]", "time per call")


async def test_zoom_shows_one_panel_and_goes_back(run: SampleRun, runs: Path) -> None:
    async with running(runs, LARGE) as driver:
        await driver.shows("6 log")
        await driver.press("2", "z")
        assert "mean ± in-group std" not in await driver.shows("[2 judge]", "time per call")
        await driver.press("escape")
        await driver.shows("mean ± in-group std", "time per call")


@pytest.mark.thorough
async def test_panels_are_hidden_as_fast_as_the_key_repeats(run: SampleRun, runs: Path) -> None:
    async with running(runs, LARGE) as driver:
        await driver.shows("6 log")
        await driver.press(*"ddd")
        await driver.shows("1 policy", "4 validation")


async def test_a_starting_run_says_what_it_waits_for(runs: Path) -> None:
    sample = SampleRun.create(runs, "fresh")
    sample.say("starting", waiting_for="rollout server")
    async with running(runs) as driver:
        await driver.shows(
            "starting: waiting for rollout server", "no steps yet: waiting for rollout server"
        )


async def test_a_failed_run_shows_its_reason_and_what_the_doctor_says(runs: Path) -> None:
    sample = SampleRun.create(runs, "broken")
    sample.grow(2)
    sample.print(b"\x1b[36m(TaskRunner pid=7)\x1b[0m torch.OutOfMemoryError: CUDA out of memory")
    sample.say("failed", exit_code=1, reason="exit code 1 at step 2 of 40")
    async with running(runs, SMALL) as driver:
        await driver.press("r", "enter")
        await driver.shows(
            "failed: GPU out of memory in training; exit code 1 at step 2 of 40",
            "f findings",
        )


async def test_an_sft_run_shows_loss_and_optimiser_instead_of_reward_and_judge(
    runs: Path,
) -> None:
    sample = SampleRun.create(runs, "warm-up", kind="sft", total=60)
    sample.grow(20)
    sample.say("running")
    values = last_metrics(sample)
    loss, norm = f"loss {values['train/loss']:.4f}", f"grad norm {values['train/grad_norm']:.3f}"
    async with running(runs) as driver:
        screen = await driver.shows(
            "1 loss", "2 optimizer", loss, norm, f"lr {values['train/lr']:.2e}"
        )
        assert "1 reward" not in screen
        assert "2 judge" not in screen
        await driver.press("o")
        await driver.shows("SFT generates no rollouts")


async def test_a_hostile_console_stays_text(run: SampleRun, runs: Path) -> None:
    run.print(b"\x1b]0;owned\x07\x1b[2J\x1b[31m[red]not markup[/red] $error", b"x" * 10_000)
    async with running(runs) as driver:
        await driver.shows("[red]not markup[/red] $error", "xxx…")


@pytest.mark.thorough
async def test_records_of_the_wrong_shape_do_not_take_the_screen_down(
    run: SampleRun, runs: Path
) -> None:
    metrics = {"reward/mean": "high", "reward/std": True, "timing_s/step": [1]}
    jsonl.append(run.run.train_log, {"step": 13, "attempt": "x", "t": [], "metrics": metrics})
    for sample in ({"gpus": [1]}, {"gpus": {"a": 1}}, {"run": 5}, {"t": "now", "cpu_count": "2"}):
        jsonl.append(run.run.attempt(1).system, sample)
    state = {"state": "failed", "step": "13", "total_steps": [], "started": "now", "attempt": {}}
    jsonl.write_json(run.run.state_file, {**state, "reason": "a\x1b[2J\u202eb\nc"})
    async with running(runs) as driver:
        await driver.press("r", "enter")
        await driver.shows("failed: a [2J b c", "memory host", "step –")


@pytest.mark.row("G48")
async def test_a_gpu_is_shown_with_what_this_run_holds_of_it(runs: Path) -> None:
    sample = SampleRun.create(runs, "on-gpu", gpus=1)
    sample.grow(3)
    sample.say("running")
    async with running(runs) as driver:
        await driver.shows("NVIDIA H100", "gpu 0 busy", "57.2 GiB by this run")


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_quitting_touches_no_file_of_the_run(run: SampleRun, runs: Path, key: str) -> None:
    before = files_of(run)
    async with running(runs) as driver:
        await driver.shows("step 12/40")
        await driver.press(key)
    assert files_of(run) == before
    assert not driver.app.is_running


async def test_a_reopened_app_finds_the_run_again(run: SampleRun, runs: Path) -> None:
    for _ in range(2):
        async with running(runs) as driver:
            await driver.shows("grpo-night", "step 12/40")
            await driver.press("q")


async def test_stopping_asks_first_and_enter_does_nothing(run: SampleRun, runs: Path) -> None:
    async with running(runs) as driver:
        await driver.shows("step 12/40")
        await driver.press("s")
        await driver.shows("Stop ")
        await driver.press("enter")
        assert pending_stop(run.run) is None
        await driver.press("n")
        assert pending_stop(run.run) is None


@pytest.mark.parametrize(("key", "after_checkpoint"), [("y", False), ("a", True)])
async def test_a_confirmed_stop_is_asked_of_the_supervisor(
    run: SampleRun, runs: Path, key: str, after_checkpoint: bool
) -> None:
    async with running(runs) as driver:
        await driver.shows("step 12/40")
        await driver.press("s", key)
        request = pending_stop(run.run)
    assert request is not None
    assert request.after_checkpoint is after_checkpoint


async def test_an_ended_run_offers_the_verdict_instead_of_the_stop(
    run: SampleRun, runs: Path
) -> None:
    async with running(runs) as driver:
        await driver.shows("step 12/40", "s stop")
        run.say("finished")
        assert "s stop" not in await driver.shows("finished", "v summary", "e entry")


async def test_scrolling_the_log_stops_following_until_the_end_is_asked_for(
    run: SampleRun, runs: Path
) -> None:
    async with running(runs) as driver:
        await driver.shows("following", "step 12")
        await driver.press("pageup")
        await driver.shows("scrolled up")
        run.print(b"the newest line")
        await driver.press("G")
        await driver.shows("the newest line", "following")


@pytest.mark.thorough
async def test_the_log_panel_shows_the_words_of_a_line_behind_much_indentation(
    run: SampleRun, runs: Path
) -> None:
    async with running(runs) as driver:
        await driver.shows("following", "step 12")
        run.print(b"(TaskRunnerV1 pid=7) " + b" " * 70 + b"'param_offload': False")
        await driver.shows("TaskRunnerV1 7      'param_offload': False")


@pytest.fixture
def command(runs: Path) -> SampleRun:
    """A run that executes ``./train --lr 1`` and has logged nothing."""
    sample = SampleRun.create(runs, "loop")
    raw = json.loads(sample.run.manifest_file.read_text())
    argv = ["./train", "--lr", "1"]
    attempts = [{"number": 1, "started": sample.started, "argv": argv}]
    (runs / "train").write_text("#!/bin/sh\n")
    (runs / "train").chmod(0o755)
    of_command = {**raw, "kind": "command", "total_steps": None, "config": {}, "argv": argv}
    jsonl.write_json(sample.run.manifest_file, {**of_command, "attempts": attempts})
    vouch(sample.run)
    sample.say("running")
    return sample


@pytest.mark.thorough
async def test_a_command_gets_the_panels_of_its_first_metrics(
    command: SampleRun, runs: Path
) -> None:
    async with running(runs) as driver:
        driver.app.post_message(OpenRun(command.run))
        assert "loss" not in await driver.shows("loop", "step –")
        jsonl.append(command.run.train_log, Step(1, 1, 0.0, {"train/loss": 2.5}).to_json())
        await driver.shows("1 loss", "train 2.5000")


@pytest.mark.thorough
async def test_a_command_that_failed_is_run_again_and_has_no_checkpoint_to_show(
    command: SampleRun, runs: Path
) -> None:
    command.say("failed", reason="exit code 1")
    async with running(runs) as driver:
        driver.app.post_message(OpenRun(command.run))
        assert "reproduce" not in await driver.shows("exit code 1", "R run again")
        await driver.press("R")
        await driver.shows("Run loop again?", "./train --lr 1", "as train-2")
        await driver.press("n", "v")
        assert "Checkpoint" not in await driver.shows("Run summary", "exit code 1")
