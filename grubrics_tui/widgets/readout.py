"""Numbers in words: labels and their values on as few lines as they need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.content import Content
from textual.widgets import Static


@dataclass(frozen=True)
class Reading:
    """``label value``. ``ink`` names the theme colour of its key in a picture, if it has one.

    ``shape`` is the key where there is no colour: the character that the picture draws it with.
    """

    label: str
    value: str
    ink: str = ""
    key: str = "▪"
    tone: str = "foreground"
    shape: str = ""

    def content(self, colourless: bool) -> Content:
        glyph = self.shape if colourless and self.shape else self.key
        key = Content.styled(glyph, f"${self.ink}") + " " if self.ink else Content("")
        label = Content.styled(f"{self.label} ", "$quiet")
        return key + label + Content.styled(self.value, f"${self.tone}")


class Readout(Static):
    """Readings side by side; wraps between them, never inside one."""

    DEFAULT_CSS = "Readout { height: auto; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__("", id=id, markup=False)
        self._readings: Sequence[Reading] = ()

    def show(self, readings: Sequence[Reading]) -> None:
        if readings != self._readings:
            self._readings = readings
            self._lay_out()

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        lines: list[list[Content]] = [[]]
        used = 0
        for content in (reading.content(self.app.no_color) for reading in self._readings):
            if lines[-1] and used + content.cell_length > self.size.width:
                lines.append([])
                used = 0
            lines[-1].append(content)
            used += content.cell_length + 2
        self.update(Content("\n").join(Content("  ").join(line) for line in lines))
