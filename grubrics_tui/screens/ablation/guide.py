"""Plan an ablation: choose the base and the arms, see what they change and cost, and start."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static
from textual.widgets.option_list import Option

from engine.base.errors import UsageError
from engine.base.jsonl import line
from engine.base.quantities import format_time
from engine.config.load import Config, parse_override
from engine.measure.ablations.plan import PRESETS, preset_arm, split_values
from engine.run.run import Run
from grubrics_tui.drawing.spans import clipped
from grubrics_tui.screens.base import HEIGHTS, CockpitScreen, Dialog
from grubrics_tui.screens.dialogs.choices import (
    AskValue,
    Choices,
    PickName,
    WithChoices,
    find_configs,
)
from grubrics_tui.screens.dialogs.confirm import when_trusted
from grubrics_tui.screens.navigation import OpenAblation
from grubrics_tui.settings.actions import bindings
from grubrics_tui.text.plans import format_changes, format_cost, format_plan_size, format_seeds
from grubrics_tui.widgets.facts import Fact, Facts, inert
from grubrics_tui.widgets.key_footer import KeyFooter
from grubrics_tui.widgets.key_list import LONGEST_VALUE, KeyList

if TYPE_CHECKING:
    from pathlib import Path

    from engine.config.load import Config
    from engine.measure.ablations.cost import Cost
    from engine.measure.ablations.plan import AblationPlan


@dataclass(frozen=True)
class Knob:
    """A key and the values to try beside the base's."""

    key: str
    values: tuple[str, ...]


class ChooseKnob(Dialog[Knob]):
    """Returns a knob whose values the config accepts, or None."""

    WHERE = "choose"
    BINDINGS = bindings("choose")
    KEYS = (("enter", "takes the key, then the values"), ("esc", "cancel"))

    DEFAULT_CSS = """
    ChooseKnob {
        & > Vertical { width: 96; max-width: 100%; height: 80%; max-height: 30; padding: 0 1; }
        Input, Input:focus { border: none; height: 1; padding: 0; background: $panel; }
        #problem { height: auto; max-height: 4; margin-bottom: 1; }
        KeyList { background: $panel; }
    }
    """

    def __init__(self, base: Config) -> None:
        super().__init__()
        self._base = base

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            yield Input(placeholder="type part of a key, e.g. lr or rank", compact=True)
            yield Static(id="problem", markup=False)
            yield KeyList()
        box.border_title = inert(f"What to vary in {self._base.name}")

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self._find("")

    @on(Input.Changed)
    def _type(self, message: Input.Changed) -> None:
        key, separator, _ = message.value.partition("=")
        self._find(key)
        if separator and key in self._base.values:
            origin = self._base.origins.get(key, "default")
            now = clipped(line(str(self._base.get(key))) or "", LONGEST_VALUE)
            text = f"now {now} ({origin}); type other values: {key}=V1,V2"
            self._say(Content.styled(text, "$quiet"))
        else:
            self._say(Content(""))

    @on(Input.Submitted)
    def _submit(self, message: Input.Submitted) -> None:
        key, separator, values = message.value.partition("=")
        if not separator:
            self._take_key()
        elif not all(split_values(values)):
            self._say(Content.styled(f"type the values to try: {key}=V1,V2", "$error"))
        else:
            self._try(Knob(key, split_values(values)))

    def _take_key(self) -> None:
        """Complete the key under the cursor; the values are typed after it."""
        if (key := self.query_one(KeyList).selected) is not None:
            field = self.query_one(Input)
            field.value = f"{key}="
            field.cursor_position = len(field.value)

    @work(thread=True, exclusive=True, exit_on_error=False)
    def _try(self, knob: Knob) -> None:
        """Load the base with each value. The end of a key is enough, as on the command line."""
        try:
            for value in knob.values:
                config = self._base.with_overrides([f"{knob.key}={value}"])
        except UsageError as error:
            self.call_later(self._say, Content.styled(str(error), "$error"))
        else:
            whole_key = config.overrides[-1].partition("=")[0]
            self.call_later(self.close, replace(knob, key=whole_key))

    def action_pick(self, rows: int) -> None:
        self.query_one(KeyList).move(rows)

    def _find(self, query: str) -> None:
        self.query_one(KeyList).fill(self._base, query)

    def _say(self, text: Content) -> None:
        self.query_one("#problem", Static).update(inert(text))


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


