"""A screen as text that a person can review in a diff: its cells, then where their looks change.

Below the cells stands a line for each row that does not look plain throughout: from which column on
which color of the theme is used, a ``*`` for bold; after ``on`` a background and its last column.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

from textual.app import App

from grubrics_tui.settings.themes import DARK

FOLDER = Path(__file__).parent / "snapshots"
UPDATE = "UPDATE_SNAPSHOTS"
"""Set in the environment, snapshots are written instead of compared."""

_CELL, _LINE = 12.2, 24.4
_STYLE = re.compile(r"\.[\w-]+-(r\d+) \{ fill: (#\w{6});?([^}]*)\}")
_TEXT = re.compile(
    r'<text class="[\w-]+-(r\d+)" x="([\d.]+)" y="[\d.]+" textLength="([\d.]+)"'
    r' clip-path="url\(#[\w-]+-line-(\d+)\)">(.*?)</text>'
)
_PAPER = re.compile(
    r'<rect fill="(#\w{6})" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="[\d.]+"'
    r' shape-rendering="crispEdges"/>'
)
_WIDE_BLANK = "\xa0"


def _cells(svg: str, height: int) -> list[str]:
    """The characters on the screen, row by row."""
    rows = ["" for _ in range(height)]
    for _, left, _, row, text in sorted(_TEXT.findall(svg), key=lambda match: float(match[1])):
        at = round(float(left) / _CELL)
        rows[int(row)] = rows[int(row)].ljust(at) + unescape(text).replace(_WIDE_BLANK, " ")
    return [row.rstrip() for row in rows]


def snapshot(app: App[None], *, colors: bool) -> str:
    """The cells, and with ``colors`` their looks."""
    svg = app.export_screenshot(simplify=True)
    shown = _cells(svg, app.size.height)
    if not colors:
        return "\n".join(shown) + "\n"
    return "\n".join([*shown, "", *_looks(svg, app)]) + "\n"


def _looks(svg: str, app: App[None]) -> Iterator[str]:
    names = _names(app)
    inks, papers = _inks(svg, names), _papers(svg, names)
    for row in range(app.size.height):
        changes = inks.get(row, []) + papers.get(row, [])
        if spans := ", ".join(f"{at} {look}" for at, look in _merged(changes)):
            yield f"{row:>3}: {spans}"


def _inks(svg: str, names: dict[str, str]) -> dict[int, list[tuple[int, str]]]:
    styles = {
        name: names.get(fill, fill) + ("*" if "bold" in more else "")
        for name, fill, more in _STYLE.findall(svg)
    }
    inks: dict[int, list[tuple[int, str]]] = {}
    for style, left, _, row, text in _TEXT.findall(svg):
        if unescape(text).strip(f" {_WIDE_BLANK}\n"):
            inks.setdefault(int(row), []).append((round(float(left) / _CELL), styles[style]))
    return inks


def _papers(svg: str, names: dict[str, str]) -> dict[int, list[tuple[int, str]]]:
    """Backgrounds other than the screen's own, each with its first and last column."""
    rows: dict[int, list[tuple[int, int, str]]] = {}
    for fill, left, height, width in _PAPER.findall(svg):
        name, start = names.get(fill, fill), round(float(left) / _CELL)
        end = start + round(float(width) / _CELL)
        row = rows.setdefault(round((float(height) - 1.5) / _LINE), [])
        if row and row[-1][1:] == (start, name):
            start = row.pop()[0]
        if name != "background":
            row.append((start, end, name))
    return {
        row: [(start, f"on {name} to {end - 1}") for start, end, name in stretches]
        for row, stretches in rows.items()
    }


def _merged(changes: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """From left to right, without an ink that is the one before."""
    ink = "foreground"
    for at, look in sorted(changes):
        if look.startswith("on ") or look != ink:
            yield at, look
        if not look.startswith("on "):
            ink = look


def _names(app: App[None]) -> dict[str, str]:
    """Names of colors in the themes: their own names count more than Textual's."""
    roles = ("background", "foreground", "primary", "success", "error", "warning")
    own = (*roles, *DARK.for_textual.variables)
    names = [*app.theme_variables, *reversed(own)]
    return {app.theme_variables[name].lower(): name for name in names}


def must_update() -> bool:
    return bool(os.environ.get(UPDATE))
