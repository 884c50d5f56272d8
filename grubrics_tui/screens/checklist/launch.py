"""Review and edit a launch: name, seeds, when it starts, values; what it needs; the command."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from textual import on, work
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message

from engine.base.errors import UsageError
from engine.launch.plan_launch import (
    Order,
    launch_all,
    parse_seeds,
    plan_launches,
    recipe_for_launch,
)
from engine.runs.rundir import RunDir, check_id
from grubrics_tui.screens.base import ScrolledScreen
from grubrics_tui.screens.checklist.edit_launch import OverridesScreen
from grubrics_tui.screens.checklist.launch_facts import (
    Needs,
    change_facts,
    command_lines,
    need_facts,
    order_facts,
    step_facts,
)
from grubrics_tui.screens.dialogs.ask_value import AskValue
from grubrics_tui.screens.dialogs.choices import PickName
from grubrics_tui.screens.navigation import OpenRun
from grubrics_tui.settings.actions import bindings
from grubrics_tui.widgets.facts import Facts
from grubrics_tui.widgets.key_footer import KeyFooter

if TYPE_CHECKING:
    from pathlib import Path

    from engine.launch.launcher import LaunchPlan
    from engine.preflight.check import Check
    from engine.recipe.steps import StepPlan

_NOW, _TURN = "now", "in the queue"


class LaunchScreen(ScrolledScreen):
    """Shows the plan and edits it; enter starts it, once. A thread plans after every change."""

    BINDINGS = bindings("launch")

    DEFAULT_CSS = """
    LaunchScreen {
        Facts { margin: 0 1; }
        #order { border: round $line-focus; border-title-color: $primary; }
    }
    """

    class Planned(Message):
        def __init__(
            self,
            plans: Sequence[LaunchPlan],
            steps: StepPlan | None,
            again: RunDir | None = None,
            queued: Sequence[str] = (),
        ) -> None:
            super().__init__()
            self.plans, self.steps, self.again, self.queued = plans, steps, again, queued

    class Estimated(Message):
        """What one of the planned runs needs."""

        def __init__(self, planned: LaunchScreen.Planned, needs: Needs) -> None:
            super().__init__()
            self.planned, self.needs = planned, needs

    class Refused(Message):
        def __init__(self, reason: str) -> None:
            super().__init__()
            self.reason = reason

    def __init__(
        self,
        source: str,
        overrides: Sequence[str],
        runs_root: Path,
        order: Order | None = None,
        edited: Callable[[tuple[str, ...]], None] = lambda _: None,
        warnings: Sequence[Check] = (),
    ) -> None:
        """``source``: a config or a run. ``edited`` gets the overrides chosen here. ``warnings``
        are those of the checks that have seen the values."""
        super().__init__()
        self._warnings = warnings
        self._source, self._overrides, self._runs_root = source, tuple(overrides), runs_root
        self._order, self._edited = order or Order(), edited
        self._is_edited = False
        self._planned: LaunchScreen.Planned | None = None
        self._started = self._starts_when_planned = False

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Facts("Launch", id="order")
            yield Facts("Overrides", id="changes")
            yield Facts("Plan", id="plan")
            yield Facts("Command", id="command")
        yield KeyFooter()

    def on_mount(self) -> None:
        super().on_mount()
        self._make_plan(self._order, self._overrides)

    def _change(self, order: Order) -> None:
        self._order, self._planned, self._starts_when_planned = order, None, False
        self.refresh_bindings()
        self._make_plan(order, self._overrides)

    @work(thread=True, exclusive=True, group="plan", exit_on_error=False)
    def _make_plan(self, order: Order, overrides: tuple[str, ...]) -> None:
        from engine.recipe.steps import step_plan
        from engine.supervise.queue import line_up

        try:
            recipe, again = recipe_for_launch(self._source, overrides, self._runs_root)
            plans = plan_launches(recipe, self._runs_root, order, again=again)
        except UsageError as error:
            self.post_message(self.Refused(str(error)))
            return
        queued = [run.id for run in line_up(self._runs_root).runs]
        planned = self.Planned(plans, step_plan(recipe), again, queued)
        self.post_message(planned)
        self.post_message(self.Estimated(planned, _find_needs(plans[0], self._runs_root)))

    @on(Planned)
    def _show_plan(self, message: Planned) -> None:
        self._planned = message
        self.refresh_bindings()
        first = message.plans[0]
        facts = order_facts(message.plans, self._order, message.again, message.queued)
        self.query_one("#order", Facts).show(list(facts))
        self.query_one("#changes", Facts).show(change_facts(first.recipe))
        steps = step_facts(first.recipe, message.steps)
        self.query_one("#plan", Facts).show([*steps, ("time", "estimating ...")])
        command = Content("\n").join(Content(line) for line in command_lines(first.argv))
        box = self.query_one("#command", Facts)
        box.border_title = "Command" if len(message.plans) == 1 else "Command of the first run"
        box.show([("$", command)])
        if self._starts_when_planned:
            self.action_start()

    @on(Estimated)
    def _show_needs(self, message: Estimated) -> None:
        planned = message.planned
        if planned is self._planned:
            steps = step_facts(planned.plans[0].recipe, planned.steps)
            needs = need_facts(message.needs, len(planned.plans))
            self.query_one("#plan", Facts).show([*steps, *needs])

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Nothing can be copied before the plan is known."""
        return action != "copy_command" or self._planned is not None

    def action_name_run(self) -> None:
        def choose(name: str | None) -> None:
            if name is not None:
                self._change(replace(self._order, name=name or None))

        hint = "empty: the name of the config, with the time"
        name = self._order.name or ""
        self.app.push_screen(AskValue("Run ID", name, hint, _parse_name), choose)

    def action_choose_seeds(self) -> None:
        def choose(seeds: tuple[int, ...] | None) -> None:
            if seeds is not None:
                self._change(replace(self._order, seeds=seeds))

        text = ",".join(map(str, self._order.seeds))
        hint = "e.g. 1,2,3: one queued run each; empty: the seed of the config"
        self.app.push_screen(AskValue("Seeds", text, hint, parse_seeds), choose)

    def action_queue(self) -> None:
        """Choose when the run starts."""

        def choose(name: str | None) -> None:
            if name is not None:
                after = None if name in (_NOW, _TURN) else name
                self._change(replace(self._order, after=after, queue=name == _TURN))

        current = self._order.after or (_TURN if self._order.queue else _NOW)
        self.app.push_screen(PickName("Start the run", self._find_starts, current), choose)

    def _find_starts(self) -> Iterator[tuple[str, str]]:
        """The ways to start, each with what it waits for."""
        from engine.runs.registry import ActiveRuns

        yield _NOW, "beside whatever else runs"
        yield _TURN, "when its turn comes and GPUs are free (CPU: no other active run)"
        for name, state in ActiveRuns(self._runs_root).read().items():
            yield name, f"after this run, which is {state.state}, has finished"

    def action_edit_overrides(self) -> None:
        def choose(overrides: tuple[str, ...] | None) -> None:
            if overrides is not None and overrides != self._overrides:
                self._overrides, self._is_edited = overrides, True
                self._edited(overrides)
                self._change(self._order)

        self.app.push_screen(
            OverridesScreen(self._source, self._overrides, self._runs_root), choose
        )

    def action_start(self) -> None:
        """Start the planned runs; while they are planned, as soon as that is done."""
        self._starts_when_planned = self._planned is None
        if self._planned is None:
            self.notify("Starting as soon as the plan is made ...")
        elif not self._started:
            self._started = True
            names = ", ".join(plan.run_id for plan in self._planned.plans)
            verb = "Starting" if self._planned.plans[0].ticket is None else "Queuing"
            verb = f"Checking and {verb.lower()}" if self._is_edited else verb
            self.notify(f"{verb} {names} ...", markup=False)
            self._launch(self._planned.plans, checks=self._is_edited)

    @work(thread=True, exit_on_error=False)
    def _launch(self, plans: Sequence[LaunchPlan], checks: bool) -> None:
        """``checks``: the preflight checks have not seen the values."""
        try:
            warnings = self._warnings
            if checks:
                warnings = _require_launchable(plans[0], self._runs_root)
            started = launch_all([plan.with_warnings(warnings) for plan in plans])
        except UsageError as error:
            self.post_message(self.Refused(str(error)))
        else:
            self.post_message(OpenRun(started[0]))

    @on(Refused)
    def _show_refusal(self, message: Refused) -> None:
        self._started = self._starts_when_planned = False
        error = Content.styled(message.reason, "$error")
        self.query_one("#order", Facts).show([("error", error)])
        self.notify(message.reason, title="not launched", severity="error", markup=False)

    def action_copy_command(self) -> None:
        if self._planned is not None:
            self.app.copy_to_clipboard(shlex.join(self._planned.plans[0].argv))
            self.notify("Copied (if the terminal supports OSC 52).")


def _find_needs(plan: LaunchPlan, runs: Path) -> Needs:
    from engine.estimate.report import estimate
    from engine.preflight.check import Subject
    from engine.preflight.machine import check_machine
    from engine.preflight.memory_and_disk import free_bytes
    from engine.recipe.places import checkpoint_dir

    ticket = plan.ticket
    after = frozenset([ticket.after] if ticket and ticket.after else [])
    takes_turn = ticket is not None and ticket.turn
    subject = Subject(plan.recipe, os.environ, runs, after, takes_turn)
    free = free_bytes(checkpoint_dir(plan.recipe))
    return Needs(estimate(plan.recipe, os.environ, runs), free, check_machine(subject))


def _require_launchable(plan: LaunchPlan, runs: Path) -> list[Check]:
    """Run the preflight checks, and return the warnings. UsageError if one fails."""
    from engine.launch.queueing import ahead
    from engine.preflight.checklist import require_launchable

    before = ahead(plan.ticket, runs) if plan.ticket else ()
    turn = plan.ticket is not None and plan.ticket.turn
    return require_launchable(plan.recipe, runs, ahead=before, waits=turn)


def _parse_name(text: str) -> str:
    """Empty or a run ID. Raises UsageError for another text."""
    return check_id(text) if text else ""
