"""Raw console bytes as colored text that a terminal cannot be made to obey.

Of all escape sequences only colors and bold are kept, as roles of the theme: so text is readable
in every theme, and nothing can be written in the color of the background.
"""

from __future__ import annotations

import colorsys
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from engine.logs.log_lines import is_error, split_source
from grubrics_tui.drawing.spans import Span
from grubrics_tui.text.terminal_text import ERASE_LINE, ESCAPES

_SGR = re.compile(r"(?:\x1b\[|\x9b)([\d;:]*)m")
# Red, green, yellow, blue, magenta, cyan: the terminal's colors 1 to 6, as roles of the theme.
_INKS = ("error", "success", "warning", "primary", "series-2", "series-1")
_HUES = (0, 120, 60, 240, 300, 180)


@dataclass(frozen=True)
class Pen:
    """What color sequences have asked for so far."""

    ink: str = ""
    bold: bool = False


@dataclass(frozen=True)
class ConsoleText:
    """One line as it is shown: who wrote it, and its text in runs of one color."""

    source: str
    spans: tuple[Span, ...]

    @property
    def text(self) -> str:
        return "".join(span.text for span in self.spans)


def console_text(raw: bytes) -> ConsoleText:
    """What a terminal would show of one line; a progress bar as it was drawn last."""
    source, rest = split_source(raw.rstrip(b"\r\n"))
    text = rest.decode("utf-8", errors="replace")
    parts = [list(_spans(part)) for part in text.split("\r")] if _is_odd(text) else [_plain(text)]
    spans = tuple(span for span in _overwritten(text, parts) if span.text)
    tone = _tone("".join(span.text for span in spans))
    toned = tuple(replace(span, ink=tone) if not span.ink else span for span in spans)
    return ConsoleText(source.decode("ascii", errors="replace"), toned)


def less_indented(line: ConsoleText, cells: int) -> ConsoleText:
    """The line with at most so many blanks before its first word."""
    extra = len(line.text) - len(line.text.lstrip()) - cells
    return replace(line, spans=tuple(_from(list(line.spans), extra))) if extra > 0 else line


def plain_line(raw: bytes) -> str:
    """The line without colors, its source in front: what a person copies."""
    line = console_text(raw)
    return f"({line.source}) {line.text}" if line.source else line.text


def _is_odd(text: str) -> bool:
    return not text.isprintable()


def _plain(text: str) -> list[Span]:
    return [Span(text.rstrip())]


def _spans(part: str) -> Iterator[Span]:
    """The text between escape sequences in the colors that they ask for."""
    pen, place = Pen(), 0
    for match in ESCAPES.finditer(part):
        yield Span(_visible(part[place : match.start()]), pen.ink, bold=pen.bold)
        if colors := _SGR.fullmatch(match.group()):
            pen = _after(pen, colors[1])
        place = match.end()
    yield Span(_visible(part[place:]), pen.ink, bold=pen.bold)


def _visible(text: str) -> str:
    """Without control characters, and those that turn text around or take no room."""
    text = text.expandtabs(8)
    if text.isprintable():
        return text
    # Every other kind of blank is a blank: U+2028 and U+00A0 are not printable either.
    kept = (char if char.isprintable() else " " if char.isspace() else "" for char in text)
    return "".join(kept)


def _overwritten(text: str, parts: list[list[Span]]) -> list[Span]:
    """What is left when each part is written over the one before, from its start."""
    shown = parts[0]
    for raw, part in zip(text.split("\r")[1:], parts[1:], strict=True):
        if ERASE_LINE.search(raw):
            shown = []
        shown = [*part, *_from(shown, sum(len(span.text) for span in part))]
    return shown


def _from(spans: list[Span], start: int) -> Iterator[Span]:
    """What of ``spans`` stands at or after a place."""
    for span in spans:
        if start < len(span.text):
            yield replace(span, text=span.text[start:])
        start = max(0, start - len(span.text))


def _tone(text: str) -> str:
    if is_error(text) or text.startswith("Traceback"):
        return "error"
    return "warning" if "WARN" in text[:80] or "Warning:" in text[:200] else "foreground"


def _after(pen: Pen, codes: str) -> Pen:
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
    """Black, white and the default are all the theme's own: one of them would be invisible."""
    return _INKS[color - 1] if 1 <= color <= 6 else ""


def _extended(numbers: list[int]) -> str:
    """The role nearest to a color of 256 or of millions; takes its numbers off the list."""
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
    apart = [abs((hue * 360 - named + 180) % 360 - 180) for named in _HUES]
    return _INKS[apart.index(min(apart))]


def highlighted(spans: tuple[Span, ...], pattern: re.Pattern[str] | None) -> tuple[Span, ...]:
    """The same text with every match on the color of a mark."""
    text = "".join(span.text for span in spans)
    found = [match.span() for match in pattern.finditer(text)] if pattern else []
    if not any(start < end for start, end in found):
        return spans
    marked = [False] * len(text)
    for start, end in found:
        marked[start:end] = [True] * (end - start)
    return tuple(_marked(spans, marked))


def _marked(spans: tuple[Span, ...], marked: list[bool]) -> Iterator[Span]:
    place = 0
    for span in spans:
        marks = marked[place : place + len(span.text)]
        at = place
        for is_marked, run in groupby(marks):
            length = len(list(run))
            text = span.text[at - place : at - place + length]
            yield Span(text, "background", "mark", True) if is_marked else replace(span, text=text)
            at += length
        place += len(span.text)
