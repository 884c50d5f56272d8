"""The question before a run is archived or deleted, with what that frees."""

from __future__ import annotations

from pathlib import Path

from textual import on, work
from textual.message import Message

from engine.errors import UsageError
from engine.runs.housekeeping import Deletion, plan_deletion
from engine.runs.rundir import RunDir
from grubrics_tui.formats import memory
from grubrics_tui.screens.confirm import Answer, Confirm

# Not "d", which opens the question: a key pressed twice deletes nothing.
ARCHIVE, DELETE, DELETE_ALL = "a", "y", "c"


class ConfirmRemoval(Confirm):
    """Measures first; answers with ``ARCHIVE``, ``DELETE`` or ``DELETE_ALL``."""

    class Measured(Message):
        def __init__(self, deletion: Deletion) -> None:
            super().__init__()
            self.deletion = deletion

    class Refused(Message):
        def __init__(self, reason: str) -> None:
            super().__init__()
            self.reason = reason

    def __init__(self, run: RunDir, root: Path) -> None:
        super().__init__("archive or delete?", "Measuring its files ...", (), "leave it")
        self._run, self._root = run, root

    def on_mount(self) -> None:
        self._measure()

    @work(thread=True, exit_on_error=False)
    def _measure(self) -> None:
        try:
            self.post_message(self.Measured(plan_deletion(self._run, self._root)))
        except (UsageError, OSError) as error:
            self.post_message(self.Refused(str(error)))

    @on(Measured)
    def _ask(self, message: Measured) -> None:
        self.ask(_text(message.deletion), _answers(message.deletion))

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


def _answers(deletion: Deletion) -> list[Answer]:
    own = deletion.checkpoints
    files = memory(deletion.files_bytes)
    answers = [
        Answer(ARCHIVE, "archive it", "out of the list, kept in .archive"),
        Answer(DELETE, "delete its files", f"frees {files}, for good"),
    ]
    if own.entries:
        both = memory(deletion.files_bytes + own.freed)
        answers.append(Answer(DELETE_ALL, "delete its checkpoints too", f"frees {both}, for good"))
    return answers
