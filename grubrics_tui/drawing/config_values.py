"""Draw the configuration of a run: changed values first, then all values by section."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.cells import cell_len, set_cell_size

from engine.base.quantities import format_count
from engine.report.run_config import ConfigValue, RunConfig
from grubrics_tui.drawing.spans import Row, Span, clipped
from grubrics_tui.text.terminal_text import clean_text

_ORIGIN, _GAP, _NARROWEST = 11, 2, 10


@dataclass(frozen=True)
class ConfigLine:
    """A value under its ``label``, or a heading."""

    label: str
    value: ConfigValue | None = None


def config_lines(
    config: RunConfig, words: Sequence[str] = (), *, defaults: bool = True
) -> list[ConfigLine]:
    """The changed values, then those of each section; only those that contain all ``words``."""
    values = [value for value in config.values if value.matches(words)]
    changed = [value for value in values if value.is_changed]
    lines = []
    if changed:
        count = format_count(len(changed), "value")
        lines.append(ConfigLine(f"{count} changed from {_line(config.source)}"))
        lines += [ConfigLine(_line(value.key), value) for value in changed]
    shown = [value for value in values if defaults or value.origin != "default"]
    for section, members in groupby(shown, key=lambda value: _section(value.key)):
        if section:
            lines.append(ConfigLine(_line(section)))
        lines += [
            ConfigLine(_line(value.key.partition(".")[2] or value.key), value) for value in members
        ]
    return lines


def config_rows(
    lines: Sequence[ConfigLine], shown: range, cursor: int, width: int
) -> Iterator[Row]:
    """Draw the lines ``shown``; the columns are as wide as for all lines."""
    longest = max((cell_len(line.label) for line in lines if line.value), default=0)
    label = min(longest + _GAP, width // 2)
    for index in shown:
        yield _row(lines[index], label, width, chosen=index == cursor)


def _row(line: ConfigLine, label: int, width: int, *, chosen: bool) -> Row:
    value, paper = line.value, "line" if chosen else ""
    if value is None:
        return [Span(clipped(line.label, width), "primary", bold=True)]
    is_set = value.is_changed or value.origin not in ("default", "implied")
    room = max(_NARROWEST, width - label - _ORIGIN - 2)
    text = _line(value.text)
    if value.is_changed:
        text = f"{text}  (file: {_line(ConfigValue(value.key, value.in_file).text)})"
    return [
        Span("▌ " if chosen else "  ", "primary", paper, chosen),
        Span(_fill(_end(line.label, label - _GAP), label), "" if is_set else "quiet", paper),
        Span(_fill(clipped(text, room - _GAP), room), _ink(value), paper),
        Span(_fill(value.origin, _ORIGIN), "quiet", paper),
    ]


def _ink(value: ConfigValue) -> str:
    if value.is_changed:
        return "mark"
    return "quiet" if value.origin in ("default", "implied") else "foreground"


def _section(key: str) -> str:
    return key.partition(".")[0] if "." in key else ""


def _line(text: str) -> str:
    """One line that a terminal only prints."""
    return " ".join(clean_text(text).split())


def _end(text: str, width: int) -> str:
    """The end of a key tells more than its beginning."""
    return text if cell_len(text) <= width else f"…{text[1 - max(2, width) :]}"


def _fill(text: str, width: int) -> str:
    return set_cell_size(text, width)
