"""The question before a changed run is launched as the child of a sick one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from textual import on, work
from textual.message import Message

from engine.base.errors import UsageError
from engine.findings.finding import Remedy
from engine.runs.rundir import RunDir
from engine.runs.state import observed_state
from grubrics_tui.drawing.changes import child_lines, told
from grubrics_tui.screens.dialogs.confirm import YES, Answer, Confirm
from grubrics_tui.text.terminal_text import clean_text

if TYPE_CHECKING:
    from engine.launch.child import Child

_KEYS = "123456789abcdefghilmoprstuvwxz"
"""Of the first number, the second, ...; without those that leave or scroll the question, and
without the one that says yes."""


class ConfirmRemedy(Confirm):
    """Shows each remedy with everything it moves; answers with the number of the chosen one, which
    it has on the whole list of findings. Yes is the first that can be applied.

    What a change touches is worked out and checked in a thread; remedies without a valid whole, or
    that the checklist refuses, are told and cannot be chosen.
    """

    class Completed(Message):
        """What each remedy comes to, or why it cannot be launched."""

        def __init__(self, children: Sequence[Child | str], *, ended: bool) -> None:
            super().__init__()
            self.children, self.ended = children, ended

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
        from engine.launch.child import checked_child

        children: list[Child | str] = []
        for remedy in self._remedies.values():
            try:
                children.append(checked_child(self._run, remedy.changes))
            except (UsageError, OSError) as error:
                children.append(str(error))
        self.post_message(self.Completed(children, ended=observed_state(self._run).has_ended))

    @on(Completed)
    def _offer(self, message: Completed) -> None:
        lines = [f"A new run is launched beside {self._run.id}, with these changes."]
        if not message.ended:
            lines += [f"{self._run.id} is asked to stop, and the new run waits for its place."]
        answers: list[Answer] = []
        for (number, remedy), child in zip(self._remedies.items(), message.children, strict=True):
            lines += ["", f"{number}  {clean_text(remedy.title)}"]
            if isinstance(child, str):
                lines.append(f"   cannot be applied: {clean_text(child)}")
                continue
            lines += [f"   {told(change)}" for change in child.changes]
            lines += [f"   {line}" for line in child_lines(child)]
            again = ", once more" if child.before else ""
            yes = "" if answers else YES
            what = f"launch with {number}{again}"
            answers.append(Answer(_KEYS[number - 1], what, clean_text(remedy.effect), yes))
        self.ask("\n".join(lines), answers)
