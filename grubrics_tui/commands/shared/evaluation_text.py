"""Evaluations as text and JSON, for the commands that make them."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isclose
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.base.quantities import format_count, format_dollars, format_fixed
from engine.base.tables import aligned_lines
from grubrics_tui.commands.shared.output import terminal_width
from grubrics_tui.commands.shared.progress import ProgressLine
from grubrics_tui.text.terminal_text import cut_name

if TYPE_CHECKING:
    from engine.base.intervals import Estimate
    from engine.measure.evaluate import Evaluation, Progress
    from engine.measure.folder import JudgeUse
    from engine.measure.setup import SamplingSettings
    from engine.measure.summary import Result, TargetComparison
    from engine.measure.targets import Target

FOLDER = Path("evaluations")
"""Where evaluations are kept, below the working directory."""

_NARROWEST, _WIDEST = 60, 100
_SHORTEST_NAME = 12
"""Columns that an overview leaves for the name of a target."""
_NUMBERS = 30
"""Columns of a row beside the name: two margins, a mean and its interval."""


def evaluation_json(
    evaluation: Evaluation, results: Sequence[Result], comparisons: Sequence[TargetComparison]
) -> dict[str, Any]:
    return {
        "evaluation": evaluation.setup.id,
        "dir": str(evaluation.folder.path),
        "results": [result.to_json() for result in results],
        "trained_on": {target.name: rows for target, rows in _trained(evaluation)},
        "comparisons": [comparison.to_json() for comparison in comparisons],
        "judge": evaluation.writing,
        "grading": evaluation.grading,
    }


def _trained(evaluation: Evaluation) -> Iterator[tuple[Target, dict[str, int]]]:
    """The targets that were trained on items, with their numbers by run."""
    from engine.measure.trained_rows import trained_rows

    for target in evaluation.distinct:
        if rows := trained_rows(target, evaluation.items):
            yield target, rows


def evaluation_lines(
    evaluation: Evaluation, results: Sequence[Result], comparisons: Sequence[TargetComparison]
) -> Iterator[str]:
    """A block per metric: the targets, and below each what it was compared with.

    No line is wider than the terminal, or than 100 columns: long names are cut in the middle, and
    remarks that do not fit go to the next line.
    """
    setup, width = evaluation.setup, _table_width()
    # Below a target stands ``  vs BASELINE``, 5 columns further to the right.
    names = [result.target for result in results] + [f"  vs {pair.a}" for pair in comparisons]
    column = min(max(map(len, names)), width - _NUMBERS)
    items = format_count(setup.items, "item")
    yield from wrapped(
        f"{setup.id}: {items} of {setup.data}, {_format_sampling(setup.sampling)}", width
    )
    for metric in dict.fromkeys(result.metric for result in results):
        yield ""
        yield metric
        for result in results:
            if result.metric != metric:
                continue
            name = cut_name(result.target, column)
            yield from _row(f"  {name:{column}}  {_format_mean(result)}", _remarks(result), width)
            for pair in comparisons:
                if (pair.b, pair.metric) == (result.target, metric):
                    name = cut_name(pair.a, column - 5)
                    estimate = pair.comparison.difference
                    mean = f"{estimate.mean:+.3f}  {_format_interval(estimate, '+')}"
                    head = f"    vs {name:{column - 5}}  {mean}"
                    yield from _row(head, _verdict(pair), width)
    why = {r.target: r.why_unscored for r in results if r.why_unscored is not None}
    yield ""
    for trained, rows in _trained(evaluation):
        name = cut_name(trained.name, column)
        by = ", ".join(f"run '{run}' was trained on {count}" for run, count in rows.items())
        yield from wrapped(f"not held out for {name}: of {items}, {by}", width)
    for target, reason in why.items():
        yield from wrapped(f"unscored, {cut_name(target, column)}: {reason}", width)
    if (use := evaluation.writing) is not None:
        count = format_count(use.answers, "answer")
        yield from wrapped(f"judge: {count} by {_format_use(use)}", width)
    if (use := evaluation.grading) is not None and use.calls:
        empty = format_count(use.without_call, "empty answer")
        remark = f"; no call for {empty}" if use.without_call else ""
        yield from wrapped(
            f"graded: {format_count(use.answers, 'answer')} by {_format_use(use)}{remark}", width
        )
    yield from wrapped(f"95% intervals; answers and scores: {evaluation.folder.path}", width)


def overview_lines(
    evaluations: Sequence[Evaluation], results: Sequence[Sequence[Result]]
) -> Iterator[str]:
    """A row per file and target: the first metric with its interval, the means of the others, the
    number of scores and of answers without one."""
    stems = [Path(evaluation.setup.data).stem for evaluation in evaluations]
    ids = [evaluation.setup.id for evaluation in evaluations]
    names = stems if len(set(stems)) == len(stems) else ids
    first, *others = dict.fromkeys(result.metric for of_file in results for result in of_file)
    rows = [["data", "target", first, *others, "n", "unscored"]]
    for name, of_file in zip(names, results, strict=True):
        for target in dict.fromkeys(result.target for result in of_file):
            of_target = {each.metric: each for each in of_file if each.target == target}
            rows.append([name, target, *_overview_cells(of_target, first, others)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    beside = sum(widths) - widths[1] + 2 * (len(widths) - 1)
    room = max(_SHORTEST_NAME, _table_width() - beside)
    for row in rows:
        row[1] = cut_name(row[1], room)
    yield from aligned_lines(rows)


def _overview_cells(
    results: Mapping[str, Result], first: str, others: Sequence[str]
) -> Iterator[str]:
    estimates = {metric: result.estimate for metric, result in results.items()}
    yield _format_mean(results[first])
    for metric in others:
        yield format_fixed(estimate.mean if (estimate := estimates.get(metric)) else None)
    yield str(estimate.n if (estimate := estimates[first]) else 0)
    yield str(results[first].unscored)


def wrapped(text: str, width: int | None = None) -> list[str]:
    """A sentence on lines of the table's width, the later ones indented. Words stay whole."""
    return textwrap.wrap(
        text,
        width or _table_width(),
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _table_width() -> int:
    return max(_NARROWEST, min(terminal_width() or _WIDEST, _WIDEST))


def _row(head: str, remarks: str, width: int) -> list[str]:
    if not remarks:
        return [head.rstrip()]
    line = f"{head}  {remarks}"
    return [line] if len(line) <= width else [head, f"      {remarks}"]


def progress_reporter(as_json: bool) -> Callable[[Progress], None]:
    """Report the answers and scores of an evaluation, and the target that is answering."""
    if as_json:
        return lambda progress: None
    line = ProgressLine(sys.stderr)

    def report(progress: Progress) -> None:
        text = f"{progress.answers}/{progress.total} answers"
        if progress.scored is not None:
            text += f", {progress.scored} scored"
        line.show(text, progress.target, ended=progress.is_last)

    return report


def count_reporter(as_json: bool) -> Callable[[int, int], None]:
    """Report how many answers of how many are there, as `progress_reporter` does."""
    if as_json:
        return lambda answers, total: None
    line = ProgressLine(sys.stderr)
    return lambda answers, total: line.show(f"{answers}/{total} answers", ended=answers >= total)


def _format_sampling(sampling: SamplingSettings | None) -> str:
    if sampling is None:
        return "loss over the response tokens"
    if sampling.samples == 1:
        return "one greedy answer each"
    return f"{sampling.samples} answers each at temperature {sampling.temperature:g}"


def _format_mean(result: Result) -> str:
    return "no scores" if result.estimate is None else format_estimate(result.estimate)


def _remarks(result: Result) -> str:
    remarks = []
    if result.unscored:
        remarks.append(f"{result.unscored} unscored")
        if result.if_wrong is not None and result.estimate is not None:
            bound = f"{result.if_wrong.mean:.3f} {_format_interval(result.if_wrong)}"
            remarks.append(f"if all are wrong: {bound}")
    if result.left_out:
        remarks.append(f"{format_count(result.left_out, 'item')} left out")
    return "; ".join(remarks)


def _verdict(pair: TargetComparison) -> str:
    parts = [str(pair.comparison.verdict)]
    if pair.comparison.needed is not None:
        parts.append(f"about {pair.comparison.needed:,} items would show it")
    if pair.left_out:
        parts.append(f"{format_count(pair.left_out, 'item')} left out")
    return "; ".join(parts)


def _format_use(use: JudgeUse) -> str:
    text = format_count(use.calls, "call")
    if use.tokens_in is not None and use.tokens_out is not None:
        text += f", {use.tokens_in:,} tokens in, {use.tokens_out:,} out"
    return text if use.usd is None else f"{text}, {format_dollars(use.usd)}"


def format_estimate(estimate: Estimate) -> str:
    """A mean and its interval. Only differences have a plus sign."""
    return f"{estimate.mean: .3f}  {_format_interval(estimate)}"


def _format_interval(estimate: Estimate, sign: str = "") -> str:
    """The limits of an estimate in parentheses.

    Equal values have no spread, so the data does not say how far others may be.
    """
    low, high = estimate.low, estimate.high
    if low is None or high is None:
        return "(no interval)"
    if estimate.is_constant and isclose(low, high, abs_tol=1e-9):
        return f"(all {estimate.n:,} equal)"
    return f"({low:{sign}.3f} to {high:{sign}.3f})"