@dataclass(frozen=True)
class _Planned:
    """The plan of a draft; without ``cost`` while that is still being estimated."""

    draft: Draft
    plan: AblationPlan
    cost: Cost | None = None


class GuideScreen(WithChoices, CockpitScreen):
    """A thread plans and estimates after every change; nothing is written before the start."""

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

    def __init__(self, root: Path, base: str, overrides: Sequence[str] = ()) -> None:
        super().__init__()
        self._root = root
        self._draft = Draft(base, tuple(overrides))
        self._config: Config | None = None
        self._run: Run | None = None
        self._plan: AblationPlan | None = None
        self._accepted: _Planned | None = None
        self._is_starting = False

    def compose(self) -> ComposeResult:
        yield Facts("Base", id="base")
        yield Choices("Arms", selects_first=True)
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
        from engine.config.steps import step_plan
        from engine.launch.rerun import config_of_source

        try:
            config, run = config_of_source(draft.base, draft.overrides, self._root)
        except UsageError as error:
            self.call_later(self._show_refusal, str(error))
            return
        steps = step_plan(config)
        self.call_later(self._show_base, config, run, steps.total if steps else None)

    def _show_base(self, config: Config, run: Run | None, steps: int | None) -> None:
        self._config, self._run = config, run
        if self._draft.steps is None:
            self._change(steps=steps)
        else:
            self._change()

    def _change(self, **changes: object) -> None:
        """Plan again with other choices."""
        self._draft = replace(self._draft, **changes)  # type: ignore[arg-type]
        self._plan = None
        self.refresh_bindings()
        self._show_draft()
        if self._config is not None:
            self._make_plan(self._draft, self._config)

    @work(thread=True, exclusive=True, group="plan", exit_on_error=False)
    def _make_plan(self, draft: Draft, base: Config) -> None:
        from engine.measure.ablations.cost import plan_cost
        from engine.measure.ablations.plan import make_plan

        if draft.steps is None:
            self.call_later(self._show_refusal, "the number of steps is unknown; press s to set it")
            return
        try:
            plan = make_plan(base, {}, draft.arms, draft.seeds, draft.steps)
            self.call_later(self._show_plan, _Planned(draft, plan))
            cost = plan_cost(plan, base, self._root, os.environ)
        except UsageError as error:
            self.call_later(self._show_refusal, str(error))
        else:
            self.call_later(self._show_plan, _Planned(draft, plan, cost))

    def _show_draft(self) -> None:
        """What was chosen, before the plan of it is known."""
        draft, config = self._draft, self._config
        about = (
            "reading ..." if config is None else f"{config.kind} on {config.get('grubrics.device')}"
        )
        facts: list[Fact] = [(draft.base, about)]
        if draft.overrides:
            facts.append(("overrides", " ".join(draft.overrides)))
        self.query_one("#base", Facts).show(facts)
        self._list_arms({name: " ".join(overrides) for name, overrides in draft.arms})
        self.query_one("#plan", Facts).show([("", "planning ...")])

    def _show_plan(self, planned: _Planned) -> None:
        if planned.draft != self._draft:
            return
        self._accepted, plan = planned, planned.plan
        self._plan = plan
        self.refresh_bindings()
        self._list_arms({arm.name: format_changes(arm) for arm in plan.arms[1:]})
        facts: list[Fact] = [("runs", format_plan_size(plan))]
        if planned.cost is None:
            facts.append(("cost", "estimating ..."))
        else:
            facts += [
                (label, text)
                for label, _, text in (line.partition(": ") for line in format_cost(planned.cost))
            ]
        if note := format_seeds(len(plan.seeds)):
            facts.append(("seeds", note))
        if len(plan.arms) == 1:
            facts.append(("next", "n varies a key, p takes a known ablation"))
        facts.append(("command", planned.draft.command()))
        self.query_one("#plan", Facts).show(facts)

    def _show_refusal(self, reason: str) -> None:
        """Say why, and return to the choices before, which made a plan."""
        self._is_starting = False
        if self._accepted is None:
            error = Content.styled(reason, "$error")
            self.query_one("#plan", Facts).show([("error", error)])
            return
        self.notify(reason, title="not possible", severity="error", markup=False)
        self._draft = self._accepted.draft
        self._show_plan(self._accepted)

    def _list_arms(self, changes: Mapping[str, str]) -> None:
        choices = self.choices
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
        plan, base = self._plan, self._config
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
    def _start(self, plan: AblationPlan, base: Config) -> None:
        from engine.measure.ablations.runner import start_runner, write_plan

        try:
            write_plan(plan, base, self._root)
            start_runner(plan.folder, self._root)
        except UsageError as error:
            self.call_later(self._show_refusal, str(error))
        else:
            self.post_message(OpenAblation(plan))

    def action_choose_base(self) -> None:
        def find() -> Iterator[tuple[str, str]]:
            return find_bases(self._root)

        def choose(base: str | None) -> None:
            if base is not None:
                self._config = self._accepted = None
                self._draft = Draft(base)
                self._show_draft()
                self._read_base(self._draft)

        self.app.push_screen(PickName("Choose the config or the run to vary", find), choose)

    def action_add_knob(self) -> None:
        from engine.measure.ablations.plan import knob_arms

        def add(knob: Knob | None) -> None:
            if knob is not None:
                self._add(dict(knob_arms({knob.key: knob.values})))

        if self._config is not None:
            self.app.push_screen(ChooseKnob(self._config), add)

    def action_add_preset(self) -> None:
        def add(name: str | None) -> None:
            if name is not None:
                self._add({name: PRESETS[name]})

        if self._config is None:
            return
        if presets := find_presets(self._config):
            self.app.push_screen(PickName("Choose an ablation of the reward", presets.items), add)
        else:
            title = self._config.kind.title
            self.notify(f"No known ablations for {title}. Press n to vary a key.", markup=False)

    def _add(self, arms: Mapping[str, tuple[str, ...]]) -> None:
        self._change(arms=tuple({**dict(self._draft.arms), **arms}.items()))

    def action_remove_arm(self) -> None:
        choices = self.choices
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


