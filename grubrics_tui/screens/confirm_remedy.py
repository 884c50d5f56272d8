"""The question before a changed run is launched as the child of a sick one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual import on, work
from textual.message import Message

from engine.doctor.finding import Change, Remedy
from engine.errors import UsageError
from engine.runs.rundir import RunDir
from engine.runs.state import observed_state
from grubrics_tui.changes import told
from grubrics_tui.screens.confirm import Answer, Confirm
from grubrics_tui.terminal_text import clean_text

_KEYS = "123456789abcdefghilmoprstuvwxyz"
"""Of the first number, the second, ...; without those that leave or scroll the question."""


class ConfirmRemedy(Confirm):
    """Shows each remedy with everything it moves; answers with the number of the chosen one, which
    it has on the whole list of findings.

    What a change touches is worked out in a thread; remedies without a valid whole are told and
    cannot be chosen.
    """

    class Completed(Message):
        """What each remedy comes to: its changes, or why there is no valid whole."""

        def __init__(self, wholes: Sequence[tuple[Change, ...] | str], *, ended: bool) -> None:
            super().__init__()
            self.wholes, self.ended = wholes, ended

    def __init__(self, run: RunDir, remedies: Mapping[int, Remedy]) -> None:
        text = "Working out what the change touches ..."
        super().__init__("apply the remedy?", text, (), "leave the run as it is")
        self._run = run
        self._remedies = {n: one for n, one in remedies.items() if n <= len(_KEYS)}

    def answer(self, key: str) -> str:
        return str(_KEYS.index(key) + 1)

    def on_mount(self) -> None:
        self._complete()

    @work(thread=True, exit_on_error=False)
    def _complete(self) -> None:
        from engine.launch.child import completed

        wholes: list[tuple[Change, ...] | str] = []
        for remedy in self._remedies.values():
            try:
                wholes.append(completed(self._run, remedy.changes))
            except (UsageError, OSError) as error:
                wholes.append(str(error))
        self.post_message(self.Completed(wholes, ended=observed_state(self._run).has_ended))

    @on(Completed)
    def _offer(self, message: Completed) -> None:
        lines = [f"A new run is launched beside {self._run.id}, with these changes."]
        if not message.ended:
            lines += [f"{self._run.id} is asked to stop, and the new run waits for its place."]
        answers = []
        for (number, remedy), whole in zip(self._remedies.items(), message.wholes, strict=True):
            lines += ["", f"{number}  {clean_text(remedy.title)}"]
            if isinstance(whole, str):
                lines.append(f"   cannot be applied: {clean_text(whole)}")
                continue
            lines += [f"   {told(change)}" for change in whole]
            answers.append(
                Answer(_KEYS[number - 1], f"launch with {number}", clean_text(remedy.effect))
            )
        self.ask("\n".join(lines), answers)
