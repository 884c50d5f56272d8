"""Plan an ablation: choose the base and the arms, see what they change and cost, and start."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from textual import on, work
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets.option_list import Option

from engine.ablations.plan import PRESETS, preset_arm
from engine.base.errors import UsageError
from engine.runs.rundir import RunDir
from grubrics_tui.screens.base import HEIGHTS, CockpitScreen
from grubrics_tui.screens.dialogs.ask_value import AskValue
from grubrics_tui.screens.dialogs.choices import Choices, PickName
from grubrics_tui.screens.dialogs.trust import when_trusted
from grubrics_tui.screens.navigation import OpenAblation
from grubrics_tui.settings.actions import bindings
from grubrics_tui.text.ablations import format_changes, format_cost, format_seeds, format_size
from grubrics_tui.widgets.facts import Fact, Facts, inert
from grubrics_tui.widgets.key_footer import KeyFooter

if TYPE_CHECKING:
    from pathlib import Path

    from engine.ablations.cost import Cost
    from engine.ablations.plan import AblationPlan
    from engine.recipe.recipe import Recipe
    from grubrics_tui.screens.ablation.choose_knob import Knob

_SEEDS, _MOST_SEEDS = 3, 20


@dataclass(frozen=True)
class Draft:
    """What the user has chosen. ``base``: a config or a run; ``steps`` None: as in the config."""

    base: str = ""
    overrides: tuple[str, ...] = ()
    arms: tuple[tuple[str, tuple[str, ...]], ...] = ()
    seeds: int = _SEEDS
    steps: int | None = None

    def command(self) -> str:
        """The same as a command."""
        words = ["grubrics-tui", "ablate", self.base, *self.overrides]
        for name, overrides in self.arms:
            is_preset = preset_arm(name) == (name, overrides)
            words += ["--arm", name if is_preset else " ".join((name, *overrides))]
        words += ["--seeds", str(self.seeds)]
        words += ["--steps", str(self.steps)] if self.steps is not None else []
        return shlex.join(words)


class GuideScreen(CockpitScreen):
    """A thread plans and estimates after every change; nothing is written before the start."""

    WHERE = "guide"
    BINDINGS = bindings("guide")
    AUTO_FOCUS = "Choices"
    VERTICAL_BREAKPOINTS = HEIGHTS

    DEFAULT_CSS = """
    GuideScreen {
        #base { margin: 0 1; }
        Choices { margin: 0 1; height: 1fr; min-height: 5; }
        #rest { height: auto; max-height: 50%; }
        #plan { margin: 0 1; }
    }
    """

    class BaseRead(Message):
        def __init__(self, recipe: Recipe, run: RunDir | None, steps: int | None) -> None:
            super().__init__()
            self.recipe, self.run, self.steps = recipe, run, steps

    class Planned(Message):
        """The plan of a draft; without ``cost`` while that is still being estimated."""

        def __init__(self, draft: Draft, plan: AblationPlan, cost: Cost | None) -> None:
            super().__init__()
            self.draft, self.plan, self.cost = draft, plan, cost

    class Refused(Message):
        """The draft makes no plan, or the plan cannot be started."""

        def __init__(self, reason: str) -> None:
            super().__init__()
            self.reason = reason

    def __init__(self, root: Path, base: str, overrides: Sequence[str] = ()) -> None:
        super().__init__()
        self._root = root
        self._draft = Draft(base, tuple(overrides))
        self._recipe: Recipe | None = None
        self._run: RunDir | None = None
        self._plan: AblationPlan | None = None
        self._accepted: GuideScreen.Planned | None = None
        self._is_starting = False

    def compose(self) -> ComposeResult:
        yield Facts("Base", id="base")
        yield Choices("Arms")
        with VerticalScroll(id="rest", can_focus=False):
            yield Facts("Plan", id="plan")
        yield KeyFooter()

    def on_mount(self) -> None:
        super().on_mount()
        if self._draft.base:
            self._read_base(self._draft)
        else:
            self.query_one("#base", Facts).show([("", "none selected; press o to choose one")])
            self.call_after_refresh(self.action_choose_base)

    @work(thread=True, exclusive=True, group="plan", exit_on_error=False)
    def _read_base(self, draft: Draft) -> None:
        from engine.launch.rerun import recipe_of_source
        from engine.recipe.steps import step_plan

        try:
            recipe, run = recipe_of_source(draft.base, draft.overrides, self._root)
        except UsageError as error:
            self.post_message(self.Refused(str(error)))
            return
        steps = step_plan(recipe)
        self.post_message(self.BaseRead(recipe, run, steps.total if steps else None))

    @on(BaseRead)
    def _show_base(self, message: BaseRead) -> None:
        self._recipe, self._run = message.recipe, message.run
        if self._draft.steps is None:
            self._change(steps=message.steps)
        else:
            self._change()

    def _change(self, **changes: object) -> None:
        """Plan again with other choices."""
        self._draft = replace(self._draft, **changes)  # type: ignore[arg-type]
        self._plan = None
        self.refresh_bindings()
        self._show_draft()
        if self._recipe is not None:
            self._make_plan(self._draft, self._recipe)

    @work(thread=True, exclusive=True, group="plan", exit_on_error=False)
    def _make_plan(self, draft: Draft, base: Recipe) -> None:
        from engine.ablations.cost import plan_cost
        from engine.ablations.plan import make_plan

        if draft.steps is None:
            self.post_message(self.Refused("the number of steps is unknown; press s to set it"))
            return
        try:
            plan = make_plan(base, {}, draft.arms, draft.seeds, draft.steps)
            self.post_message(self.Planned(draft, plan, None))
            cost = plan_cost(plan, base, self._root, os.environ)
        except UsageError as error:
            self.post_message(self.Refused(str(error)))
        else:
            self.post_message(self.Planned(draft, plan, cost))

    def _show_draft(self) -> None:
        """What was chosen, before the plan of it is known."""
        draft, recipe = self._draft, self._recipe
        about = "reading ..." if recipe is None else f"{recipe.kind} on {_device(recipe)}"
        facts: list[Fact] = [(draft.base, about)]
        if draft.overrides:
            facts.append(("overrides", " ".join(draft.overrides)))
        self.query_one("#base", Facts).show(facts)
        self._list_arms({name: " ".join(overrides) for name, overrides in draft.arms})
        self.query_one("#plan", Facts).show([("", "planning ...")])

    @on(Planned)
    def _show_plan(self, message: Planned) -> None:
        if message.draft != self._draft:
            return
        self._accepted, plan = message, message.plan
        self._plan = plan
        self.refresh_bindings()
        self._list_arms({arm.name: format_changes(arm) for arm in plan.arms[1:]})
        facts: list[Fact] = [("runs", format_size(plan))]
        if message.cost is None:
            facts.append(("cost", "estimating ..."))
        else:
            facts += [
                (label, text)
                for label, _, text in (line.partition(": ") for line in format_cost(message.cost))
            ]
        if note := format_seeds(len(plan.seeds)):
            facts.append(("seeds", note))
        if len(plan.arms) == 1:
            facts.append(("next", "n varies a key, p takes a known ablation"))
        facts.append(("command", message.draft.command()))
        self.query_one("#plan", Facts).show(facts)

    @on(Refused)
    def _show_refusal(self, message: Refused) -> None:
        """Say why, and return to the choices before, which made a plan."""
        self._is_starting = False
        if self._accepted is None:
            error = Content.styled(message.reason, "$error")
            self.query_one("#plan", Facts).show([("error", error)])
            return
        self.notify(message.reason, title="not possible", severity="error", markup=False)
        self._draft = self._accepted.draft
        self._show_plan(self._accepted)

    def _list_arms(self, changes: Mapping[str, str]) -> None:
        choices = self.query_one(Choices)
        selected = choices.highlighted
        lines = {"base": "as the config is", **changes}
        width = max(map(len, lines)) + 2
        choices.clear_options()
        choices.add_options(
            Option(
                inert(Content.styled(name.ljust(width), "bold") + Content.styled(text, "$quiet")),
                id=name,
            )
            for name, text in lines.items()
        )
        choices.highlighted = min(selected or 0, len(lines) - 1)
        choices.border_subtitle = f"{len(lines)} arms" if changes else "add an arm: n or p"

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Nothing can be started before its plan is known."""
        return action != "start_ablation" or self._can_start

    @property
    def _can_start(self) -> bool:
        return self._plan is not None and len(self._plan.arms) > 1 and not self._is_starting

    @on(Choices.OptionSelected)
    def action_start_ablation(self) -> None:
        plan, base = self._plan, self._recipe
        if plan is None or base is None or not self._can_start:
            return

        def start() -> None:
            self._is_starting = True
            self.query_one("#plan", Facts).show([("", "checking every arm ...")])
            self._start(plan, base)

        if self._run is None:
            start()
        else:
            when_trusted(self, [self._run], start, executes=True)

    @work(thread=True, exit_on_error=False)
    def _start(self, plan: AblationPlan, base: Recipe) -> None:
        from engine.ablations.runner import RunnerSettings, start_runner, write_plan

        try:
            write_plan(plan, base, self._root)
            start_runner(plan.folder, self._root, RunnerSettings())
        except UsageError as error:
            self.post_message(self.Refused(str(error)))
        else:
            self.post_message(OpenAblation(plan))

    def action_choose_base(self) -> None:
        from grubrics_tui.screens.ablation.lists import find_bases

        def find() -> Iterator[tuple[str, str]]:
            return find_bases(self._root)

        def choose(base: str | None) -> None:
            if base is not None:
                self._recipe = self._accepted = None
                self._draft = Draft(base)
                self._show_draft()
                self._read_base(self._draft)

        self.app.push_screen(PickName("Choose the config or the run to vary", find), choose)

    def action_add_knob(self) -> None:
        from engine.ablations.plan import knob_arms
        from grubrics_tui.screens.ablation.choose_knob import ChooseKnob

        def add(knob: Knob | None) -> None:
            if knob is not None:
                self._add(dict(knob_arms({knob.key: knob.values})))

        if self._recipe is not None:
            self.app.push_screen(ChooseKnob(self._recipe), add)

    def action_add_preset(self) -> None:
        from grubrics_tui.screens.ablation.lists import find_presets

        def add(name: str | None) -> None:
            if name is not None:
                self._add({name: PRESETS[name]})

        self.app.push_screen(PickName("Choose an ablation of the reward", find_presets), add)

    def _add(self, arms: Mapping[str, tuple[str, ...]]) -> None:
        self._change(arms=tuple({**dict(self._draft.arms), **arms}.items()))

    def action_remove_arm(self) -> None:
        choices = self.query_one(Choices)
        index = (choices.highlighted or 0) - 1
        if 0 <= index < len(self._draft.arms):
            kept = [arm for number, arm in enumerate(self._draft.arms) if number != index]
            self._change(arms=tuple(kept))

    def action_seeds(self, count: int) -> None:
        self._change(seeds=max(1, min(_MOST_SEEDS, self._draft.seeds + count)))

    def action_set_steps(self) -> None:
        def choose(steps: int | None) -> None:
            if steps is not None:
                self._change(steps=steps)

        steps = "" if self._draft.steps is None else str(self._draft.steps)
        hint = "the same for every arm"
        self.app.push_screen(AskValue("Steps of each run", steps, hint, _parse_steps), choose)

    def action_copy_command(self) -> None:
        self.app.copy_to_clipboard(self._draft.command())
        self.notify("Copied (if the terminal supports OSC 52).")

    def action_cursor_down(self) -> None:
        self.query_one(Choices).action_cursor_down()

    def action_cursor_up(self) -> None:
        self.query_one(Choices).action_cursor_up()

    def action_back(self) -> None:
        self.app.pop_screen()


def _parse_steps(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise UsageError("type a whole number of at least 1")
    return int(text)


def _device(recipe: Recipe) -> str:
    return str(recipe.get("grubrics.device"))
