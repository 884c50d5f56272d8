"""Review of a launch: the command, the overrides and the planned steps."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from textual import on, work
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message

from engine.base.counts import count_of
from engine.base.errors import UsageError
from grubrics_tui.screens.base import ScrolledScreen
from grubrics_tui.screens.navigation import OpenRun
from grubrics_tui.settings.actions import bindings
from grubrics_tui.widgets.facts import Fact, Facts
from grubrics_tui.widgets.key_footer import KeyFooter

if TYPE_CHECKING:
    from pathlib import Path

    from engine.launch.launcher import LaunchPlan
    from engine.preflight.check import Check
    from engine.recipe.recipe import Recipe
    from engine.recipe.steps import StepPlan
    from engine.runs.rundir import RunDir


class LaunchScreen(ScrolledScreen):
    """Shows the plan; enter starts it, once."""

    BINDINGS = bindings("launch")

    DEFAULT_CSS = """
    LaunchScreen {
        Facts { margin: 0 1; }
        #command { border: round $line-focus; border-title-color: $primary; padding: 1 2; }
    }
    """

    class Planned(Message):
        def __init__(self, plan: LaunchPlan, steps: StepPlan | None, machine: Check) -> None:
            super().__init__()
            self.plan, self.steps, self.machine = plan, steps, machine

    class Refused(Message):
        def __init__(self, reason: str) -> None:
            super().__init__()
            self.reason = reason

    def __init__(self, recipe: Recipe, runs_root: Path, again: RunDir | None = None) -> None:
        super().__init__()
        self._recipe, self._runs_root, self._again = recipe, runs_root, again
        self._plan: LaunchPlan | None = None
        self._started = False

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Facts("Command", id="command")
            yield Facts("Overrides", id="changes")
            yield Facts("Plan", id="plan")
        yield KeyFooter()

    def on_mount(self) -> None:
        self.query_one("#changes", Facts).show(change_facts(self._recipe))
        self._make_plan()

    @work(thread=True, exit_on_error=False)
    def _make_plan(self) -> None:
        from engine.launch.plan_launch import plan_launch
        from engine.preflight import machine
        from engine.preflight.check import Subject
        from engine.recipe.steps import step_plan

        try:
            made = plan_launch(self._recipe, self._runs_root, again=self._again)
        except UsageError as error:
            self.post_message(self.Refused(str(error)))
            return
        busy = machine.check_machine(Subject(self._recipe, os.environ, self._runs_root))
        self.post_message(self.Planned(made, step_plan(self._recipe), busy))

    @on(Planned)
    def _show_plan(self, message: Planned) -> None:
        self._plan = message.plan
        self.refresh_bindings()
        command = Content("\n").join(Content(line) for line in command_lines(message.plan.argv))
        self.query_one("#command", Facts).show([("$", command)])
        facts = plan_facts(message.plan, message.steps)
        self.query_one("#plan", Facts).show([*facts, *_machine_facts(message.machine)])

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Nothing can be started or copied before the plan is known."""
        return action not in ("start", "queue", "copy_command") or self._plan is not None

    def action_start(self) -> None:
        if self._plan is not None and not self._started:
            self._started = True
            self.notify(f"Starting {self._plan.run_id} ...", markup=False)
            self._launch(self._plan)

    def action_queue(self) -> None:
        if self._plan is not None and not self._started:
            self._started = True
            self.notify(f"Queuing {self._plan.run_id} ...", markup=False)
            self._launch(self._plan, queue=True)

    @work(thread=True, exit_on_error=False)
    def _launch(self, plan: LaunchPlan, queue: bool = False) -> None:
        from engine.launch.launcher import launch
        from engine.launch.queueing import ticket

        try:
            queue_ticket = ticket(self._recipe, self._runs_root, after=None, turn=queue)
            run = launch(replace(plan, ticket=queue_ticket))
        except UsageError as error:
            self.post_message(self.Refused(str(error)))
        else:
            self.post_message(OpenRun(run))

    @on(Refused)
    def _show_refusal(self, message: Refused) -> None:
        self._started = False
        error = Content.styled(message.reason, "$error")
        self.query_one("#plan", Facts).show([("error", error)])
        self.notify(message.reason, title="not launched", severity="error", markup=False)

    def action_copy_command(self) -> None:
        if self._plan is not None:
            self.app.copy_to_clipboard(shlex.join(self._plan.argv))
            self.notify("Copied (if the terminal supports OSC 52).")


def command_lines(argv: tuple[str, ...]) -> list[str]:
    """The command as one would type it, with one option or override per line."""
    words = [shlex.quote(word) for word in argv]
    lines, options = [" ".join(words[:3])], words[3:]
    while options:
        size = 2 if options[0].startswith("-") and len(options) > 1 else 1
        lines.append("  " + " ".join(options[:size]))
        options = options[size:]
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]


def change_facts(recipe: Recipe) -> list[Fact]:
    """Key, value in the file, new value and its origin."""
    if not recipe.changes:
        return [("", f"none (all values from {recipe.path})")]
    return [
        (
            change.key,
            Content.assemble(
                (f"{change.before}", "$quiet"),
                " → ",
                (f"{change.after}", "bold $primary"),
                (f"   {change.origin}", "$quiet"),
            ),
        )
        for change in recipe.changes
    ]


def _machine_facts(check: Check) -> list[Fact]:
    """The active runs that this one would share the machine with, if any."""
    if check.status != "warn":
        return []
    return [
        ("machine", Content.styled(check.message, "bold $warning")),
        ("", "w queues this run; enter starts it alongside the others"),
    ]


def plan_facts(plan: LaunchPlan, steps: StepPlan | None) -> list[Fact]:
    from engine.recipe.scoring import asks_judge

    facts: list[Fact] = [("run", plan.run_id), ("folder", str(plan.directory))]
    if plan.folder_note:
        facts.append(("note", plan.folder_note))
    if steps is None:
        return [*facts, ("steps", "unknown: cannot read the training file")]
    requested = "" if steps.asked is None else f"{steps.asked} requested; "
    facts.append(("steps", f"{steps.total}   ({requested}{steps.arithmetic()})"))
    if not plan.recipe.kind.has_rollouts:
        return [*facts, ("each step", count_of(steps.batch, "row"))]
    samples = int(plan.recipe.get("actor_rollout_ref.rollout.n") or 1)
    calls = steps.batch * samples
    judged = asks_judge(plan.recipe)
    unit, retries = ("judge call", "retries and ") if judged else ("reward", "")
    each = f"{count_of(steps.batch, 'row')} × {count_of(samples, 'rollout')}"
    return [
        *facts,
        ("each step", f"{each} = {count_of(calls, unit)}"),
        ("total", f"{steps.total * calls:,} {unit}s, without {retries}validation"),
    ]
