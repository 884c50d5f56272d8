"""``grubrics-tui audit``: find out what the reward of a config pays for."""

from __future__ import annotations

import asyncio
import os
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from engine.base.errors import UsageError
from engine.base.quantities import format_count, format_seconds
from engine.run.run import Run, runs_root
from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.options import (
    JsonOption,
    OverridesArgument,
    RunsOption,
    SourceArgument,
    TrustOption,
)
from grubrics_tui.commands.shared.output import answer
from grubrics_tui.commands.shared.trust import trusted_source

if TYPE_CHECKING:
    from engine.reward.audit import Audit, Scores


def audit(
    source: SourceArgument,
    overrides: OverridesArgument = None,
    rows: Annotated[
        int, typer.Option(metavar="N", help="Rows of the training file that are tried")
    ] = 256,
    right: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="How a right answer is written, e.g. '#### {}' (default: tried)"
        ),
    ] = None,
    limit: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time limit of one answer")
    ] = 10.0,
    trust: TrustOption = False,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find out what the reward of a config pays for.

    Scores the right answer of each row, that of another row, and hostile answers (empty, very
    long, nested, two in one). Exits with 1 if a right answer does not get the full score, if an
    answer fails or hangs, or if a hostile one scores more than guessing. Of a run, it also prints
    what the model scores.
    """
    from engine.config.places import data_files
    from engine.config.scoring import reward_function, scorer
    from engine.reward.answers import read_audit_rows
    from engine.reward.audit import AuditOptions, run_audit

    if rows < 2:
        raise UsageError(f"--rows {rows}: must be at least 2")
    if limit <= 0:
        raise UsageError(f"--limit {limit:g}: must be above 0")
    if right is not None and "{}" not in right:
        raise UsageError(f"--right {right}: write {{}} where the answer goes, as in '#### {{}}'")
    config, run = trusted_source(source, overrides or [], runs_root(runs), trust)
    function = reward_function(config)
    if function is None:
        reason = scorer(config) if config.kind.has_rollouts else f"{config.kind.title} has none"
        raise UsageError(f"{config.path} has no task or reward function to audit: {reason}")
    files = data_files(config)
    if not files:
        raise UsageError(f"{config.path}: data.train_files names no file")
    sample = read_audit_rows(files[0], rows)
    options = AuditOptions(style=right, limit_s=limit)
    result = asyncio.run(run_audit(function, sample, options, os.environ))
    model = None if run is None else _read_score(run)
    lines = list(_format_audit(result, str(files[0]), model))
    head = {"config": config.name, "run": run.id if run else None, "file": str(files[0])}
    answer({**head, "model": model, **result.to_json()}, "\n".join(lines), as_json)
    raise typer.Exit(1 if result.problems() else 0)


def _read_score(run: Run) -> float | None:
    """The last validation reward of a run, otherwise its last reward."""
    from engine.run.history.metrics import REWARD_MEAN, VALIDATION_REWARD
    from engine.run.history.train_log import read_steps

    steps = [step.metrics for step in read_steps(run.train_log)]
    for name in (VALIDATION_REWARD, REWARD_MEAN):
        values = [value for metrics in steps if (value := metrics.get(name)) is not None]
        if values:
            return float(values[-1])
    return None


def _format_audit(audit: Audit, file: str, model: float | None) -> Iterator[str]:
    from engine.reward.answers import STYLES
    from engine.reward.audit import format_style

    yield f"{audit.label} on {audit.rows} rows of {file}"
    yield ""
    written = ""
    if audit.style is not None and not audit.is_task:
        written = f", written {format_style(audit.style)}"
    if audit.right.scores:
        count = len(audit.right.scores)
        full = f"{count - len(audit.below)} of {count} get the full score, {audit.full:.3g}"
        yield f"  {audit.right.mean:7.3f}  the right answer ({full}{written})"
        yield f"  {audit.other.mean:7.3f}  {audit.other.answer}"
    best = audit.best_constant
    if best is not None:
        yield f"  {best.mean:7.3f}  the best constant answer: {best.answer} to every question"
    if model is not None:
        yield f"  {model:7.3f}  the model of the run"
    yield from _format_hostile(audit.hostile)
    median, longest = map(format_seconds, audit.seconds_each)
    yield ""
    yield f"time: {median} for an answer (median), {longest} for the slowest"
    if not audit.is_complete:
        yield "not all answers were tried: too many of them hang"
    if audit.style is None and not audit.is_task and not audit.right.mean:
        styles = ", ".join(map(format_style, STYLES))
        yield f"right answers were written {styles}; write yours with --right"
    problems = audit.problems()
    yield "no problem found" if not problems else "problems:"
    yield from (f"  - {problem}" for problem in problems)
    yield from (f"note: {note}" for note in audit.notes())


def _format_hostile(groups: Sequence[Scores]) -> Iterator[str]:
    """Print those that score or fail, and the others in one paragraph."""
    quiet = [group for group in groups if not group.failures and group.scores and not group.mean]
    for group in groups:
        if group not in quiet:
            score = f"{group.mean:7.3f}" if group.scores else "      -"
            yield f"  {score}  {group.answer}"
    if quiet:
        names = ", ".join(group.answer for group in quiet)
        indent = " " * 11
        text = f"{format_count(len(quiet), 'hostile answer')}: {names}"
        yield "    0.000  " + textwrap.fill(text, 88, subsequent_indent=indent)


COMMAND = Command(audit, Task.PREPARE)
