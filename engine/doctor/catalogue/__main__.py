"""``python -m engine.doctor.catalogue [FILE] [--ids]``: the table of all symptoms, as Markdown.

``--ids`` writes the list of finding ids too, by which a recipe is checked.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from engine.doctor.catalogue.collect import entries, shapes
from engine.doctor.catalogue.entry import Entry
from engine.findings.families import IDS

_HEAD = """\
# Symptoms

What the doctor can find: symptom, evidence, cause, remedy. Made from the rules by
`make generated`; a test compares it with them. "…" stands for a
number or a name of the run. Where a line of a log tells, an example of it stands under evidence;
where numbers, records or the recipe tell, the link leads to the shape that is looked for. How the
root is chosen among several is told in [the doctor](doctor.md)."""
_WIDEST = 160


def markdown() -> str:
    return "\n".join([_HEAD, *_tables(), *_shapes()]) + "\n"


def id_list() -> str:
    """The ids of all findings, one a line."""
    return "".join(f"{id}\n" for id in dict.fromkeys(entry.id for entry in entries()))


def _tables() -> Iterator[str]:
    for family, rows in groupby(entries(), key=lambda one: one.family):
        yield f"\n## {family}\n"
        yield "| symptom | evidence | cause | remedy |"
        yield "|---|---|---|---|"
        yield from map(_row, rows)


def _row(one: Entry) -> str:
    symptom = f"{_cell(one.symptom)}<br>`{one.id}` ({one.severity})"
    evidence = _line(one.evidence) if one.evidence else f"[{one.shape}](#{_anchor(one.shape)})"
    remedies = "<br>".join(map(_cell, one.remedies)) or "–"
    return f"| {symptom} | {evidence} | {_cell(one.cause)} | {remedies} |"


def _shapes() -> Iterator[str]:
    yield "\n## Shapes\n\nWhat the rules look for in metrics, reward records and recipes."
    for shape in sorted(shapes(), key=lambda one: one.name):
        yield f"\n### {shape.name}\n\n{_plain(shape.title)}"
        if shape.text:
            yield f"\n{_plain(shape.text)}"


def _anchor(heading: str) -> str:
    """As GitHub makes it of a heading."""
    return "".join(c for c in heading.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def _cell(text: str) -> str:
    return _plain(" ".join(text.split())).replace("|", "\\|")


def _plain(text: str) -> str:
    """Docstrings quote code with two backquotes; outside of it an angle bracket begins no HTML."""
    coded = text.replace("``", "`")
    return re.sub(r"`[^`]*`|<", lambda one: "&lt;" if one[0] == "<" else one[0], coded)


def _line(text: str) -> str:
    """A line of a log, as it stands."""
    shown = " ".join(text.replace("`", "'").split())
    shown = shown if len(shown) <= _WIDEST else f"{shown[: _WIDEST - 1]}…"
    return f"`{shown}`".replace("|", "\\|")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="engine.doctor.catalogue", description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="default: stdout")
    parser.add_argument("--ids", action="store_true", help=f"also write {IDS.name}")
    given = parser.parse_args(arguments)
    file = given.file
    if given.ids:
        IDS.write_text(id_list(), encoding="utf-8")
    if file is None:
        print(markdown(), end="")
    else:
        file.write_text(markdown(), encoding="utf-8")


if __name__ == "__main__":
    main()
