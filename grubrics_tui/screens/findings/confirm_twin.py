"""The question before the small twin of a run is launched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual import on, work
from textual.message import Message

from engine.base.errors import UsageError
from engine.findings.finding import Change, Finding
from engine.runs.rundir import RunDir
from grubrics_tui.drawing.changes import told
from grubrics_tui.screens.dialogs.confirm import Answer, Confirm
from grubrics_tui.text.terminal_text import clean_text


class ConfirmTwin(Confirm):
    """Plans the twin in a thread and shows what is made small; answers with ``y``."""

    class Planned(Message):
        def __init__(
            self,
            shrunk: tuple[Change, ...],
            rows: str,
            causes: Mapping[str, object],
            edited: str | None,
        ) -> None:
            super().__init__()
            self.shrunk, self.rows, self.causes, self.edited = shrunk, rows, causes, edited

    class Refused(Message):
        def __init__(self, reason: str) -> None:
            super().__init__()
            self.reason = reason

    def __init__(self, run: RunDir, findings: Sequence[Finding] = ()) -> None:
        """``findings`` are those of the run."""
        super().__init__("reproduce it small?", "Planning the twin ...", (), "leave it")
        self._run, self._findings = run, findings

    def on_mount(self) -> None:
        self._plan()

    @work(thread=True, exit_on_error=False)
    def _plan(self) -> None:
        from engine.launch.twin import twin_of

        try:
            twin = twin_of(self._run)
        except (UsageError, OSError) as error:
            self.post_message(self.Refused(str(error)))
            return
        rows = "the run's own rows" if twin.rows is None else f"the rows of step {twin.rows.step}"
        causes = twin.causes(self._findings)
        self.post_message(self.Planned(twin.shrunk, rows, causes, twin.edited))

    @on(Planned)
    def _ask(self, message: Planned) -> None:
        from engine.launch.twin_verdict import must_fail

        head = f"A small twin of {self._run.id} trains on {message.rows}, with the same seed,"
        lines = [f"{head} reward and judge."]
        consequence = "if it fails too, the cause is infrastructure"
        if message.edited:
            lines += ["", clean_text(message.edited)]
        if message.causes:
            lines += ["", clean_text(must_fail(message.causes)), "Its remedy (a) is the cure."]
            consequence = "it will fail, whatever the infrastructure"
        lines += ["", "Made small:", *(f"  {told(change)}" for change in message.shrunk)]
        self.ask("\n".join(lines), [Answer("y", "launch the twin", consequence)])

    @on(Refused)
    def _refuse(self, message: Refused) -> None:
        self.ask(f"There is no twin of it: {message.reason}", ())
