"""The preflight checks: what would go wrong, and how to fix it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on, work
from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message
from textual.widgets.option_list import Option
from textual.worker import get_current_worker

from engine.base.errors import UsageError
from engine.base.quantities import MISSING, format_count
from grubrics_tui.drawing.looks import CHECK_LOOKS
from grubrics_tui.screens.base import HEIGHTS, CockpitScreen
from grubrics_tui.screens.dialogs.change_runs import confirm_prune, find_ended
from grubrics_tui.screens.dialogs.choices import Choices, PickName, WithChoices, find_configs
from grubrics_tui.screens.dialogs.confirm import YES, Answer, Confirm, Question
from grubrics_tui.screens.navigation import OpenGuide, ShowNotice
from grubrics_tui.screens.preflight.edit_launch import OverridesScreen
from grubrics_tui.settings.actions import bindings
from grubrics_tui.text.terminal_text import clean_text
from grubrics_tui.widgets.facts import Fact, Facts
from grubrics_tui.widgets.key_footer import KeyFooter

if TYPE_CHECKING:
    from engine.checks.check import Check
    from engine.checks.complete_change import CheckFix
    from engine.config.load import Config
    from engine.run.run import Run


_STATUS, _NAME = 8, 14


class CheckChoices(Choices):
    """Shows a line for every check from the start, so that nothing moves as results arrive."""

    DEFAULT_CSS = "CheckChoices { height: 1fr; min-height: 4; }"

    def __init__(self) -> None:
        super().__init__("Preflight checks", selects_first=True)
        self.checks: dict[str, Check] = {}
        self._ids: Sequence[str] = ()

    class Accepted(Message):
        """Enter was pressed while no check is highlighted."""

    def action_select(self) -> None:
        if self.highlighted is None:
            self.post_message(self.Accepted())
        else:
            super().action_select()

    def on_resize(self) -> None:
        """Keep the selected check visible when its details take more rows."""
        self.scroll_to_highlight()

    def start(self, ids: Sequence[str]) -> None:
        """Show these checks as pending."""
        self._ids, self.checks = ids, {}
        self.clear_options()
        self.add_options(
            Option(Content.styled(f"{'·':<{_STATUS}}{id:<{_NAME}}", "$quiet"), id=id) for id in ids
        )
        self.border_subtitle = self.summary

    def answer(self, check: Check) -> None:
        """Show the result of a check; select the first failure, which is what to fix first."""
        if check.id not in self._ids:
            return
        self.checks[check.id] = check
        index = self._ids.index(check.id)
        self.replace_option_prompt_at_index(index, _answered(check))
        if check.status == "fail" and self.failures == [check]:
            self.highlighted = index
        self.border_subtitle = self.summary

    @property
    def failures(self) -> list[Check]:
        return [check for check in self.checks.values() if check.status == "fail"]

    @property
    def warnings(self) -> list[Check]:
        return [check for check in self.checks.values() if check.status == "warn"]

    @property
    def unanswered(self) -> int:
        return len(self._ids) - len(self.checks)

    @property
    def selected(self) -> Check | None:
        if self.highlighted is None:
            return None
        return self.checks.get(self._ids[self.highlighted])

    @property
    def summary(self) -> str:
        """``9 ok, 1 warning, 0 failed``, and how many checks are pending."""
        count = dict.fromkeys(CHECK_LOOKS, 0)
        for check in self.checks.values():
            count[check.status] += 1
        warnings = format_count(count["warn"], "warning")
        counts = f"{count['ok']} ok, {warnings}, {count['fail']} failed"
        skipped = f", {count['skip']} skipped" if count["skip"] else ""
        pending = f", {self.unanswered} pending" if self.unanswered else ""
        return counts + skipped + pending


def _answered(check: Check) -> Content:
    glyph, ink = CHECK_LOOKS[check.status]
    message = " ".join(check.message.split())
    tone = "$quiet" if check.status == "skip" else "$foreground"
    return (
        Content.styled(f"{glyph} {check.status}".ljust(_STATUS), f"bold ${ink}")
        + Content.styled(check.id.ljust(_NAME), "$quiet")
        + Content.styled(message, tone)
    )


class PreflightScreen(WithChoices, CockpitScreen):
    """A thread runs the checks one by one; a failed check blocks the launch."""

    BINDINGS = bindings("preflight")
    AUTO_FOCUS = "CheckChoices"
    VERTICAL_BREAKPOINTS = HEIGHTS

    DEFAULT_CSS = """
    PreflightScreen {
        #run { margin: 0 1; }
        CheckChoices { margin: 0 1; }
        #detail { margin: 0 1; min-height: 4; max-height: 9; }
        &.-tall {
            CheckChoices { height: auto; }
            #detail { height: 1fr; max-height: 100%; }
        }
    }
    """

    def __init__(
        self, runs_root: Path, config: str, overrides: tuple[str, ...], *, edits: bool = False
    ) -> None:
        """``config`` may also be the ID of a run. ``edits`` opens the overrides at once, and the
        launch once the checks pass."""
        super().__init__()
        self._edits = edits
        self._opens_launch = False
        self.config: Config | None = None
        self._runs_root, self._config, self._overrides = runs_root, config, overrides
        self._refusal = ""

    def compose(self) -> ComposeResult:
        yield Facts("Run to launch", id="run", classes="beside")
        yield CheckChoices()
        yield Facts("Details", id="detail")
        yield KeyFooter()

    def on_mount(self) -> None:
        self._start()
        if self._edits:
            self.call_after_refresh(self.action_edit_overrides)

    def _start(self, tests: bool = False) -> None:
        self.config, self._refusal = None, ""
        if not self._config:
            self.query_one("#run", Facts).show([("config", "none selected; press o to choose one")])
            self.call_after_refresh(self.action_choose_config)
            return
        self.query_one("#run", Facts).show([("config", self._config), ("", "reading ...")])
        self.query_one(CheckChoices).start(())
        self._check(tests)

    @work(thread=True, exclusive=True, group="checks", exit_on_error=False)
    def _check(self, tests: bool) -> None:
        # Imported here: pydantic, OmegaConf and Arrow would delay the first paint.
        from engine.checks.preflight import ITEMS, run_checks
        from engine.launch.plan_launch import config_for_launch, plan_launch

        worker = get_current_worker()
        try:
            config, again = config_for_launch(self._config, self._overrides, self._runs_root)
            planned = plan_launch(config, self._runs_root, again=again).config if again else config
        except UsageError as error:
            self.call_later(self.show_refusal, str(error))
            return
        self.call_later(self.show_config, config, again, [*(item.id for item in ITEMS), "tests"])
        for check in run_checks(planned, tests=tests, runs=self._runs_root):
            if worker.is_cancelled:
                return
            self.call_later(self.show_answer, check)

    def show_config(self, config: Config, again: Run | None, ids: Sequence[str]) -> None:
        self.config = config
        self.query_one("#run", Facts).show(config_facts(config, again))
        self.query_one(CheckChoices).start(ids)
        self._show_detail()

    def show_refusal(self, reason: str) -> None:
        self._refusal = reason
        self.query_one("#run", Facts).show(
            [("config", self._config), ("overrides", " ".join(self._overrides) or "none")]
        )
        self._show_detail()

    def show_answer(self, answer: Check) -> None:
        checks = self.query_one(CheckChoices)
        checks.answer(answer)
        self._show_detail()
        if self._opens_launch and not checks.unanswered:
            self._opens_launch = False
            # The launch screen shows what else runs on the machine.
            to_read = [check for check in checks.warnings if check.id != "machine"]
            if self.is_current and self._obstacle() is None and not to_read:
                self._open_launch()

    @on(CheckChoices.OptionHighlighted)
    def _show_detail(self) -> None:
        detail, selected = self.query_one("#detail", Facts), self.query_one(CheckChoices).selected
        if self._refusal:
            refusal = Content.styled(self._refusal, "$error")
            detail.show(
                [("error", refusal), ("fix", "press o to choose a config, v to edit the overrides")]
            )
        elif selected is not None:
            detail.show(check_facts(selected, self._fix is not None))
        elif self._obstacle() is None:
            detail.show(_ready_facts(self.query_one(CheckChoices).warnings, self._fix is not None))
        else:
            detail.show([("", "Select a check to see its message and fix")])
        self.refresh_bindings()

    @on(CheckChoices.Accepted)
    @on(CheckChoices.OptionSelected)
    def action_launch(self) -> None:
        obstacle = self._obstacle()
        if obstacle is not None:
            self.notify(obstacle, title="not launched", severity="error", markup=False)
            return
        self._open_launch()

    def _open_launch(self, *, queue: bool = False) -> None:
        from engine.launch.plan_launch import Order
        from grubrics_tui.screens.preflight.launch import LaunchScreen

        def check_again(overrides: tuple[str, ...]) -> None:
            self._choose(self._config, overrides)

        order = Order(queue=queue)
        warnings = self.query_one(CheckChoices).warnings
        self.app.push_screen(
            LaunchScreen(
                self._config, self._overrides, self._runs_root, order, check_again, warnings
            )
        )

    def _obstacle(self) -> str | None:
        """Why the run cannot be launched now, or None."""
        checks = self.query_one(CheckChoices)
        if not self._config:
            return "No config selected. Press o to choose one."
        if self.config is None:
            return self._refusal or "The config is still being read."
        if checks.failures:
            first = checks.failures[0]
            return f"{first.id} failed: {first.message}"
        if checks.unanswered:
            return f"{checks.unanswered} checks are still running."
        return None

    @property
    def _shown_check(self) -> Check | None:
        """The check in the details: the selected one, else the first warning."""
        checks = self.query_one(CheckChoices)
        if checks.selected is not None or self._obstacle() is not None:
            return checks.selected
        return next(iter(checks.warnings), None)

    @property
    def _fix(self) -> CheckFix | None:
        """What of the shown fix one key can apply."""
        if self.config is None or (check := self._shown_check) is None or not check.fix:
            return None
        from engine.checks.complete_change import parse_fix

        return parse_fix(check.fix, self.config)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "apply_fix" or (bool(self.query(CheckChoices)) and self._fix is not None)

    def action_apply_fix(self) -> None:
        """Change the values, open the launch screen, or ask before a command runs."""
        fix, config = self._fix, self.config
        if fix is None or config is None:
            return
        if fix.overrides:
            self._choose(self._config, replace_overrides(config.overrides, fix.overrides))
        if fix.queues:
            self._open_launch(queue=True)
        elif fix.prunes:
            root = self._runs_root
            check = partial(self.call_later, self._start)
            confirm_prune(self, lambda: find_ended(root), root, check)
        elif fix.command:
            self._ask_to_run(fix)

    def _ask_to_run(self, fix: CheckFix) -> None:
        def run(is_confirmed: bool | None) -> None:
            if is_confirmed:
                self.notify(f"Running {fix.command} ...", markup=False)
                self._run_fix(fix)

        answer = Answer(YES, "run it", True, "then check again")
        question = Question("Run this command?", f"{fix.command}\n\nin {Path.cwd()}", [answer])
        self.app.push_screen(Confirm(question), run)

    @work(thread=True, group="fix", exit_on_error=False)
    def _run_fix(self, fix: CheckFix) -> None:
        """Run the command of a fix; its last line says what it did, or what is wrong."""
        variables = {"GRUBRICS_RUNS": str(self._runs_root), **fix.variables()}
        ended = subprocess.run(
            fix.argv(),
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        has_failed = ended.returncode != 0
        output = (ended.stderr if has_failed else ended.stdout).decode(errors="replace")
        last = next(reversed(clean_text(output).strip().splitlines()), "")
        self.app.post_message(ShowNotice(last or fix.command, failed=has_failed))
        self.call_later(self._start)

    def action_ablate(self) -> None:
        self.post_message(OpenGuide(self._config, self._overrides))

    def action_recheck(self) -> None:
        self._start()

    def action_run_tests(self) -> None:
        self._start(tests=True)

    def action_choose_config(self) -> None:
        def choose(name: str | None) -> None:
            if name is not None:
                self._choose(name, self._overrides)

        self.app.push_screen(PickName("Choose a config", find_configs, self._config), choose)

    def action_edit_overrides(self) -> None:
        def choose(overrides: tuple[str, ...] | None) -> None:
            is_first, self._edits = self._edits, False
            if overrides is not None:
                self._opens_launch = is_first
                self._choose(self._config, overrides)

        self.app.push_screen(
            OverridesScreen(self._config, self._overrides, self._runs_root), choose
        )

    def _choose(self, config: str, overrides: tuple[str, ...]) -> None:
        """Check another config or other overrides."""
        self._config, self._overrides = config, overrides
        self.post_message(self.Chosen(config, overrides))
        self._start()

    @dataclass
    class Chosen(Message):
        """The user chose another config or other overrides; the app remembers them."""

        config: str
        overrides: tuple[str, ...]

    def action_back(self) -> None:
        """Return to the home screen, if the checks were opened from there."""
        if len(self.app.screen_stack) > 2:
            self.app.pop_screen()


def config_facts(config: Config, again: Run | None = None) -> list[Fact]:
    """What will be trained, with which judge and overrides. ``again``: the run that it is of."""
    from engine.base.judge_providers import asks_server
    from engine.config.scoring import asks_judge, scorer

    model = config.get(config.kind.model_key)
    source = "" if again is None else f"   as run {again.id} was launched"
    facts: list[Fact] = [
        (
            "config",
            Content.assemble(
                (config.name, "bold"),
                f"   {config.kind} on {config.get('grubrics.device')}{source}",
            ),
        ),
        ("about", str(config.get("grubrics.description") or MISSING)),
        ("model", str(model)),
    ]
    if config.kind.has_rollouts and not asks_judge(config):
        facts.append(("reward", scorer(config)))
    elif config.kind.has_rollouts:
        judge = str(config.get("judge.provider"))
        if asks_server(judge):
            judge += f", {config.get('judge.model')}"
        facts.append(("judge", f"{judge}, concurrency {config.get('judge.max_concurrent')}"))
    changes = ", ".join(f"{c.key}={c.after} ({c.origin})" for c in config.changes)
    facts.append(("overrides", changes or "none"))
    return facts


def replace_overrides(overrides: Sequence[str], fixes: Sequence[str]) -> tuple[str, ...]:
    """The overrides, with those of the same keys replaced."""
    keys = {fix.partition("=")[0] for fix in fixes}
    kept = (override for override in overrides if override.partition("=")[0] not in keys)
    return (*kept, *fixes)


def _ready_facts(warnings: Sequence[Check], can_fix: bool) -> list[Fact]:
    """How to continue, and the first warning in full."""
    if not warnings:
        return [("", "All checks passed. Press l to review the launch.")]
    count = "1 warning" if len(warnings) == 1 else f"{len(warnings)} warnings"
    return [("", f"{count}. Press l to launch anyway."), *check_facts(warnings[0], can_fix)]


def check_facts(check: Check, can_fix: bool) -> list[Fact]:
    """The message and the fix; ``can_fix``: whether one key applies it."""
    if not check.fix:
        return [(check.id, check.message)]
    fix = Content.styled(check.fix, "bold $primary")
    if can_fix:
        fix += Content.styled("   press f to apply", "$quiet")
    return [(check.id, check.message), ("fix", fix)]
