"""A launch before it starts, as facts: what was chosen, what it needs, and its command."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.content import Content

from engine.base.text import count_of, format_config_value, sparkline
from grubrics_tui.text.formats import dollars, duration, memory, thousands
from grubrics_tui.widgets.facts import Fact

if TYPE_CHECKING:
    from engine.estimate.judge import JudgeUse
    from engine.estimate.report import Estimate
    from engine.launch.launcher import LaunchPlan
    from engine.launch.plan_launch import Order
    from engine.preflight.check import Check
    from engine.recipe.recipe import Recipe
    from engine.recipe.steps import StepPlan
    from engine.runs.rundir import RunDir

_CURVE = 24
"""Columns of a drawn schedule."""


def order_facts(
    plans: Sequence[LaunchPlan], order: Order, again: RunDir | None, queued: Sequence[str]
) -> Iterator[Fact]:
    """What was chosen. ``queued`` are the runs that are in the queue already."""
    recipe = plans[0].recipe
    source = "" if again is None else f"   as run {again.id} was launched"
    yield "config", Content.assemble((recipe.name, "bold"), source)
    yield "run" if len(plans) == 1 else "runs", ", ".join(plan.run_id for plan in plans)
    yield "folder", str(plans[0].directory.parent if len(plans) > 1 else plans[0].directory)
    if note := plans[0].folder_note:
        yield "note", note if len(plans) == 1 else "each seed has a checkpoint folder of its own"
    keys = " and ".join(recipe.kind.seed_keys)
    if order.seeds:
        seeds = ", ".join(map(str, order.seeds))
        yield "seed" if len(order.seeds) == 1 else "seeds", f"{seeds}   ({keys})"
    else:
        yield "seed", f"{recipe.get(recipe.kind.seed_keys[0])}   ({keys}, as in the config)"
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


def change_facts(recipe: Recipe) -> list[Fact]:
    """Key, value in the file, new value and its origin."""
    if not recipe.changes:
        return [("", f"none (all values from {recipe.path})")]
    return [
        (
            change.key,
            Content.assemble(
                (format_config_value(change.before), "$quiet"),
                " → ",
                (format_config_value(change.after), "bold $primary"),
                (f"   {change.origin}", "$quiet"),
            ),
        )
        for change in recipe.changes
    ]


def step_facts(recipe: Recipe, steps: StepPlan | None) -> list[Fact]:
    """How many steps, and what each of them generates."""
    from engine.recipe.scoring import asks_judge

    if steps is None:
        return [("steps", "unknown: cannot read the training file")]
    requested = "" if steps.asked is None else f"{steps.asked} requested; "
    facts: list[Fact] = [("steps", f"{steps.total}   ({requested}{steps.arithmetic()})")]
    if not recipe.kind.has_rollouts:
        return [*facts, ("each step", count_of(steps.batch, "row"))]
    samples = int(recipe.get("actor_rollout_ref.rollout.n") or 1)
    unit = "judge call" if asks_judge(recipe) else "reward"
    each = f"{count_of(steps.batch, 'row')} × {count_of(samples, 'rollout')}"
    facts.append(("each step", f"{each} = {count_of(steps.batch * samples, unit)}"))
    return [*facts, *_phase_facts(recipe), *_schedule_facts(recipe, steps.total)]


def _phase_facts(recipe: Recipe) -> Iterator[Fact]:
    """Each phase of the curriculum, and the shares of verifiable rows over the run."""
    from engine.recipe.curriculum import find_curriculum

    curriculum = find_curriculum(recipe.get)
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


def _schedule_facts(recipe: Recipe, last: int) -> Iterator[Fact]:
    """Each schedule, and its course over the steps of the run."""
    from engine.recipe.schedule import schedules

    if not last:
        return
    steps = _points(last)
    for schedule in schedules(recipe.get):
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
    yield "disk", f"{_format_disk(estimate, runs)}; {memory(needs.free_disk)} free"
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
    return f"{times}{duration(expected.seconds)}, from {expected.basis}"


def _format_memory(estimate: Estimate) -> str:
    if estimate.sizes is None:
        return "unknown: the model's directory has no config.json with dimensions"
    peak = estimate.sizes.memory.peak
    text = f"{memory(peak.total)} at its peak ({peak.name})"
    if estimate.device == "cpu":
        return f"{text} + Python and Ray, of {memory(estimate.host_bytes)} of this host"
    if estimate.gpu_bytes is None:
        return f"{text} on each GPU, without vLLM's share: no GPU is visible here"
    return f"{text} of {memory(estimate.gpu_bytes)} on each GPU: {estimate.room}"


def _format_disk(estimate: Estimate, runs: int) -> str:
    if estimate.sizes is None:
        return "size of a checkpoint unknown"
    count, size = estimate.sizes.kept * runs, estimate.sizes.checkpoint.total
    if not count:
        return "no checkpoints"
    return f"{count_of(count, 'checkpoint')} × {memory(size)} = {memory(count * size)}"


def _format_judge(use: JudgeUse, runs: int) -> str:
    calls = f"{thousands(use.calls.total * runs)} calls with validation, without retries"
    if use.cost is None:
        return f"{calls}; cost unknown ({'; '.join(use.unknown)})"
    return f"{calls}; {dollars(use.cost * runs)}"


def command_lines(argv: tuple[str, ...]) -> list[str]:
    """The command as one would type it, with one option or override per line."""
    words = [shlex.quote(word) for word in argv]
    lines, options = [" ".join(words[:3])], words[3:]
    while options:
        size = 2 if options[0].startswith("-") and len(options) > 1 else 1
        lines.append("  " + " ".join(options[:size]))
        options = options[size:]
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]
