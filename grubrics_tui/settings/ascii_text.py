"""Replace our own signs by ASCII, for terminals and fonts without Unicode.

Drawings choose ASCII shapes themselves (curves, bars, marks); this is for everything else: frames,
ellipses, dashes. A replacement is as wide as the sign. Texts from files are not changed.
"""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_REPLACEMENTS = {
    # States and checks
    "◌": ".", "◔": "o", "●": "*", "◑": "%", "✓": "+", "✗": "x", "□": "=", "◇": "o", "◆": "o",
    "★": "*", "✚": "+", "■": "#", "▪": "#", "›": ">", "▲": "^", "▼": "v", "▶": ">", "◀": "<",
    # Text
    "…": "~", "±": "~", "–": "-", "—": "-", "·": "-", "•": "*", "×": "x", "→": ">", "←": "<",
    "↑": "^", "↓": "v", "≤": "<", "≥": ">", "°": " ", "’": "'", "µ": "u",
    # Frames and rules
    "─": "-", "━": "-", "┈": ".", "╸": "-", "╺": "-", "│": "|", "┃": "|", "▌": "|", "▐": "|",
    "╭": "+", "╮": "+", "╰": "+", "╯": "+", "┌": "+", "┐": "+", "└": "+", "┘": "+", "├": "+",
    "┤": "+", "┬": "+", "┴": "+", "┼": "+", "╵": "|", "╷": "|", "╶": "-", "╴": "-",
    # Blocks: scroll bars and frames of text fields
    "▁": "_", "▂": "_", "▃": "_", "▄": "-", "▅": "=", "▆": "=", "▇": "#", "█": "#", "▀": "-",
    "▔": "-", "▏": "|", "▎": "|", "▍": "|", "▋": "#", "▊": "#", "▉": "#", "▕": "|",
    "▖": ".", "▗": ".", "▘": "'", "▝": "'", "▙": "#", "▛": "#", "▜": "#", "▟": "#",
}  # fmt: skip

_TABLE = str.maketrans(_REPLACEMENTS)


def plain(text: str) -> str:
    """Return the text with our signs in ASCII."""
    return text.translate(_TABLE)


class AsciiFilter(LineFilter):
    """Applies ``plain`` to every line before it is written to the terminal."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment
            if segment.text.isascii()
            else Segment(plain(segment.text), segment.style, segment.control)
            for segment in segments
        ]
