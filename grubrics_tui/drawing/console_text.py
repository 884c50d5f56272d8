"""Convert raw console bytes to colored text that cannot control the terminal.

Only the escape sequences for colors and bold are used, as roles of the theme: the text is readable
in every theme, and nothing can be written in the color of the background.
"""

from __future__ import annotations

import colorsys
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from engine.base.text import ESCAPES
from engine.logs.log_lines import is_error, split_source
from grubrics_tui.drawing.spans import Span
from grubrics_tui.text.terminal_text import ERASE_LINE

_SGR = re.compile(r"(?:\x1b\[|\x9b)([\d;:]*)m")
# Red, green, yellow, blue, magenta, cyan: the terminal's colors 1 to 6, as roles of the theme.
_INKS = ("error", "success", "warning", "primary", "series-2", "series-1")
_HUES = (0, 120, 60, 240, 300, 180)


@dataclass(frozen=True)
class Pen:
    """The color and weight that escape sequences have set."""

    ink: str = ""
    bold: bool = False


@dataclass(frozen=True)
class ConsoleText:
    """One line as it is shown: its source, and its text in spans of one color."""

    source: str
    spans: tuple[Span, ...]

    @property
    def text(self) -> str:
        return "".join(span.text for span in self.spans)


def console_text(raw: bytes) -> ConsoleText:
    """Return what a terminal would show of one line; of a progress bar, its last state."""
    source, content = split_source(raw.rstrip(b"\r\n"))
    text = content.decode("utf-8", errors="replace")
    if text.isprintable():
        parts = [[Span(text.rstrip())]]
    else:
        parts = [list(_spans(part)) for part in text.split("\r")]
    spans = tuple(span for span in _overwritten(text, parts) if span.text)
    tone = _tone("".join(span.text for span in spans))
    toned = tuple(replace(span, ink=tone) if not span.ink else span for span in spans)
    return ConsoleText(source.decode("ascii", errors="replace"), toned)


def less_indented(line: ConsoleText, cells: int) -> ConsoleText:
    """Return the line with at most ``cells`` blanks before its first word."""
    extra = len(line.text) - len(line.text.lstrip()) - cells
    return replace(line, spans=tuple(_from(list(line.spans), extra))) if extra > 0 else line


def plain_line(raw: bytes) -> str:
    """Return the line without colors, after its source, for copying."""
    line = console_text(raw)
    return f"({line.source}) {line.text}" if line.source else line.text


def _spans(part: str) -> Iterator[Span]:
    """Yield the text between escape sequences in the colors that they set."""
    pen, end = Pen(), 0
    for match in ESCAPES.finditer(part):
        yield Span(_visible(part[end : match.start()]), pen.ink, bold=pen.bold)
        if colors := _SGR.fullmatch(match.group()):
            pen = _apply(pen, colors[1])
        end = match.end()
    yield Span(_visible(part[end:]), pen.ink, bold=pen.bold)


def _visible(text: str) -> str:
    """Remove control characters, and characters that reverse text or have no width."""
    text = text.expandtabs(8)
    if text.isprintable():
        return text
    # U+2028 and U+00A0 are not printable either, and become blanks.
    return "".join(c if c.isprintable() else " " if c.isspace() else "" for c in text)


def _overwritten(text: str, parts: list[list[Span]]) -> list[Span]:
    """Write each part over the one before, from its start."""
    shown = parts[0]
    for raw, part in zip(text.split("\r")[1:], parts[1:], strict=True):
        if ERASE_LINE.search(raw):
            shown = []
        shown = [*part, *_from(shown, sum(len(span.text) for span in part))]
    return shown


def _from(spans: list[Span], start: int) -> Iterator[Span]:
    """Yield the text of ``spans`` from index ``start`` on."""
    for span in spans:
        if start < len(span.text):
            yield replace(span, text=span.text[start:])
        start = max(0, start - len(span.text))


def _tone(text: str) -> str:
    if is_error(text) or text.startswith("Traceback"):
        return "error"
    return "warning" if "WARN" in text[:80] or "Warning:" in text[:200] else "foreground"


def _apply(pen: Pen, codes: str) -> Pen:
    """The pen after a color sequence, e.g. ``1;31``."""
    numbers = [int(code or 0) if len(code) < 4 else 0 for code in re.split("[;:]", codes)]
    while numbers:
        code = numbers.pop(0)
        if code == 0:
            pen = Pen()
        elif code in (1, 22):
            pen = replace(pen, bold=code == 1)
        elif code in (38, 48):
            ink = _extended(numbers)
            pen = replace(pen, ink=ink) if code == 38 else pen
        elif 30 <= code <= 39 or 90 <= code <= 97:
            pen = replace(pen, ink=_named(code % 10 if code != 39 else 0))
    return pen


def _named(color: int) -> str:
    """Black, white and the default have no role: one of them would be invisible in a theme."""
    return _INKS[color - 1] if 1 <= color <= 6 else ""


def _extended(numbers: list[int]) -> str:
    """The role nearest to a 256-color or RGB code; removes its numbers from the list."""
    kind = numbers.pop(0) if numbers else 0
    if kind == 2:
        rgb, numbers[:3] = numbers[:3], []
        return _nearest(*rgb) if len(rgb) == 3 else ""
    if kind != 5 or not numbers:
        return ""
    number = numbers.pop(0)
    if number < 16:
        return _named(number % 8)
    if number > 231:
        return ""
    levels = [(number - 16) // 36, (number - 16) // 6 % 6, (number - 16) % 6]
    return _nearest(*(level * 51 for level in levels))


def _nearest(red: int, green: int, blue: int) -> str:
    hue, light, saturation = colorsys.rgb_to_hls(*(min(c, 255) / 255 for c in (red, green, blue)))
    if saturation < 0.2 or not 0.08 < light < 0.95:
        return ""
    distances = [abs((hue * 360 - named + 180) % 360 - 180) for named in _HUES]
    return _INKS[distances.index(min(distances))]


def highlighted(spans: tuple[Span, ...], pattern: re.Pattern[str] | None) -> tuple[Span, ...]:
    """Mark every match of the pattern."""
    text = "".join(span.text for span in spans)
    matches = [match.span() for match in pattern.finditer(text)] if pattern else []
    if not any(start < end for start, end in matches):
        return spans
    marked = [False] * len(text)
    for start, end in matches:
        marked[start:end] = [True] * (end - start)
    return tuple(_marked(spans, marked))


def _marked(spans: tuple[Span, ...], marked: list[bool]) -> Iterator[Span]:
    offset = 0
    for span in spans:
        start = 0
        for is_marked, flags in groupby(marked[offset : offset + len(span.text)]):
            end = start + len(list(flags))
            text = span.text[start:end]
            yield Span(text, "background", "mark", True) if is_marked else replace(span, text=text)
            start = end
        offset += len(span.text)
