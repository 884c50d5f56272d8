"""Ask whether a run shall be launched with a fix, reproduced at small scale, or, if it executes a
command, launched again; and launch it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.screen import Screen

from engine.base.errors import UsageError
from engine.base.text import format_command
from engine.findings.finding import Finding, Remedy
from engine.runs.rundir import RunDir
from engine.runs.state import observed_state
from grubrics_tui.drawing.changes import format_change, format_rerun
from grubrics_tui.screens.dialogs.confirm import YES, Answer, Confirm, Question
from grubrics_tui.screens.dialogs.trust import when_trusted
from grubrics_tui.screens.navigation import OpenRun, ShowNotice
from grubrics_tui.text.terminal_text import clean_text

if TYPE_CHECKING:
    from engine.launch.command import CommandPlan
    from engine.launch.rerun import Rerun

_KEYS = "123456789abcdefghilmoprstuvwxz"
"""Keys of fix 1, 2, ...: no key that cancels or scrolls the question, and not the one for yes."""


def confirm_fix(screen: Screen[None], run: RunDir, remedies: Mapping[int, Remedy]) -> None:
    """Launch the run with one of the fixes, by number, if the user chooses one; then show it."""

    def answered(answer: tuple[int, Rerun] | None) -> None:
        if answer is not None:
            from engine.launch.rerun import launch_rerun

            number, rerun = answer
            screen.notify(f"Launching {run.id} with fix {number} ...", markup=False)
            _launch(screen, partial(launch_rerun, rerun), f"Launched {{}}: {run.id} with a fix")

    def ask() -> None:
        screen.app.push_screen(remedy_dialog(run, remedies), answered)

    when_trusted(screen, [run], ask, executes=True)


def confirm_reproduction(screen: Screen[None], run: RunDir, findings: Sequence[Finding]) -> None:
    """Reproduce the run at small scale if the user confirms it; then show the small run."""

    def answered(is_confirmed: bool | None) -> None:
        if is_confirmed:
            from engine.launch.repro import launch_repro, plan_repro

            screen.notify(f"Reproducing {run.id} at small scale ...", markup=False)
            _launch(screen, lambda: launch_repro(plan_repro(run)))

    def ask() -> None:
        screen.app.push_screen(reproduce_dialog(run, findings), answered)

    when_trusted(screen, [run], ask, executes=True)


def confirm_command_again(screen: Screen[Any], run: RunDir) -> None:
    """Run the command of the run once more if the user confirms it; then show the new run."""

    def answered(plan: CommandPlan | None) -> None:
        if plan is not None:
            from engine.launch.command import launch_command

            _launch(screen, partial(launch_command, plan))

    def ask() -> None:
        title = f"Run {run.id} again?"
        waiting: Question[CommandPlan] = Question(title, "Reading its command ...")
        dialog = Confirm(waiting, lambda: _command_question(title, run))
        screen.app.push_screen(dialog, answered)

    when_trusted(screen, [run], ask, executes=True)


def _command_question(title: str, run: RunDir) -> Question[CommandPlan]:
    """The command, its folder and the name of the new run; or why it cannot be run again."""
    from engine.launch.command import plan_command_again

    try:
        plan = plan_command_again(run, run.path.parent)
    except UsageError as error:
        return Question(title, clean_text(str(error)))
    text = f"{format_command(plan.shown_argv)}\n\nin {plan.cwd}, as {plan.directory.name}"
    return Question(title, clean_text(text), [Answer(YES, "run it", plan, "in the background")])


def _launch(screen: Screen[None], launch: Callable[[], RunDir], notice: str = "") -> None:
    """Launch a run in a thread and open it with the notice, or say why it was not launched."""

    def work() -> None:
        try:
            run = launch()
        except (UsageError, OSError) as error:
            screen.app.post_message(ShowNotice(str(error), failed=True))
            return
        if notice:
            screen.app.post_message(ShowNotice(notice.format(run.id)))
        screen.post_message(OpenRun(run))

    screen.run_worker(work, thread=True, group="changes", exit_on_error=False)


def remedy_dialog(run: RunDir, remedies: Mapping[int, Remedy]) -> Confirm[tuple[int, Rerun]]:
    """Show each fix with everything it changes; returns the chosen number and its checked plan.

    The numbers are those on the list of all findings. Yes chooses the first applicable fix. What a
    fix changes is computed and checked in a thread; a fix that is invalid or fails a preflight
    check is shown with the reason and cannot be chosen.
    """
    title = f"Apply a fix to {run.id}?"
    listed = {number: remedy for number, remedy in remedies.items() if number <= len(_KEYS)}
    waiting: Question[tuple[int, Rerun]] = Question(title, "Computing and checking the changes ...")
    return Confirm(waiting, lambda: _remedy_question(title, run, listed))


def _remedy_question(
    title: str, run: RunDir, remedies: Mapping[int, Remedy]
) -> Question[tuple[int, Rerun]]:
    from engine.launch.rerun import check_rerun

    lines = [f"Launches a new run with these overrides; {run.id} is not changed."]
    if not observed_state(run).has_ended:
        lines = [
            "Launches a new run with these overrides.",
            f"{run.id} will be stopped; the new run is queued until then.",
        ]
    answers: list[Answer[tuple[int, Rerun]]] = []
    for number, remedy in remedies.items():
        lines += ["", f"{number}  {clean_text(remedy.title)}"]
        try:
            child = check_rerun(run, remedy.changes)
        except (UsageError, OSError) as error:
            lines.append(f"   not applicable: {clean_text(str(error))}")
            continue
        lines += [f"   {format_change(change)}" for change in child.changes]
        lines += [f"   {line}" for line in format_rerun(child)]
        label = f"apply fix {number}{' again' if child.before else ''}"
        also = "" if answers else YES
        key, effect = _KEYS[number - 1], clean_text(remedy.effect)
        answers.append(Answer(key, label, (number, child), effect, also))
    return Question(title, "\n".join(lines), answers)


def reproduce_dialog(run: RunDir, findings: Sequence[Finding] = ()) -> Confirm[bool]:
    """Show what a small-scale reproduction reduces; ``findings`` are those of the run."""
    title = f"Reproduce {run.id} at small scale?"
    waiting: Question[bool] = Question(title, "Planning the small run ...")
    return Confirm(waiting, lambda: _reproduce_question(title, run, findings))


def _reproduce_question(title: str, run: RunDir, findings: Sequence[Finding]) -> Question[bool]:
    from engine.launch.lineage import must_fail
    from engine.launch.repro import plan_repro

    try:
        repro = plan_repro(run)
    except UsageError as error:
        return Question(title, f"{run.id} cannot be reproduced at small scale: {error}")
    rows = "the run's own rows" if repro.rows is None else f"the rows of step {repro.rows.step}"
    lines = [f"Launches a small run on {rows} with the same seed, reward and judge."]
    consequence = "a failure points to infrastructure"
    if repro.left_out:
        lines += ["", clean_text(f"Left out: {repro.left_out}")]
    if repro.edited:
        lines += ["", clean_text(repro.edited)]
    if causes := repro.causes(findings):
        lines += ["", clean_text(must_fail(causes)), "Apply its fix instead (a)."]
        consequence = "it will fail regardless of infrastructure"
    lines += ["", "Reduced:", *(f"  {format_change(change)}" for change in repro.reduced)]
    answer = Answer(YES, "launch the small run", True, consequence)
    return Question(title, "\n".join(lines), (answer,))
