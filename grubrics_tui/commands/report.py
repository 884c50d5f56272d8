"""``grubrics-tui report``: write runs into one file, to be read without this program."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from engine.base import files
from engine.base.errors import UsageError
from engine.run.run import runs_root
from grubrics_tui.commands.shared import Command, Task, answer, argument, flag, option, options
from grubrics_tui.commands.shared.completions import complete_run
from grubrics_tui.commands.shared.evaluation_text import FOLDER
from grubrics_tui.commands.shared.sources import open_sources

if TYPE_CHECKING:
    from engine.report.run_report.report import Report

_PRINT = Path("-")


def report(
    run: Annotated[
        list[str],
        argument(
            "RUN...",
            "Run IDs, unique prefixes or directories, or files or folders of other trainers",
            autocompletion=complete_run,
        ),
    ],
    output: Annotated[
        Path | None, option("FILE", "Write an HTML page: one file", "--output", "-o")
    ] = None,
    markdown: Annotated[
        Path | None, option("FILE", "Write Markdown of at most 65,536 characters; - prints")
    ] = None,
    pr: Annotated[
        bool, flag("Keep the Markdown within 60 lines, for a pull request", "--pr")
    ] = False,
    svg: Annotated[Path | None, option("DIR", "Write an SVG file per chart")] = None,
    metric: Annotated[
        list[str] | None,
        option("METRIC", "Draw this metric; may be repeated (default: the usual metrics)"),
    ] = None,
    log: Annotated[
        list[str] | None,
        option("METRIC", "Draw this metric on a logarithmic axis; may be repeated"),
    ] = None,
    samples: Annotated[int, option("N", "Rollouts per run, from the best to the worst")] = 3,
    date: Annotated[
        str | None, option("DATE", "Date below the title, e.g. 2026-01-31 (default: none)")
    ] = None,
    as_format: options.FormatOption = None,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Write a report of runs: HTML, Markdown, SVG.

    It has curves, results, findings, samples, environment and costs, without secrets. It names what
    the runs do not have.
    """
    from engine.report.run_report.assemble import Choice, make_report
    from engine.report.run_report.pages import require_file, require_folder
    from engine.run.history.metrics import canonical

    _check_options(output, markdown, svg, pr, samples)
    if output is not None:
        require_file(output, "-o")
    if markdown is not None and markdown != _PRINT:
        require_file(markdown, "--markdown")
    if svg is not None:
        require_folder(svg, "--svg")
    drawn, logarithmic = (tuple(map(canonical, names or ())) for names in (metric, log))
    choice = Choice(drawn, logarithmic, samples, _read_date(date), FOLDER)
    made = make_report(_open(run, as_format, runs), choice)
    _write(made, output, markdown, pr, svg, as_json)


def _check_options(
    output: Path | None, markdown: Path | None, svg: Path | None, pr: bool, samples: int
) -> None:
    if output is markdown is svg is None:
        raise UsageError("name what to write: -o FILE.html, --markdown FILE or --svg DIR")
    if samples < 0:
        raise UsageError(f"--samples {samples} must be at least 0")
    if pr and markdown is None:
        raise UsageError("--pr shortens the Markdown: add --markdown FILE, or --markdown -")


def _read_date(text: str | None) -> str:
    try:
        return datetime.date.fromisoformat(text).isoformat() if text is not None else ""
    except ValueError as error:
        raise UsageError(f"--date {text}: expected YYYY-MM-DD, e.g. 2026-01-31") from error


def _open(names: list[str], as_format: str | None, runs: str | None) -> dict[str, Any]:
    """The runs by their IDs."""
    from engine.report.compare import MOST_RUNS
    from engine.report.run_record import distinct_ids

    if len(names) > MOST_RUNS:
        raise UsageError(f"{len(names)} runs chosen; a report takes at most {MOST_RUNS}")
    root = runs_root(runs)
    chosen = open_sources(root, names, as_format)
    ids = distinct_ids(chosen)
    if (twice := next((id for id in ids if ids.count(id) > 1), None)) is not None:
        raise UsageError(f"run '{twice}' is named twice; a report has each run once")
    return dict(zip(ids, chosen, strict=True))


def _write(
    made: Report,
    output: Path | None,
    markdown: Path | None,
    pr: bool,
    svg: Path | None,
    as_json: bool,
) -> None:
    """Write what was asked for, and say where it is; printed Markdown stands alone."""
    from engine.report.run_report.pages import (
        render_html,
        render_markdown,
        render_short,
        write_charts,
    )

    text = (render_short if pr else render_markdown)(made) if markdown is not None else ""
    charts = [] if svg is None else svg.glob("*.svg")
    replaced = {path for path in (output, markdown, *charts) if path is not None and path.exists()}
    written = []
    if output is not None:
        files.write_atomic(output, render_html(made))
        written.append(output)
    if markdown is not None and markdown != _PRINT:
        files.write_atomic(markdown, text)
        written.append(markdown)
    if svg is not None:
        written += write_charts(made, svg)
    printed = text if markdown == _PRINT else None
    value = {
        "written": [*map(str, written)],
        "replaced": [str(path) for path in written if path in replaced],
        "missing": [*made.gaps],
        "markdown": printed,
    }
    lines = [
        *(f"{'replaced' if path in replaced else 'wrote'} {path}" for path in written),
        *(f"missing: {gap}" for gap in made.gaps),
    ]
    answer(value, printed if printed is not None else "\n".join(lines), as_json)


COMMAND = Command(report, Task.KEEP)
