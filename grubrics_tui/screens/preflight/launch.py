"""Review and edit a launch: name, seeds, when it starts, values; what it needs; the command."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from textual import work
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content

from engine.base.errors import UsageError
from engine.base.quantities import (
    format_count,
    format_dollars,
    format_duration,
    format_size,
    format_whole,
)
from engine.base.text import format_config_value, sparkline
from engine.launch.plan_launch import (
    Order,
    config_for_launch,
    launch_all,
    parse_seeds,
    plan_launches,
)
from engine.run.run import Run, check_id
from grubrics_tui.screens.base import ScrolledScreen
from grubrics_tui.screens.dialogs.choices import AskValue, PickName
from grubrics_tui.screens.navigation import OpenRun
from grubrics_tui.screens.preflight.edit_launch import OverridesScreen
from grubrics_tui.settings.actions import bindings
from grubrics_tui.widgets.facts import Fact, Facts
from grubrics_tui.widgets.key_footer import KeyFooter

if TYPE_CHECKING:
    from pathlib import Path

    from engine.checks.check import Check
    from engine.checks.estimate.judge import JudgeUse
    from engine.checks.estimate.report import Estimate
    from engine.config.load import Config
    from engine.config.steps import StepPlan
    from engine.launch.launcher import LaunchPlan
    from engine.launch.plan_launch import Order
    from engine.run.run import Run


_NOW, _TURN = "now", "in the queue"


@dataclass(frozen=True)
class Planned:
    plans: Sequence[LaunchPlan]
    steps: StepPlan | None
    again: Run | None = None
    queued: Sequence[str] = ()
    """The runs that are in the queue already."""


class LaunchScreen(ScrolledScreen):
    """Shows the plan and edits it; enter starts it, once. A thread plans after every change."""

    BINDINGS = bindings("launch")

    DEFAULT_CSS = """
    LaunchScreen {
        Facts { margin: 0 1; }
        #order { border: round $line-focus; border-title-color: $primary; }
    }
    """

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
        self._planned: Planned | None = None
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
        from engine.config.steps import step_plan
        from engine.supervise.queue import line_up

        try:
            config, again = config_for_launch(self._source, overrides, self._runs_root)
            plans = plan_launches(config, self._runs_root, order, again=again)
        except UsageError as error:
            self.call_later(self._show_refusal, str(error))
            return
        queued = [run.id for run in line_up(self._runs_root).runs]
        planned = Planned(plans, step_plan(config), again, queued)
        self.call_later(self.show_plan, planned)
        self.call_later(self.show_needs, planned, _find_needs(plans[0], self._runs_root))

    def show_plan(self, planned: Planned) -> None:
        self._planned = planned
        self.refresh_bindings()
        first = planned.plans[0]
        facts = order_facts(planned.plans, self._order, planned.again, planned.queued)
        self.query_one("#order", Facts).show(list(facts))
        self.query_one("#changes", Facts).show(change_facts(first.config))
        steps = step_facts(first.config, planned.steps)
        self.query_one("#plan", Facts).show([*steps, ("time", "estimating ...")])
        command = Content("\n").join(Content(line) for line in command_lines(first.argv))
        box = self.query_one("#command", Facts)
        box.border_title = "Command" if len(planned.plans) == 1 else "Command of the first run"
        box.show([("$", command)])
        if self._starts_when_planned:
            self.action_start()

    def show_needs(self, planned: Planned, needs: Needs) -> None:
        """Show what one of the planned runs needs."""
        if planned is self._planned:
            steps = step_facts(planned.plans[0].config, planned.steps)
            self.query_one("#plan", Facts).show([*steps, *need_facts(needs, len(planned.plans))])

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
        from engine.run.registry import ActiveRuns

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
            self.call_later(self._show_refusal, str(error))
        else:
            self.post_message(OpenRun(started[0]))

    def _show_refusal(self, reason: str) -> None:
        self._started = self._starts_when_planned = False
        error = Content.styled(reason, "$error")
        self.query_one("#order", Facts).show([("error", error)])
        self.notify(reason, title="not launched", severity="error", markup=False)

    def action_copy_command(self) -> None:
        if self._planned is not None:
            self.app.copy_to_clipboard(shlex.join(self._planned.plans[0].argv))
            self.notify("Copied (if the terminal supports OSC 52).")


def _find_needs(plan: LaunchPlan, runs: Path) -> Needs:
    from engine.checks.check import Subject
    from engine.checks.estimate.report import estimate
    from engine.checks.machine import check_machine
    from engine.config.places import checkpoint_dir
    from engine.run.checkpoints.model_folder import free_bytes

    ticket = plan.ticket
    after = frozenset([ticket.after] if ticket and ticket.after else [])
    takes_turn = ticket is not None and ticket.turn
    subject = Subject(plan.config, os.environ, runs, after, takes_turn)
    free = free_bytes(checkpoint_dir(plan.config))
    return Needs(estimate(plan.config, os.environ, runs), free, check_machine(subject))


def _require_launchable(plan: LaunchPlan, runs: Path) -> list[Check]:
    """Run the preflight checks, and return the warnings. UsageError if one fails."""
    from engine.checks.preflight import require_launchable
    from engine.launch.queueing import ahead

    before = ahead(plan.ticket, runs) if plan.ticket else ()
    turn = plan.ticket is not None and plan.ticket.turn
    return require_launchable(plan.config, runs, ahead=before, waits=turn)


def _parse_name(text: str) -> str:
    """Empty or a run ID. Raises UsageError for another text."""
    return check_id(text) if text else ""


_CURVE = 24
"""Columns of a drawn schedule."""


def order_facts(
    plans: Sequence[LaunchPlan], order: Order, again: Run | None, queued: Sequence[str]
) -> Iterator[Fact]:
    """What was chosen. ``queued`` are the runs that are in the queue already."""
    config = plans[0].config
    source = "" if again is None else f"   as run {again.id} was launched"
    yield "config", Content.assemble((config.name, "bold"), source)
    yield "run" if len(plans) == 1 else "runs", ", ".join(plan.run_id for plan in plans)
    yield "folder", str(plans[0].directory.parent if len(plans) > 1 else plans[0].directory)
    if note := plans[0].folder_note:
        yield "note", note if len(plans) == 1 else "each seed has a checkpoint folder of its own"
    keys = " and ".join(config.kind.seed_keys)
    if order.seeds:
        seeds = ", ".join(map(str, order.seeds))
        yield "seed" if len(order.seeds) == 1 else "seeds", f"{seeds}   ({keys})"
    else:
        yield "seed", f"{config.get(config.kind.seed_keys[0])}   ({keys}, as in the config)"
    yield "start", format_start(order, queued)


def format_start(order: Order, queued: Sequence[str]) -> str:
    """When the first run starts: ``now``, ``after run a, then in the queue``."""
    ahead = f" behind {', '.join(queued)}" if queued else ""
    turn = f"in the queue{ahead}"
    if len(order.seeds) > 1:
        turn += ", one run after the other as resources become free"
    if order.after is None:
        return turn if order.takes_turn else "now"
    return f"after run {order.after}" + (f", then {turn}" if order.takes_turn else "")


def change_facts(config: Config) -> list[Fact]:
    """Key, value in the file, new value and its origin."""
    if not config.changes:
        return [("", f"none (all values from {config.path})")]
    return [
        (
            change.key,
            Content.assemble(
                (format_config_value(change.before), "$quiet"),
                " → ",
                (format_config_value(change.after), "bold $primary"),
                (f"   {change.origin}", "$quiet"),
                (", as in the file" if change.before == change.after else "", "$quiet"),
            ),
        )
        for change in config.changes
    ]


def step_facts(config: Config, steps: StepPlan | None) -> list[Fact]:
    """How many steps, and what each of them generates."""
    from engine.config.scoring import asks_judge

    if steps is None:
        return [("steps", "unknown: cannot read the training file")]
    requested = "" if steps.asked is None else f"{steps.asked} requested; "
    facts: list[Fact] = [("steps", f"{steps.total}   ({requested}{steps.arithmetic()})")]
    if not config.kind.has_rollouts:
        return [*facts, ("each step", format_count(steps.batch, "row"))]
    samples = int(config.get("actor_rollout_ref.rollout.n") or 1)
    unit = "judge call" if asks_judge(config) else "reward"
    each = f"{format_count(steps.batch, 'row')} × {format_count(samples, 'rollout')}"
    facts.append(("each step", f"{each} = {format_count(steps.batch * samples, unit)}"))
    return [*facts, *_phase_facts(config), *_schedule_facts(config, steps.total)]


def _phase_facts(config: Config) -> Iterator[Fact]:
    """Each phase of the curriculum, and the shares of verifiable rows over the run."""
    from engine.config.curriculum import find_curriculum

    curriculum = find_curriculum(config.get)
    if curriculum is None:
        return
    label = "curriculum"
    for line in curriculum.describe():
        yield label, line
        label = ""
    total = curriculum.total
    steps = _points(total)
    curve = sparkline([curriculum.phase(step).verifiable for step in steps])
    yield "", Content.assemble("verifiable ", (curve, "$primary"), f" step {total}")


def _points(last: int) -> list[int]:
    """The steps that a curve shows, from 1 to the last."""
    points = min(_CURVE, last)
    return [1 + index * (last - 1) // max(1, points - 1) for index in range(points)]


def _schedule_facts(config: Config, last: int) -> Iterator[Fact]:
    """Each schedule, and its course over the steps of the run."""
    from engine.config.schedule import schedules

    if not last:
        return
    steps = _points(last)
    for schedule in schedules(config.get):
        yield schedule.of.name, schedule.describe(last)
        curve = sparkline([schedule.at(step) for step in steps])
        first, end = f"step 1: {schedule.text(1)} ", f" {schedule.text(last)}: step {last}"
        yield "", Content.assemble(first, (curve, "$primary"), end)


@dataclass(frozen=True)
class Needs:
    """What one run needs, and what it shares the machine with. ``free_disk``: bytes."""

    estimate: Estimate
    free_disk: int
    machine: Check


def need_facts(needs: Needs, runs: int) -> Iterator[Fact]:
    """Time, memory, disk and judge of ``runs`` equal runs, and the other runs on this machine."""
    estimate = needs.estimate
    yield "time", _format_time(estimate, runs)
    yield "memory", _format_memory(estimate)
    yield "disk", f"{_format_disk(estimate, runs)}; {format_size(needs.free_disk)} free"
    if estimate.judge is not None:
        yield "judge", _format_judge(estimate.judge, runs)
    if needs.machine.status == "warn":
        yield "machine", Content.styled(needs.machine.message, "bold $warning")
        queue = "w queues this run; " if needs.machine.fix else ""
        yield "", f"{queue}enter starts it alongside the others"
    else:
        yield "machine", needs.machine.message


def _format_time(estimate: Estimate, runs: int) -> str:
    expected = estimate.duration
    if expected.seconds is None:
        return "unknown: no earlier run of this config or size"
    times = f"{runs} × " if runs > 1 else ""
    return f"{times}{format_duration(expected.seconds)}, from {expected.basis}"


def _format_memory(estimate: Estimate) -> str:
    if estimate.sizes is None:
        return f"unknown: {estimate.no_sizes}"
    peak = estimate.sizes.memory.peak
    text = f"{format_size(peak.total)} at its peak ({peak.name})"
    if estimate.device == "cpu":
        return f"{text} + Python and Ray, of {format_size(estimate.host_bytes)} of this host"
    if estimate.gpu_bytes is None:
        return f"{text} on each GPU, without vLLM's share: no GPU is visible here"
    return f"{text} of {format_size(estimate.gpu_bytes)} on each GPU: {estimate.room}"


def _format_disk(estimate: Estimate, runs: int) -> str:
    if estimate.sizes is None:
        return "size of a checkpoint unknown"
    count, size = estimate.sizes.kept * runs, estimate.sizes.checkpoint.total
    if not count:
        return "no checkpoints"
    return (
        f"{format_count(count, 'checkpoint')} × {format_size(size)} = {format_size(count * size)}"
    )


def _format_judge(use: JudgeUse, runs: int) -> str:
    calls = f"{format_whole(use.calls.total * runs)} calls with validation, without retries"
    if use.cost is None:
        return f"{calls}; cost unknown ({'; '.join(use.unknown)})"
    return f"{calls}; {format_dollars(use.cost * runs)}"


def command_lines(argv: tuple[str, ...]) -> list[str]:
    """The command as one would type it, with one option or override per line."""
    words = [shlex.quote(word) for word in argv]
    start = words.index("-m") + 2  # The interpreter with its options, and the module.
    lines, options = [" ".join(words[:start])], words[start:]
    while options:
        size = 2 if options[0].startswith("-") and len(options) > 1 else 1
        lines.append("  " + " ".join(options[:size]))
        options = options[size:]
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]
