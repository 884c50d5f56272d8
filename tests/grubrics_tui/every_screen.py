"""Every screen of the package, and how a person comes to it: for tests that go through all.

A new screen has a ``Way`` here, or ``test_snapshots.py`` fails.
"""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from textual.screen import Screen

import grubrics_tui
from engine.base import jsonl
from engine.base.typed import to_json
from engine.checks.check import ok
from engine.checks.estimate.report import estimate
from engine.config.load import load_config
from engine.config.steps import step_plan
from engine.launch.launcher import LaunchPlan, plan
from engine.run.checkpoints.ownership import STAMP, Stamp
from engine.run.finding import Change, Fix
from engine.run.run import Run
from engine.run.trust import Case, vouch
from grubrics_tui.screens.ablation.guide import ChooseKnob, GuideScreen
from grubrics_tui.screens.ablation.screen import AblationScreen
from grubrics_tui.screens.base import CockpitScreen, Dialog, ScrolledScreen
from grubrics_tui.screens.charts import ChartScreen
from grubrics_tui.screens.compare.charts import ChooseMetric
from grubrics_tui.screens.compare.screen import CompareScreen
from grubrics_tui.screens.compare.table import WholeValues
from grubrics_tui.screens.config.screen import ConfigScreen
from grubrics_tui.screens.dialogs.change_runs import fix_dialog, reproduce_dialog
from grubrics_tui.screens.dialogs.choices import AskValue, PickName, PickOne
from grubrics_tui.screens.dialogs.confirm import Confirm, trust_question
from grubrics_tui.screens.dialogs.new_config import NewConfigDialog
from grubrics_tui.screens.findings.screen import FindingsScreen
from grubrics_tui.screens.forms import DecisionScreen, FormScreen, LogEntryScreen
from grubrics_tui.screens.help import HelpScreen
from grubrics_tui.screens.home.screen import HomeScreen
from grubrics_tui.screens.live.metric_finder import MetricFinder
from grubrics_tui.screens.live.screen import LiveScreen
from grubrics_tui.screens.log.screen import LogScreen, SourcesScreen
from grubrics_tui.screens.navigation import (
    OpenAblation,
    OpenCompare,
    OpenConfig,
    OpenDecision,
    OpenFindings,
    OpenGuide,
    OpenLog,
    OpenLogEntry,
    OpenOrphans,
    OpenRollouts,
    OpenRun,
    OpenSummary,
)
from grubrics_tui.screens.orphans import OrphansScreen
from grubrics_tui.screens.preflight.edit_launch import OverridesScreen
from grubrics_tui.screens.preflight.launch import LaunchScreen, Needs, Planned
from grubrics_tui.screens.preflight.screen import CheckChoices, PreflightScreen
from grubrics_tui.screens.rollouts.screen import RolloutsScreen
from grubrics_tui.screens.run_summary import RunSummaryScreen
from grubrics_tui.screens.runs.choosers import ChooseColumns, ChooseFilter
from grubrics_tui.screens.runs.notes import NotesScreen
from grubrics_tui.screens.runs.screen import RunsScreen
from grubrics_tui.screens.start import StartScreen
from grubrics_tui.settings.comparison_marks import ComparisonMarks
from grubrics_tui.settings.state_files import ListViewFile, VisitFile
from tests.engine.run.checkpoints.checkpoint_files import save
from tests.grubrics_tui.pilots import Driver
from tests.grubrics_tui.sample_ablation import make_ablation
from tests.grubrics_tui.sample_run import SampleRun
from tests.grubrics_tui.world import NOW, RUNS, World
from tests.manifests import change_manifest

_BASES = (
    CockpitScreen,
    ChartScreen,
    Dialog,
    FormScreen,
    PickOne,
    ScrolledScreen,
)


@dataclass(frozen=True)
class Way:
    """``go`` leads from the first screen to ``screen`` and returns when all of it is there."""

    screen: type[Screen[Any]]
    go: Callable[[Driver, World], Awaitable[None]]


def package_screens() -> set[type[Screen[Any]]]:
    """Every screen that the package defines, the bases of others left out."""
    modules = pkgutil.walk_packages(grubrics_tui.__path__, "grubrics_tui.")
    members = [
        member
        for module in modules
        if not module.name.endswith("__main__")
        for member in vars(importlib.import_module(module.name)).values()
    ]
    return {
        member
        for member in members
        if inspect.isclass(member)
        and issubclass(member, Screen)
        and member.__module__.startswith("grubrics_tui.")
        and member not in _BASES
    }


async def arrive(driver: Driver, screen: type[Screen[Any]], *texts: str) -> None:
    """Wait until ``screen`` is in front and shows the texts."""
    await driver.until(lambda: type(driver.app.screen) is screen, screen.__name__)
    await driver.shows(*texts)


