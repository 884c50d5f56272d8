"""Ask whether runs shall be stopped, and ask their supervisors to do so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from textual.screen import Screen

from engine.base.errors import UsageError
from engine.runs.columns import format_step
from engine.runs.events import ask_stop
from engine.runs.rundir import RunDir
from engine.runs.state import RunState
from engine.supervise.adopted import find_running, require_process
from engine.supervise.queue import line_up
from grubrics_tui.screens.dialogs.confirm import YES, Answer, Confirm, Question
from grubrics_tui.screens.dialogs.trust import when_trusted


def confirm_stop(screen: Screen[None], runs: Sequence[tuple[RunDir, RunState]]) -> None:
    """Stop the runs if the user confirms it; say why one of them cannot be stopped."""
    try:
        for run, _ in runs:
            require_process(run)
    except UsageError as error:
        screen.notify(str(error), severity="error", markup=False)
        return

    def stop(after_checkpoint: bool | None) -> None:
        if after_checkpoint is None:
            return
        for run, _ in runs:
            ask_stop(run, after_checkpoint=after_checkpoint)
        names = ", ".join(run.id for run, _ in runs)
        moment = "after the next checkpoint" if after_checkpoint else "now"
        screen.notify(f"Stop requested: {names}, {moment}.", markup=False)

    def ask() -> None:
        question = stop_question(runs)
        dialog = Confirm(question, lambda: with_waiting_runs(question, [run for run, _ in runs]))
        screen.app.push_screen(dialog, stop)

    when_trusted(screen, [run for run, _ in runs], ask)


def stop_question(runs: Sequence[tuple[RunDir, RunState]]) -> Question[bool]:
    """The question; its answer says whether to stop after the next checkpoint.

    It can only be stopped now if its checkpoints are not known, as those of a command, and if it is
    stalled, because it may never save another one.
    """
    title = f"Stop {runs[0][0].id if len(runs) == 1 else f'{len(runs)} runs'}?"
    is_stalled = any(state.state == "stalled" for _, state in runs)
    are_commands = [run.is_command for run, _ in runs]
    if all(are_commands):
        loss = "ends all of its processes" if len(runs) == 1 else "ends all of their processes"
    else:
        loss = "loses the steps after the last checkpoint"
    answers = (
        Answer(YES, "stop now", False, loss),
        Answer("a", "stop after the next checkpoint", True, "loses no steps"),
    )[: 1 if is_stalled or any(are_commands) else 2]
    return Question(title, "\n".join(_format_run(run, state) for run, state in runs), answers)


def with_waiting_runs(question: Question[bool], runs: Sequence[RunDir]) -> Question[bool]:
    """Add the queued runs that wait for one of these to finish, also by way of another one: a stop
    makes them fail."""
    after = {queued.id: queued.ticket.after for queued in line_up(runs[0].path.parent).runs}
    failed = {run.id for run in runs}
    while found := {name for name, first in after.items() if first in failed} - failed:
        failed |= found
    lost = sorted(failed - {run.id for run in runs})
    if not lost:
        return question
    verb = "waits for it to finish, and fails" if len(lost) == 1 else "wait for it, and fail"
    return replace(question, text=f"{question.text}\n\n{', '.join(lost)} {verb} if it is stopped.")


def _format_run(run: RunDir, state: RunState) -> str:
    step = format_step(state.step, state.total_steps)
    text = f"{run.id} is {state.state}, {step if state.total_steps == 0 else f'step {step}'}."
    running = find_running(run)
    return f"{text} This ends {running}, launched elsewhere." if running else text
