"""The question before runs are archived or deleted, with what that frees."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from textual import on, work
from textual.message import Message

from engine.base.errors import UsageError
from engine.runs.rundir import RunDir
from engine.supervise.housekeeping import Deletion, plan_deletion
from grubrics_tui.screens.dialogs.confirm import Answer, Confirm
from grubrics_tui.text.formats import memory

# Not "d", which opens the question: a key pressed twice deletes nothing.
ARCHIVE, DELETE, DELETE_ALL = "a", "y", "c"


class ConfirmRemoval(Confirm):
    """Measures first; answers with ``ARCHIVE``, ``DELETE`` or ``DELETE_ALL``.

    One run that must not be touched keeps all of them, as on the command line.
    """

    class Measured(Message):
        def __init__(self, deletions: Sequence[Deletion]) -> None:
            super().__init__()
            self.deletions = deletions

    class Refused(Message):
        def __init__(self, reason: str) -> None:
            super().__init__()
            self.reason = reason

    def __init__(self, runs: Sequence[RunDir], root: Path) -> None:
        title = "archive or delete?" if len(runs) == 1 else f"archive or delete {len(runs)} runs?"
        super().__init__(title, "Measuring their files ...", (), "change nothing")
        self._runs, self._root = runs, root

    def on_mount(self) -> None:
        self._measure()

    @work(thread=True, exit_on_error=False)
    def _measure(self) -> None:
        try:
            self.post_message(self.Measured([plan_deletion(run, self._root) for run in self._runs]))
        except (UsageError, OSError) as error:
            self.post_message(self.Refused(str(error)))

    @on(Measured)
    def _ask(self, message: Measured) -> None:
        text = "\n".join(_text(deletion) for deletion in message.deletions)
        self.ask(text, _answers(message.deletions))

    @on(Refused)
    def _refuse(self, message: Refused) -> None:
        self.ask(message.reason, ())


def _text(deletion: Deletion) -> str:
    own = deletion.checkpoints
    lines = [deletion.run.id, f"files        {memory(deletion.files_bytes)}"]
    if own.moved:
        lines += ["checkpoints  stay: a later run moved them to", f"             {own.moved}"]
    elif own.bytes:
        lines.append(f"checkpoints  {memory(own.bytes)} in {own.folder}")
    if own.kept_because and not own.moved:
        lines.append(f"             stay: {own.kept_because}")
    return "\n".join(lines)


def _answers(deletions: Sequence[Deletion]) -> list[Answer]:
    what, their = ("it", "its") if len(deletions) == 1 else (f"all {len(deletions)}", "their")
    files = sum(deletion.files_bytes for deletion in deletions)
    answers = [
        Answer(ARCHIVE, f"archive {what}", "out of the list, kept in .archive"),
        Answer(DELETE, f"delete {their} files", f"frees {memory(files)}, for good"),
    ]
    if any(deletion.checkpoints.entries for deletion in deletions):
        both = memory(files + sum(deletion.checkpoints.freed for deletion in deletions))
        consequence = f"frees {both}, for good"
        answers.append(Answer(DELETE_ALL, f"delete {their} checkpoints too", consequence))
    return answers
