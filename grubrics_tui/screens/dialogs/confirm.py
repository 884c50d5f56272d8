"""A question with a key for each answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from grubrics_tui.screens.dialogs.dialog import Dialog
from grubrics_tui.widgets.no_markup import inert

YES = "y"


@dataclass(frozen=True)
class Answer:
    """A key, what it does, and what follows from that; ``also`` is another key for the same."""

    key: str
    what: str
    consequence: str = ""
    also: str = ""

    @property
    def keys(self) -> str:
        """As a person reads them."""
        return f"{self.also} {self.key}".strip()


class Confirm(Dialog[str]):
    """Gives the asker the answer of a pressed key, or None when nothing shall happen.

    Enter does nothing: what took hours is not ended by a key that was meant for something else.
    The answers stay in sight, however long the text above them, and its keys lie over those of the
    screen below.
    """

    DEFAULT_CSS = """
    Confirm {
        align: center middle;
        & > VerticalScroll {
            width: 76; max-width: 95%; height: auto; max-height: 90%; padding: 1 2;
            background: $panel; border: round $warning; border-title-color: $warning;
        }
        #answers { dock: bottom; padding: 1 0 0 0; background: $panel; }
        #keys { dock: bottom; height: 1; padding: 0 2; background: $background; }
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
        question = Static(inert(Content(self._text)), id="question", markup=False)
        answers = Static(self._choices(), id="answers", markup=False)
        box = VerticalScroll(question, answers, can_focus=False)
        box.border_title = inert(self._title)
        yield box
        yield Static(id="keys", markup=False)

    @on(events.Mount)
    def _watch_length(self) -> None:
        # Its height is known only after a layout, of which nobody else tells.
        self.watch(self.query_one(VerticalScroll), "show_vertical_scrollbar", self._show_keys)

    def ask(self, text: str, answers: Sequence[Answer]) -> None:
        """Ask something else, now that more is known."""
        self._text, self._answers = text, tuple(answers)
        self.query_one("#question", Static).update(inert(Content(text)))
        self.query_one("#answers", Static).update(self._choices())
        self._show_keys()

    def answer(self, key: str) -> str:
        """What the asker gets for a pressed key."""
        return key

    def on_key(self, event: events.Key) -> None:
        for answer in self._answers:
            if event.key in (answer.key, answer.also):
                event.stop()
                self.dismiss(self.answer(answer.key))
                return

    def action_leave(self) -> None:
        self.dismiss()

    def action_scroll(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    def _choices(self) -> Content:
        answers = (*self._answers, self._no)
        width = max(len(answer.keys) for answer in answers)
        return inert(Content("\n").join(_line(answer, width) for answer in answers))

    def _show_keys(self) -> None:
        keys = [(one.keys, one.what) for one in (*self._answers, self._no)]
        if self.query_one(VerticalScroll).show_vertical_scrollbar:
            keys.append(("j k", "scroll"))
        line = Content("   ").join(_key(*one) for one in keys)
        self.query_one("#keys", Static).update(inert(line))


def _key(key: str, what: str) -> Content:
    return Content.styled(key, "bold $primary") + Content.styled(f" {what}", "$quiet")


def _line(answer: Answer, width: int) -> Content:
    line = Content.styled(f" {answer.keys:>{width}} ", "bold $primary")
    line += Content(f" {answer.what}")
    return line + Content.styled(f"  {answer.consequence}".rstrip(), "$quiet")
