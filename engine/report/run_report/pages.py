"""The files of a report: one HTML page, SVG files of its charts, and Markdown.

The page has no script and no network; styles and charts are inside. The Markdown is for an issue or
a pull request: tables, and samples that are folded. GitHub takes up to 65,536 characters. What does
not fit is left out from the end, and the last line says so.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from engine.base import files
from engine.base.errors import UsageError
from engine.base.quantities import format_count
from engine.report.run_report.charts import CHART_STYLE, draw_chart, draw_file
from engine.report.run_report.report import Charts, Problem, Report, Sample, Section, Table

MOST_CHARACTERS = 65_536
MOST_LINES = 60
"""Of the short form."""
_ROOM = 300
"""Characters that are kept for the last line."""
_SHORT = ("runs", "findings", "results", "config", "evaluations")
_SHORT_ROWS = 8
"""Rows of each table, and findings, in the short form."""

_SPECIAL = re.compile(r"[\\`*\[\]#|~!$]|(?<![^\W_])_|_(?![^\W_])")
"""An underscore within a word is one."""
_TICKS = re.compile(r"`+")


def render_markdown(report: Report) -> str:
    """The whole report without its charts, which Markdown cannot hold."""
    blocks = [[*_head(report)]]
    for section in report.sections:
        blocks += _section_blocks(section)
    return _fitted(blocks)


def render_short(report: Report) -> str:
    """At most 60 lines: runs, findings, results, differences of configs, evaluations."""
    lines = [*_head(report)]
    for section in report.sections:
        if section.name in _SHORT:
            lines += _short_section(section)
    if len(lines) > MOST_LINES:
        left_out = len(lines) - (MOST_LINES - 2)
        lines = [*lines[: MOST_LINES - 2], "", f"{format_count(left_out, 'line')} left out"]
    return _fitted([[line] for line in lines])


def inline(text: str) -> str:
    """A text that Markdown and HTML show as it is: no markup, no table cell, no mention."""
    line = escape(" ".join(text.split()), quote=False)
    line = _SPECIAL.sub(lambda sign: f"&#{ord(sign.group())};", line)
    return line.replace("@", "@<!-- -->")


def _head(report: Report) -> Iterator[str]:
    yield f"## {inline(report.title)}"
    yield ""
    if report.date:
        yield from (report.date, "")
    for entry in report.legend:
        if entry.key:
            seeds = f" (seeds {inline(entry.seeds)})" if entry.seeds else ""
            yield f"- {entry.key}: {inline(entry.name)}{seeds}"
    yield from (f"- Missing: {inline(gap)}" for gap in report.gaps)
    yield ""


def _section_blocks(section: Section) -> Iterator[list[str]]:
    """The parts of a section that are left out as a whole."""
    if any(isinstance(block, Charts) for block in section.blocks):
        return
    yield [f"### {inline(section.title)}", ""]
    if section.lead:
        yield [*(f"{inline(remark)}  " for remark in section.lead), ""]
    for block in section.blocks:
        if isinstance(block, Table):
            yield [*_table(block), ""]
        elif isinstance(block, Problem):
            yield [*_problem(block), ""]
        elif isinstance(block, Sample):
            yield [*_sample(block), ""]


def _short_section(section: Section) -> Iterator[str]:
    yield f"### {inline(section.title)}"
    problems = [block for block in section.blocks if isinstance(block, Problem)]
    yield from (_problem_line(problem) for problem in problems[:_SHORT_ROWS])
    tables = [block for block in section.blocks if isinstance(block, Table)]
    for table in tables[:1]:
        yield from _table(table, _SHORT_ROWS)
    more = max(0, len(problems) - _SHORT_ROWS) + sum(len(t.rows) - _SHORT_ROWS for t in tables[:1])
    if more > 0:
        yield from ("", f"{more} more in the full report")
    yield ""


def _table(table: Table, most: int | None = None) -> Iterator[str]:
    if table.title and most is None:
        yield from (f"**{inline(table.title)}**", "")
    yield _row(table.head)
    yield _row(["---"] * len(table.head), plain=True)
    yield from map(_row, table.rows[:most])
    if table.note and most is None:
        yield from ("", inline(table.note))


def _row(cells: Sequence[str], *, plain: bool = False) -> str:
    return f"| {' | '.join(cells if plain else map(inline, cells))} |"


def _problem_line(problem: Problem) -> str:
    since = f" since {problem.onset}" if problem.onset else ""
    title = f"**{problem.severity}**{since}: {inline(problem.title)}"
    return f"- {title} ({inline(problem.runs)}, {inline(problem.id)})"


def _problem(problem: Problem) -> Iterator[str]:
    yield _problem_line(problem)
    yield f"  - {inline(problem.cause)}"
    labeled = (
        ("evidence", problem.evidence),
        ("fix", problem.fixes),
        ("consequence", problem.consequences),
    )
    yield from (f"  - {label}: {inline(text)}" for label, texts in labeled for text in texts)


def _sample(sample: Sample) -> Iterator[str]:
    place = f"{sample.rank} of {sample.split} step {sample.step}, {sample.run}"
    yield f"<details><summary>{inline(f'{sample.score} {place}')}</summary>"
    yield from ("", inline("; ".join(f"{name} {text}" for name, text in sample.facts)), "")
    for label, text in sample.texts:
        fence = "`" * max(3, 1 + max(map(len, _TICKS.findall(text)), default=0))
        yield from (inline(label), "", f"{fence}text", text, fence, "")
    yield "</details>"


def _fitted(blocks: Sequence[Sequence[str]]) -> str:
    """The blocks from the first on, as far as there is room."""
    text, room = "", MOST_CHARACTERS - _ROOM
    for number, block in enumerate(blocks):
        part = "\n".join(block) + "\n"
        if len(text) + len(part) > room:
            left_out = format_count(len(blocks) - number, "part")
            return f"{text}\n{left_out} left out: at most {MOST_CHARACTERS:,} characters\n"
        text += part
    return text


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


_FOLDER = Path(__file__).parent
_KINDS = {Table: "table", Problem: "problem", Charts: "charts", Sample: "sample"}


def render_html(report: Report) -> str:
    """The page. Every text of the report is escaped; only charts are markup."""
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = environment.get_template("style.css.jinja").render(charts=Markup(CHART_STYLE))
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return environment.get_template("page.html.jinja").render(
        report=report,
        style=Markup(style),
        style_hash=digest,
        kind_of=lambda block: _KINDS[type(block)],
        draw=lambda chart: Markup(draw_chart(chart)),
        # The long sections are folded.
        is_open=lambda section: section.name not in ("environment", "data", "manifest"),
    )