async def settled(driver: Driver, looks: int = 5) -> str:
    """The screen once it was the same at so many looks in a row."""
    seen = [""]

    def is_still() -> bool:
        seen.append(driver.screen)
        return len(seen) > looks and len(set(seen[-looks:])) == 1

    await driver.until(is_still, "a still screen")
    return seen[-1]


async def _live(driver: Driver, run: Run, *texts: str) -> None:
    """The app may show this run already: its screen is another one than the one asked for."""
    before = driver.app.screen
    driver.app.post_message(OpenRun(run))
    await driver.until(lambda: driver.app.screen is not before, run.id)
    await arrive(driver, LiveScreen, *texts)


async def live(driver: Driver, world: World) -> None:
    await _live(driver, world.night, "step 12/40", "reward 0.")


async def live_sft(driver: Driver, world: World) -> None:
    await _live(driver, world.warmup, "step 60/60", "loss ")


async def live_failed(driver: Driver, world: World) -> None:
    await _live(driver, world.day, "step 9/40", "✗ failed")


async def metrics(driver: Driver, world: World) -> None:
    await live(driver, world)
    await driver.press("slash")
    await arrive(driver, MetricFinder, "Find a metric", "actor/entropy")


async def confirm_stop(driver: Driver, world: World) -> None:
    await live(driver, world)
    await driver.press("s")
    await arrive(driver, Confirm, "stop now")


async def help_(driver: Driver, world: World) -> None:
    await live(driver, world)
    await driver.press("question_mark")
    await arrive(driver, HelpScreen, "Keys: live")


async def runs(driver: Driver, world: World) -> None:
    await driver.press("r")
    await arrive(driver, RunsScreen, "grpo-night", "grpo-day", "sft-warmup")


async def columns(driver: Driver, world: World) -> None:
    await runs(driver, world)
    await driver.press("w")
    await arrive(driver, ChooseColumns, "Columns of the list", "validation")


async def filters(driver: Driver, world: World) -> None:
    file = ListViewFile()
    file.save_filter("failed-today", "state:failed age<1d")
    file.save_filter("night", jsonl.line(f"night {world.text}".strip()) or "")
    await runs(driver, world)
    await driver.press("b")
    await arrive(driver, ChooseFilter, "Saved filters", "failed-today")


async def notes(driver: Driver, world: World) -> None:
    await runs(driver, world)
    await driver.press("j", "j", "n")
    await arrive(driver, NotesScreen, "Notes on")


async def confirm_resume(driver: Driver, world: World) -> None:
    save_checkpoint(world.day, 6)
    await runs(driver, world)
    await driver.press("j", "u")
    await arrive(driver, Confirm, "Resume grpo-day?")


async def confirm_resume_refused(driver: Driver, world: World) -> None:
    await runs(driver, world)
    await driver.press("j", "u")
    await arrive(driver, Confirm, "cannot be resumed")


def save_checkpoint(run: Run, step: int) -> None:
    """A complete checkpoint of the run, in a folder of its own."""
    folder = run.path.parent / "saved"
    change_manifest(run, checkpoint_dir=folder.name)
    vouch(run)
    save(folder, step)
    jsonl.write_json(folder / STAMP, to_json(Stamp.of(run, run.read_manifest())))


async def confirm_removal(driver: Driver, world: World) -> None:
    await runs(driver, world)
    await driver.press("j", "d")
    await arrive(driver, Confirm, "archive the run")


async def orphans(driver: Driver, world: World) -> None:
    await runs(driver, world)
    driver.app.post_message(OpenOrphans())
    await arrive(driver, OrphansScreen, "Orphaned processes")
    await driver.until(lambda: "searching processes" not in driver.screen)


async def preflight(driver: Driver, world: World) -> None:
    """The answers of this machine make way for the world's own."""
    await driver.press("c")
    await driver.until(lambda: type(driver.app.screen) is PreflightScreen)
    checks = driver.app.screen.query_one(CheckChoices)
    await driver.until(lambda: bool(checks.checks) and not checks.unanswered, "all answers")
    driver.app.screen.query_one(CheckChoices).start([check.id for check in world.checks])
    for check in world.checks:
        driver.answer(check)
    await driver.until(lambda: bool(checks.checks) and not checks.unanswered, "the answers")
    await driver.shows("Preflight checks", "fail")


async def configs(driver: Driver, world: World) -> None:
    await preflight(driver, world)
    await driver.press("o")
    await arrive(driver, PickName, "other")


async def overrides(driver: Driver, world: World) -> None:
    await preflight(driver, world)
    await driver.press("v", *"training.max=3", "enter")
    await arrive(driver, OverridesScreen, "Overrides of", "training.max")


