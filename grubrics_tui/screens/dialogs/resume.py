"""Ask whether runs shall be resumed, and resume them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from textual.screen import Screen

from engine.base.errors import UsageError
from engine.runs.rundir import RunDir
from engine.runs.state import RunState
from grubrics_tui.screens.dialogs.confirm import YES, Answer, Confirm, Question
from grubrics_tui.screens.dialogs.trust import when_trusted
from grubrics_tui.screens.navigation import OpenRun, ShowNotice

ResumePoint = tuple[RunDir, int]
"""A run and the step of the checkpoint that it resumes from; 0: from the start."""


def confirm_resume(
    screen: Screen[None],
    runs: Sequence[tuple[RunDir, RunState]],
    done: Callable[[], None] = lambda: None,
) -> None:
    """Resume the runs if the user confirms it; a single one is then shown.

    ``done`` is called in a thread when all are resumed.
    """

    def answered(points: Sequence[ResumePoint] | None) -> None:
        if points is None:
            return
        names = ", ".join(f"{run.id} from step {step}" for run, step in points)
        screen.notify(f"Resuming {names} ...", markup=False)
        work = partial(_resume, screen, points, done)
        screen.run_worker(work, thread=True, group="changes", exit_on_error=False)

    def ask() -> None:
        screen.app.push_screen(resume_dialog(runs), answered)

    when_trusted(screen, [run for run, _ in runs], ask, executes=True)


def _resume(screen: Screen[None], points: Sequence[ResumePoint], done: Callable[[], None]) -> None:
    from engine.launch.resume import resume

    for run, step in points:
        try:
            warnings = resume(run, step or None).warnings
        except (UsageError, OSError) as error:
            screen.app.post_message(ShowNotice(str(error), failed=True))
            continue
        if warnings:
            screen.app.post_message(ShowNotice("\n".join(warnings)))
        if len(points) == 1:
            screen.post_message(OpenRun(run))
    done()


def resume_dialog(runs: Sequence[tuple[RunDir, RunState]]) -> Confirm[Sequence[ResumePoint]]:
    """Find the checkpoints, and ask whether to resume from them.

    If one run cannot be resumed, none is.
    """
    title = f"Resume {runs[0][0].id if len(runs) == 1 else f'{len(runs)} runs'}?"
    waiting: Question[Sequence[ResumePoint]] = Question(title, "Finding the last checkpoint ...")
    return Confirm(waiting, lambda: _resume_question(title, runs))


def _resume_question(
    title: str, runs: Sequence[tuple[RunDir, RunState]]
) -> Question[Sequence[ResumePoint]]:
    from engine.launch.resume import resume_step

    points: list[ResumePoint] = []
    lines, repeated = [], 0
    for run, state in runs:
        try:
            step = resume_step(run)
        except (UsageError, OSError) as error:
            return Question(title, f"{run.id} cannot be resumed: {error}")
        points.append((run, step))
        end = "" if state.total_steps is None else f" of {state.total_steps}"
        start = f"from the checkpoint at step {step}{end}" if step else "from the start"
        lines.append(f"{run.id} resumes {start}, as attempt {state.attempt + 1} of the same run.")
        repeated += max(0, (state.step or 0) - step)
    if len(runs) > 1:
        lines.append("They start at the same time and share the GPUs and the memory.")
    cost = f"repeats {repeated} logged step{'' if repeated == 1 else 's'}" if repeated else ""
    return Question(title, "\n".join(lines), [Answer(YES, "resume", points, cost)])
