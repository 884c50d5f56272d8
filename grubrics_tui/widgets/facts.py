"""Tables of labels and texts, such as the details of a run; texts are shown and never obeyed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.content import Content
from textual.widgets import Static

from engine.base.quantities import format_duration, format_time
from engine.run.columns import RunRow, format_step
from engine.run.kinds import ADOPTED
from grubrics_tui.drawing.looks import look_of
from grubrics_tui.drawing.spans import clipped
from grubrics_tui.text.terminal_text import blanked

if TYPE_CHECKING:
    from engine.doctor.health import Health
    from engine.run.notes import Notes


def inert(text: str | Content) -> Content:
    """Return the text with its colors, without control characters, never read as markup."""
    content = Content(text) if isinstance(text, str) else text
    plain = content.plain
    if plain.isprintable():
        return content
    return Content(blanked(plain), spans=list(content.spans))


Fact = tuple[str, str | Content]

_LEAST_ROOM = 16


class Facts(Static):
    """One fact per line with aligned labels; long texts wrap. Nothing is read as markup.

    Labels are above the texts if these would have too little room beside them.
    """

    DEFAULT_CSS = """
    Facts {
        height: auto;
        border: round $line;
        border-title-color: $quiet;
        padding: 0 1;
    }
    """

    def __init__(self, title: str, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__("", id=id, classes=classes, markup=False)
        self.border_title = title
        self._facts: Sequence[Fact] = ()
        self._width = 0

    def show(self, facts: Sequence[Fact]) -> None:
        self._facts = facts
        self._lay_out()

    def on_resize(self) -> None:
        self._lay_out()
        # A panel that was hidden would keep the height of the text that it had.
        if self.size.width != self._width:
            self._width = self.size.width
            self.call_after_refresh(self.refresh, layout=True)

    def _lay_out(self) -> None:
        widest = max((len(label) for label, _ in self._facts), default=0)
        width = self.size.width
        is_above = 0 < width < widest + 2 + _LEAST_ROOM
        gutter = 0 if is_above or not widest else widest + 2
        room = max(10, width - gutter)
        lines: list[Content] = []
        for label, text in self._facts:
            if is_above and label:
                lines.append(Content.styled(blanked(label), "$quiet"))
                label = ""
            for index, line in enumerate(inert(text).wrap(room) or [Content("")]):
                head = blanked(label) if index == 0 else ""
                lines.append(Content.styled(head.ljust(gutter), "$quiet") + line)
        self.update(Content("\n").join(lines))


_LONGEST_NOTE = 120
_LONGEST_CHANGES = 150


def run_facts(info: RunRow, health: Health | None = None) -> list[Fact]:
    """ID, step, times, overrides, and why the run waits; the state is last, because its reason may
    be long."""
    state = info.state
    reason = Content(f"  {state.reason}" if state.reason else "")
    facts: list[Fact] = [
        ("run", Content.styled(info.id, "bold") + Content(f"   {info.config}")),
        ("step", f"{format_step(state.step, state.total_steps)}   {_times(info)}"),
    ]
    if info.changed:
        facts.append(("changed", clipped("  ".join(info.changed), _LONGEST_CHANGES)))
    if info.notes:
        facts.append(("notes", _notes(info.notes)))
    if state.waiting_for and not state.has_ended:
        facts.append(("waiting", f"for {state.waiting_for}"))
    return [*facts, ("state", format_state(state.word, health) + reason)]


def format_state(word: str, health: Health | None) -> Content:
    """``✓ finished``; ``! finished, unhealthy: GPU out of memory since step 3``."""
    glyph, ink = look_of(word, health)
    phrase = health.phrase if health and health.is_known else ""
    return Content.styled(", ".join(filter(None, (f"{glyph} {word}", phrase))), f"bold ${ink}")


def _notes(notes: Notes) -> Content:
    """Tags and note in one line, so that the state stays visible."""
    tags = "".join(f"#{tag} " for tag in notes.tags)
    text = " ".join(notes.text.split())
    return Content.styled(tags, "$accent") + Content(clipped(text, _LONGEST_NOTE))


def _times(info: RunRow) -> str:
    state = info.state
    attempt = f"attempt {state.attempt}, " if state.attempt > 1 else ""
    if state.first_start is None:
        return f"{attempt}{'start unknown' if info.kind == ADOPTED else 'not started'}"
    took = format_duration(state.elapsed(time.time()))
    spent = f"{took} without pauses" if state.began else took
    if state.ended is not None:
        return f"{attempt}{format_time(state.first_start)} to {format_time(state.ended)}, {spent}"
    return f"{attempt}started {format_time(state.first_start)}, elapsed {spent}"
