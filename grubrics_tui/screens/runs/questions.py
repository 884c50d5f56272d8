"""The questions before runs are resumed, archived or deleted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from engine.base.errors import UsageError
from engine.runs.rundir import RunDir
from engine.runs.state import RunState
from engine.supervise.housekeeping import Deletion, plan_deletion
from grubrics_tui.screens.dialogs.confirm import YES, Answer, Confirm, Question
from grubrics_tui.text.formats import memory

Removal = Literal["archive", "delete", "delete_all"]

ResumePoint = tuple[RunDir, int]
"""A run and the step of the checkpoint that it resumes from; 0: from the start."""


def removal_dialog(runs: Sequence[RunDir], root: Path) -> Confirm[Removal]:
    """Measure the files, and ask what to do with them.

    If one run must not be touched, none is, as on the command line.
    """
    title = f"Archive or delete {runs[0].id if len(runs) == 1 else f'{len(runs)} runs'}?"

    def prepare() -> Question[Removal]:
        deletions = [plan_deletion(run, root) for run in runs]
        text = "\n".join(_format_deletion(deletion) for deletion in deletions)
        return Question(title, text, _removal_answers(deletions))

    return Confirm(Question(title, "Measuring files ..."), prepare)


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


def _format_deletion(deletion: Deletion) -> str:
    checkpoints = deletion.checkpoints
    lines = [deletion.run.id, f"files        {memory(deletion.files_bytes)}"]
    if checkpoints.moved:
        lines += [
            "checkpoints  kept: a later run moved them to",
            f"             {checkpoints.moved}",
        ]
    elif checkpoints.bytes:
        lines.append(f"checkpoints  {memory(checkpoints.bytes)} in {checkpoints.folder}")
    if checkpoints.kept_because and not checkpoints.moved:
        lines.append(f"             kept: {checkpoints.kept_because}")
    return "\n".join(lines)


def _removal_answers(deletions: Sequence[Deletion]) -> list[Answer[Removal]]:
    count = len(deletions)
    runs = "run" if count == 1 else f"{count} runs"
    files = sum(deletion.files_bytes for deletion in deletions)
    # The question is opened with d: no answer is d, so that pressing it twice deletes nothing.
    answers: list[Answer[Removal]] = [
        Answer("a", f"archive the {runs}", "archive", "hides from the list, can be restored"),
        Answer(YES, "delete files", "delete", f"frees {memory(files)}, permanently"),
    ]
    if any(deletion.checkpoints.entries for deletion in deletions):
        total = memory(files + sum(deletion.checkpoints.freed for deletion in deletions))
        consequence = f"frees {total}, permanently"
        answers.append(Answer("c", "delete files and checkpoints", "delete_all", consequence))
    return answers
