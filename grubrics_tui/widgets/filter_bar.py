"""The input line of a filter, with a remark about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from grubrics_tui.widgets.facts import inert


class FilterBar(Horizontal):
    """One line, hidden without a filter. Each key press applies a new filter."""

    DEFAULT_CSS = """
    FilterBar {
        /* A margin wider than that of the list would make the list narrower. */
        display: none; height: 1; margin: 0 1; padding: 0 1;
        &.-open { display: block; }
        #sign { width: 2; color: $primary; }
        Input, Input:focus { border: none; height: 1; padding: 0; background: $background; }
        Input { width: 2fr; }
        #remark {
            width: auto; max-width: 60%; height: 1; margin-left: 2;
            text-wrap: nowrap; text-overflow: ellipsis;
        }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "screen.cursor_down", show=False),
        Binding("up", "screen.cursor_up", show=False),
    ]

    @dataclass
    class Changed(Message):
        text: str

    class Accepted(Message):
        """Enter was pressed: move to the list."""

    def __init__(self, examples: str) -> None:
        """``examples`` are shown while the line is empty."""
        super().__init__()
        self._examples = examples

    def compose(self) -> ComposeResult:
        yield Static("/", id="sign", markup=False)
        yield Input(placeholder=self._examples, compact=True)
        yield Static("", id="remark", markup=False)

    @property
    def text(self) -> str:
        return self.query_one(Input).value

    def open(self) -> None:
        self.add_class("-open")
        self.query_one(Input).focus()

    def show(self, text: str) -> None:
        """Apply this filter."""
        self.add_class("-open")
        self.query_one(Input).value = text

    def close(self) -> None:
        """Clear the filter."""
        self.remove_class("-open")
        self.query_one(Input).value = ""

    def leave(self) -> None:
        """Keep the filter; hide the line if it is empty."""
        self.set_class(bool(self.text.strip()), "-open")

    def show_remark(self, text: str, ink: str = "quiet") -> None:
        self.query_one("#remark", Static).update(inert(Content.styled(text, f"${ink}")))

    @on(Input.Changed)
    def _change(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Changed(event.value))

    @on(Input.Submitted)
    def _accept(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Accepted())