def _parse_steps(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise UsageError("type a whole number of at least 1")
    return int(text)


NEW = "new ablation"
_MOST_RUNS = 100


def find_ablations() -> Iterator[tuple[str, str]]:
    """``NEW``, then the ablations of this folder, the newest first."""
    from engine.measure.ablations.plan import list_plans

    yield NEW, "variants of a config, each with several seeds"
    for plan in list_plans():
        yield plan.id, _about(plan)


def find_bases(root: Path) -> Iterator[tuple[str, str]]:
    """Configs, then the newest runs of a folder that have one."""
    from engine.run.kinds import find_kind
    from engine.run.registry import list_runs

    yield from find_configs()
    varied = (info for info in list_runs(root) if find_kind(info.kind) is not None)
    for info in islice(varied, _MOST_RUNS):
        yield info.id, f"run of {info.config}, {info.state.word}"


def find_presets(base: Config) -> dict[str, str]:
    """The known ablations whose keys the base has, with their overrides."""
    return {
        name: " ".join(overrides)
        for name, overrides in PRESETS.items()
        if all(parse_override(text)[0] in base.values for text in overrides)
    }


def _about(plan: AblationPlan) -> str:
    """When it was planned, and its arms."""
    written = (plan.folder / "plan.json").stat().st_mtime
    arms = ", ".join(arm.name for arm in plan.arms)
    return f"{format_time(written)}  {len(plan.seeds)} seeds  {arms}"