async def launch(driver: Driver, world: World) -> None:
    """A plan tells when and with which Python it was made, and what this machine has: here it tells
    the same everywhere."""
    config = load_config(world.config, world.overrides)
    screen = LaunchScreen(world.config, world.overrides, RUNS)
    driver.app.push_screen(screen)
    await arrive(driver, LaunchScreen, "max_steps=9")
    await driver.until(lambda: "estimating" not in driver.screen)
    made = plan(config, "small-20260102", RUNS)
    planned = Planned([made], step_plan(config))
    with patch.object(LaunchPlan, "argv", ("python", *made.argv[1:])):
        screen.show_plan(planned)
    needed = replace(estimate(config, {}, RUNS), host_bytes=16 << 30)
    needs = Needs(needed, 120 << 30, ok("machine", "no other active run of yours on this host"))
    screen.show_needs(planned, needs)
    await settled(driver)


async def findings(driver: Driver, world: World) -> None:
    driver.app.post_message(OpenFindings(world.day))
    await arrive(driver, FindingsScreen)
    await driver.until(lambda: "Diagnosing" not in driver.screen)


async def confirm_fix(driver: Driver, world: World) -> None:
    fewer = Change("config", "actor_rollout_ref.rollout.n", 4, 8)
    fixes = {1: Fix("Fewer rollouts of a prompt", (fewer,), "half the memory")}
    driver.app.push_screen(fix_dialog(world.day, fixes))
    await arrive(driver, Confirm, "Fewer rollouts of a prompt")


async def confirm_trust(driver: Driver, world: World) -> None:
    facts = (("owner", "'ada'"), ("command", "python -m engine.train.grpo"), ("code", "steal.py"))
    reasons = ("runs/grpo-day is owned by 'ada'", "you did not launch it here")
    subject = f"run '{world.day.id}'"
    driver.app.push_screen(
        Confirm(trust_question(Case(subject, world.day.path, reasons, facts, "")))
    )
    await arrive(driver, Confirm, "Trust run '")


async def confirm_repro(driver: Driver, world: World) -> None:
    driver.app.push_screen(reproduce_dialog(world.day))
    await arrive(driver, Confirm)
    await driver.until(lambda: "Planning" not in driver.screen)


async def run_summary(driver: Driver, world: World) -> None:
    driver.app.post_message(OpenSummary(world.day))
    await arrive(driver, RunSummaryScreen, "✗ failed", "none complete")


async def log_entry(driver: Driver, world: World) -> None:
    driver.app.post_message(OpenLogEntry(world.day))
    await arrive(driver, LogEntryScreen, "ID", "appends the entry to")


async def rollouts(driver: Driver, world: World) -> None:
    driver.app.post_message(OpenRollouts(world.day))
    await arrive(driver, RolloutsScreen, "group 1 of ", "mean 0.")


async def rollout_text(driver: Driver, world: World) -> None:
    await rollouts(driver, world)
    await driver.press("enter")
    await driver.shows("prompt", "rollout")


async def rollout_diff(driver: Driver, world: World) -> None:
    await rollouts(driver, world)
    await driver.press("d", "j")
    await driver.shows("rollout")


async def log(driver: Driver, world: World) -> None:
    driver.app.post_message(OpenLog(world.log))
    await arrive(driver, LogScreen, " lines")


async def sources(driver: Driver, world: World) -> None:
    await log(driver, world)
    await driver.press("s")
    await arrive(driver, SourcesScreen, "Filter by source", "TaskRunnerV1")


async def compare(driver: Driver, world: World) -> None:
    chosen = (world.night, world.day)
    marks = ComparisonMarks()
    for run in chosen:
        marks.toggle(run.id)
    driver.app.post_message(OpenCompare([Run(run.path) for run in chosen], marks))
    await arrive(driver, CompareScreen, "reward/mean", "each run at its last step")


async def config(driver: Driver, world: World) -> None:
    driver.app.post_message(OpenConfig(world.day))
    await arrive(driver, ConfigScreen, "Config of", "row 1 of")


async def choose_metric(driver: Driver, world: World) -> None:
    await compare(driver, world)
    await driver.press("slash")
    await arrive(driver, ChooseMetric, "Choose a metric")


async def whole_values(driver: Driver, world: World) -> None:
    await compare(driver, world)
    await driver.press("tab", "j", "enter")
    await arrive(driver, WholeValues)


async def home(driver: Driver, world: World) -> None:
    VisitFile.default_path().parent.mkdir(parents=True, exist_ok=True)
    visits = {ascii(str(RUNS.resolve())): NOW - 40_000}
    jsonl.write_json(VisitFile.default_path(), {"v": 1, "visits": visits})
    next_run = SampleRun.create(RUNS, "next", total=40, started=NOW)
    next_run.say("queued", waiting_for=f"its turn: 1 run ahead {world.text}".strip())
    await driver.press("H")
    await arrive(driver, HomeScreen, "Active", "Ended since", "Queued", "checkpoints take")


