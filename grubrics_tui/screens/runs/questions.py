"""The question before runs are archived or deleted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from engine.runs.rundir import RunDir
from engine.supervise.housekeeping import Deletion, plan_deletion
from grubrics_tui.screens.dialogs.confirm import YES, Answer, Confirm, Question
from grubrics_tui.text.formats import memory

Removal = Literal["archive", "delete", "delete_all"]


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
