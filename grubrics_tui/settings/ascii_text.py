"""Our own signs in plain ASCII, for terminals and fonts that have no other.

What is drawn by shape (curves, bars, marks) has ASCII forms of its own; this is for the rest, which
stands everywhere: frames, ellipses, dashes. Each sign has one of the same width, so that nothing
moves. Texts from files keep what they hold.
"""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_TWINS = {
    # States and answers
    "◌": ".", "◔": "o", "●": "*", "◑": "%", "✓": "+", "✗": "x", "□": "=", "◇": "o", "◆": "o",
    "★": "*", "✚": "+", "■": "#", "▪": "#", "›": ">", "▲": "^", "▼": "v", "▶": ">", "◀": "<",
    # Text
    "…": "~", "±": "~", "–": "-", "—": "-", "·": "-", "•": "*", "×": "x", "→": ">", "←": "<",
    "↑": "^", "↓": "v", "≤": "<", "≥": ">", "°": " ", "’": "'", "µ": "u",
    # Frames and rules
    "─": "-", "━": "-", "┈": ".", "╸": "-", "╺": "-", "│": "|", "┃": "|", "▌": "|", "▐": "|",
    "╭": "+", "╮": "+", "╰": "+", "╯": "+", "┌": "+", "┐": "+", "└": "+", "┘": "+", "├": "+",
    "┤": "+", "┬": "+", "┴": "+", "┼": "+", "╵": "|", "╷": "|", "╶": "-", "╴": "-",
    # Blocks, of which scroll bars and frames of text fields are made
    "▁": "_", "▂": "_", "▃": "_", "▄": "-", "▅": "=", "▆": "=", "▇": "#", "█": "#", "▀": "-",
    "▔": "-", "▏": "|", "▎": "|", "▍": "|", "▋": "#", "▊": "#", "▉": "#", "▕": "|",
    "▖": ".", "▗": ".", "▘": "'", "▝": "'", "▙": "#", "▛": "#", "▜": "#", "▟": "#",
}  # fmt: skip

_TABLE = str.maketrans(_TWINS)


def plain(text: str) -> str:
    """The text with our signs in ASCII."""
    return text.translate(_TABLE)


class AsciiFilter(LineFilter):
    """Goes over every line before it is written to the terminal."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment
            if segment.text.isascii()
            else Segment(plain(segment.text), segment.style, segment.control)
            for segment in segments
        ]
