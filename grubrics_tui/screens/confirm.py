"""A question with a key for each answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from grubrics_tui.screens.dialog import Dialog
from grubrics_tui.widgets.inert import inert


@dataclass(frozen=True)
class Answer:
    """A key, what it does, and what follows from that."""

    key: str
    what: str
    consequence: str = ""


class Confirm(Dialog[str]):
    """Gives the asker the answer of a pressed key, or None when nothing shall happen.

    Enter does nothing: what took hours is not ended by a key that was meant for something else.
    """

    DEFAULT_CSS = """
    Confirm {
        align: center middle;
        & > VerticalScroll {
            width: 76; max-width: 95%; height: auto; max-height: 90%; padding: 1 2;
            background: $panel; border: round $warning; border-title-color: $warning;
        }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n,escape,q", "leave", "no"),
        Binding("j,down", "scroll(1)", "down"),
        Binding("k,up", "scroll(-1)", "up"),
    ]

    def __init__(self, title: str, text: str, answers: Sequence[Answer], no: str) -> None:
        super().__init__()
        self._title, self._text, self._answers = title, text, tuple(answers)
        self._no = Answer("n", no)

    def compose(self) -> ComposeResult:
        box = VerticalScroll(Static(self._question(), markup=False), can_focus=False)
        box.border_title = inert(self._title)
        yield box

    def ask(self, text: str, answers: Sequence[Answer]) -> None:
        """Ask something else, now that more is known."""
        self._text, self._answers = text, tuple(answers)
        self.query_one(Static).update(self._question())

    def answer(self, key: str) -> str:
        """What the asker gets for a pressed key."""
        return key

    def on_key(self, event: events.Key) -> None:
        if any(event.key == answer.key for answer in self._answers):
            event.stop()
            self.dismiss(self.answer(event.key))

    def action_leave(self) -> None:
        self.dismiss()

    def action_scroll(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    def _question(self) -> Content:
        lines = [Content(self._text), Content("")]
        return inert(Content("\n").join([*lines, *map(_line, (*self._answers, self._no))]))


def _line(answer: Answer) -> Content:
    line = Content.styled(f" {answer.key} ", "bold $primary") + Content(f" {answer.what}")
    return line + Content.styled(f"  {answer.consequence}".rstrip(), "$quiet")
