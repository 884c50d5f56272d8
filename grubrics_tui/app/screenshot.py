"""Save what the screen shows, as a picture and as text."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from xml.etree import ElementTree

from rich.cells import cell_len

_CELL = 12.2
"""Width of a cell in the pictures of Rich."""


def save_screenshot(svg: str, folder: Path, screen: str) -> Path:
    """Write ``grubrics-SCREEN-DATE-TIME.svg`` and the same with ``.txt``; returns the first path.

    Nothing is overwritten: if one of the files exists, both get another number. OSError if they
    cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for path in _names(folder, screen):
        text = path.with_suffix(".txt")
        if text.exists():
            continue
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(svg)
        except FileExistsError:
            continue
        text.write_text(picture_text(svg), encoding="utf-8")
        return path
    raise AssertionError("unreachable: the numbers do not end")


def picture_text(svg: str) -> str:
    """The text of a terminal's picture, line by line, without blanks at the ends of lines."""
    lines: dict[int, str] = {}
    for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        _, is_cell, number = element.get("clip-path", "").rstrip(")").rpartition("-line-")
        if is_cell:
            column, line = round(float(element.get("x", "0")) / _CELL), lines.get(int(number), "")
            gap = " " * (column - cell_len(line))
            lines[int(number)] = line + gap + (element.text or "").replace("\xa0", " ")
    rows = (lines.get(number, "").rstrip() for number in range(max(lines, default=-1) + 1))
    return "".join(f"{row}\n" for row in rows)


def _names(folder: Path, screen: str) -> Iterator[Path]:
    moment = time.strftime("%Y%m%d-%H%M%S")
    for number in count(1):
        suffix = f"-{number}" if number > 1 else ""
        yield folder / f"grubrics-{screen}-{moment}{suffix}.svg"