async def start(driver: Driver, world: World) -> None:
    driver.app.push_screen(StartScreen(RUNS))
    await arrive(driver, StartScreen, "Try it")
    await driver.press("j", "enter")
    await driver.shows("enter open, →")


async def ablation(driver: Driver, world: World) -> None:
    plan = make_ablation(RUNS, NOW - 7200, world.text)
    driver.app.post_message(OpenAblation(plan))
    await arrive(driver, AblationScreen, "lr=1e-3", "better", "11 of 12 runs ended")
    await driver.press("j")


async def decision(driver: Driver, world: World) -> None:
    driver.app.post_message(OpenDecision(f"lr=1e-3: better {world.text}".strip()))
    await arrive(driver, DecisionScreen, "What was decided", "appends the entry to")


async def guide(driver: Driver, world: World) -> None:
    """The world has no data of that config, so the number of steps is typed."""
    overrides = [text for text in world.overrides if text.startswith("grubrics.")]
    driver.app.post_message(OpenGuide("grpo_tiny", overrides))
    await arrive(driver, GuideScreen, "press s to set it")
    await driver.press("s", "6", "0", "enter")
    await driver.shows("x 60 steps")
    await driver.press("p", "j", "enter")
    await driver.shows("no-information", "time")


async def choose_knob(driver: Driver, world: World) -> None:
    await guide(driver, world)
    await driver.press("n", *"description", "enter")
    await arrive(driver, ChooseKnob, "type other values")


async def ask_steps(driver: Driver, world: World) -> None:
    await guide(driver, world)
    await driver.press("s")
    await arrive(driver, AskValue, "Steps of each run")


async def new_config(driver: Driver, world: World) -> None:
    """What is in the file that is typed is shown."""
    data = Path("questions.jsonl")
    jsonl.append(data, {f"question{world.text}": "2 + 3?", "answer": 5})
    os.utime(data, (4e9, 4e9))
    driver.app.push_screen(StartScreen(RUNS))
    await arrive(driver, StartScreen, "Try it")
    driver.app.push_screen(NewConfigDialog())
    await arrive(driver, NewConfigDialog, "files here: questions.jsonl")
    await driver.press(*data.name)
    await arrive(driver, NewConfigDialog, "questions.jsonl", "name a task")


WAYS: dict[str, Way] = {
    "home": Way(HomeScreen, home),
    "start": Way(StartScreen, start),
    "new-config": Way(NewConfigDialog, new_config),
    "live": Way(LiveScreen, live),
    "live-sft": Way(LiveScreen, live_sft),
    "live-failed": Way(LiveScreen, live_failed),
    "metrics": Way(MetricFinder, metrics),
    "confirm-stop": Way(Confirm, confirm_stop),
    "help": Way(HelpScreen, help_),
    "runs": Way(RunsScreen, runs),
    "columns": Way(ChooseColumns, columns),
    "filters": Way(ChooseFilter, filters),
    "notes": Way(NotesScreen, notes),
    "confirm-resume": Way(Confirm, confirm_resume),
    "confirm-resume-refused": Way(Confirm, confirm_resume_refused),
    "confirm-trust": Way(Confirm, confirm_trust),
    "confirm-removal": Way(Confirm, confirm_removal),
    "orphans": Way(OrphansScreen, orphans),
    "preflight": Way(PreflightScreen, preflight),
    "configs": Way(PickName, configs),
    "overrides": Way(OverridesScreen, overrides),
    "launch": Way(LaunchScreen, launch),
    "ablation": Way(AblationScreen, ablation),
    "guide": Way(GuideScreen, guide),
    "decision": Way(DecisionScreen, decision),
    "choose-knob": Way(ChooseKnob, choose_knob),
    "ask-steps": Way(AskValue, ask_steps),
    "findings": Way(FindingsScreen, findings),
    "confirm-fix": Way(Confirm, confirm_fix),
    "confirm-repro": Way(Confirm, confirm_repro),
    "run-summary": Way(RunSummaryScreen, run_summary),
    "log-entry": Way(LogEntryScreen, log_entry),
    "rollouts": Way(RolloutsScreen, rollouts),
    "rollouts-text": Way(RolloutsScreen, rollout_text),
    "rollouts-diff": Way(RolloutsScreen, rollout_diff),
    "log": Way(LogScreen, log),
    "sources": Way(SourcesScreen, sources),
    "compare": Way(CompareScreen, compare),
    "config": Way(ConfigScreen, config),
    "choose-metric": Way(ChooseMetric, choose_metric),
    "whole-values": Way(WholeValues, whole_values),
}
