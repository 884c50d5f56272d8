"""``grubrics-tui table``: metrics per step of runs as a table for other programs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from engine.base.errors import UsageError
from engine.base.masking import distinct_masked
from engine.run.run import runs_root
from grubrics_tui.commands.shared import Command, Task, answer, options, print_json, warn
from grubrics_tui.commands.shared.completions import complete_run
from grubrics_tui.commands.shared.options import argument, flag, option
from grubrics_tui.commands.shared.sources import open_sources
from grubrics_tui.commands.shared.standard_input import standard_input_read


def table(
    run: Annotated[
        list[str],
        argument(
            "RUN|PATH...",
            "Run IDs, unique prefixes or directories, or external logs; - for stdin",
            autocompletion=complete_run,
        ),
    ],
    metric: Annotated[
        list[str] | None, option("METRIC", "Only this metric; may be repeated (default: all)")
    ] = None,
    long: Annotated[bool, flag("A row per value: run, step, metric, value", "--long")] = False,
    markdown: Annotated[bool, flag("Print Markdown instead of CSV", "--markdown")] = False,
    out: Annotated[
        Path | None,
        option(
            "FILE", "Write to FILE.csv, FILE.parquet or FILE.md instead of stdout", "--out", "-o"
        ),
    ] = None,
    force: Annotated[bool, flag("Replace the file if it exists", "--force")] = False,
    as_format: options.FormatOption = None,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Write metrics of runs as CSV, parquet or Markdown.

    A row per run and step, a column per metric; with --long, a row per value. A step that did not
    log a metric has an empty cell; NaN is a value that was logged. A run without any row is named
    on stderr with the reason, and in "left_out" of --json.
    """
    from engine.logs.formats.series import explain_no_steps, names, read_columns
    from engine.report.metric_table import find_form, long_table, text_of, wide_table, write_table
    from engine.report.run_record import distinct_ids

    if out is not None:
        form = find_form(out)
        if out.exists() and not force:
            raise UsageError(f"{out} already exists. To replace it, add --force")
    root = runs_root(runs)
    with standard_input_read(run) as paths:
        labels = distinct_masked(distinct_ids(open_sources(root, paths, as_format)))
        columns = [read_columns(path, root, metric or (), as_format) for path in paths]
        left_out = {
            label: explain_no_steps(path, root)
            for label, path, read in zip(labels, paths, columns, strict=True)
            if not names(read)
        }
    if len(left_out) == len(paths):
        raise UsageError("; ".join(f"{label}: {reason}" for label, reason in left_out.items()))
    build = long_table if long else wide_table
    built = build(list(zip(labels, columns, strict=True)), metric or ())
    others = {*labels} - {*built.columns["run"].cells(), *left_out}
    left_out |= dict.fromkeys(sorted(others), f"no step has {' or '.join(metric or ())}")
    warn(f"{label} is not in the table: {reason}" for label, reason in left_out.items())
    if out is not None:
        write_table(built, out, form)
        value = {"path": str(out), "rows": len(built), "columns": list(built.columns)}
        text = f"{out}: {len(built)} rows, {len(built.columns)} columns"
        answer({**value, "left_out": left_out}, text, as_json)
    elif as_json:
        columns_json = {"columns": list(built.columns), "rows": built.to_json()}
        print_json({**columns_json, "left_out": left_out})
    else:
        sys.stdout.writelines(text_of(built, "markdown" if markdown else "csv"))


COMMAND = Command(table, Task.INSPECT)
