"""The files of a report. Each is replaced as a whole or not at all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from engine.base import files
from engine.base.errors import UsageError
from engine.reports.run_report.report import Report
from engine.reports.run_report.svg_chart import draw_file


def require_file(path: Path, option: str) -> None:
    """UsageError unless a file can be written there."""
    if path.is_dir():
        raise UsageError(f"{option} {path}: is a folder; name a file in it")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{option} {path}: there is no folder {path.parent}; create it first")


def require_folder(path: Path, option: str) -> None:
    """UsageError unless files can be written there; a folder is created when it is needed."""
    if path.exists() and not path.is_dir():
        raise UsageError(f"{option} {path}: is a file; name a folder")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{option} {path}: there is no folder {path.parent}; create it first")


def write_charts(report: Report, folder: Path) -> list[Path]:
    """Write an SVG file per chart, named after its metric, and return their paths."""
    folder.mkdir(exist_ok=True)
    written = []
    names = _file_names([chart.name for chart in report.charts])
    for chart, name in zip(report.charts, names, strict=True):
        files.write_atomic(folder / name, draw_file(chart))
        written.append(folder / name)
    return written


def _file_names(names: list[str]) -> Iterator[str]:
    """``reward-mean.svg`` of ``reward/mean``; names that become equal get a number."""
    used: dict[str, int] = {}
    for name in names:
        slug = re.sub(r"[^A-Za-z0-9@.]+", "-", name).strip("-.")[:80] or "chart"
        used[slug.lower()] = used.get(slug.lower(), 0) + 1
        number = used[slug.lower()]
        yield f"{slug}.svg" if number == 1 else f"{slug}-{number}.svg"
