"""``grubrics-tui summarize``: statistics of scored answers."""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from engine.base.errors import UsageError
from engine.base.quantities import MISSING, format_number, format_percent
from engine.run.run import Run, find_run_not_file, runs_root
from grubrics_tui.commands.shared import Command, Task, options, print_json, say
from grubrics_tui.commands.shared.completions import complete_run
from grubrics_tui.commands.shared.options import argument, flag, option
from grubrics_tui.commands.shared.sources import find_all
from grubrics_tui.commands.shared.standard_input import standard_input_read

if TYPE_CHECKING:
    from engine.report.answer_summary import AnswerSummary


def summarize(
    source: Annotated[
        list[str],
        argument(
            "FILE|RUN...",
            "JSONL files with a scored answer per line, or runs; - for stdin",
            autocompletion=complete_run,
        ),
    ],
    validation: Annotated[
        bool, flag("Of runs: validation instead of training rollouts", "--validation")
    ] = False,
    seed: Annotated[int, option("N", "Seed of the bootstrap")] = 17,
    resamples: Annotated[int, option("N", "Resamples of the bootstrap")] = 200,
    csv: Annotated[bool, flag("Print CSV", "--csv")] = False,
    markdown: Annotated[bool, flag("Print a Markdown table", "--markdown")] = False,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Summarize scored answers: reward, valid JSON, latency.

    A line has reward or score, and may have json_valid or valid, latency_ms, and tokens_out or
    tokens. The interval is a percentile bootstrap. Rows without any token, or with an error and no
    reward, are counted apart as infra errors.
    """
    from engine.base.tables import aligned_lines, table_lines
    from engine.report.answer_summary import COLUMNS, summarize_rows

    if csv and markdown:
        raise UsageError("--csv and --markdown exclude each other")
    if not 0 <= seed < 2**32:
        raise UsageError(f"--seed {seed}: must be between 0 and {2**32 - 1}")
    if resamples < _FEWEST_RESAMPLES:
        raise UsageError(f"--resamples {resamples}: must be at least {_FEWEST_RESAMPLES}")
    with standard_input_read(source) as paths:
        opened = find_all(lambda name: _open(name, runs), paths)
        read = [(name, _rows(each, validation)) for name, each in zip(source, opened, strict=True)]
    rows = [summarize_rows(name, each, seed=seed, resamples=resamples) for name, each in read]
    if as_json:
        print_json({"seed": seed, "resamples": resamples, "summaries": list(map(asdict, rows))})
    elif csv or markdown:
        lines = table_lines("csv" if csv else "markdown", COLUMNS, (row.values() for row in rows))
        sys.stdout.writelines(lines)
    else:
        say("\n".join(aligned_lines([_HEADS, *map(_cells, rows)], numbers=True)))


_FEWEST_RESAMPLES = 40
"""With fewer, the ends of a 95% interval are the smallest and the largest mean."""
_HEADS = (
    "file",
    "rows",
    "infra errors",
    "reward",
    "95% interval",
    "valid JSON",
    "p95 ms",
    "p99 ms",
)


def _cells(row: AnswerSummary) -> list[str]:
    interval = f"{_short(row.reward_ci_lower)} to {_short(row.reward_ci_upper)}"
    return [
        row.file,
        str(row.rows),
        str(row.infra_errors),
        _short(row.reward_mean),
        MISSING if row.reward_ci_lower is None else interval,
        format_percent(row.json_valid_rate, 1),
        _short(row.latency_p95_ms),
        _short(row.latency_p99_ms),
    ]


_short = partial(format_number, digits=6)


def _open(source: str, runs: str | None) -> Path | Run:
    path = Path(source)
    if path.is_file():
        return path
    return Run(path) if Run(path).is_one() else find_run_not_file(runs_root(runs), source)


def _rows(source: Path | Run, validation: bool) -> list[dict[str, Any]]:
    """The rows of a file, or the rollouts of a run."""
    from engine.report.answer_summary import read_answers, read_rollouts

    if isinstance(source, Path):
        return read_answers(source)
    rows = read_rollouts(source, "val" if validation else "train")
    if not rows:
        kind = "validation" if validation else "training"
        raise UsageError(f"run '{source.id}' has recorded no {kind} rollouts")
    return rows


COMMAND = Command(summarize, Task.MEASURE)
