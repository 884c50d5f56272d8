"""Evaluations as text and JSON, for the commands that make them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.base.counts import count_of
from grubrics_tui.commands.shared.output import on_terminal

if TYPE_CHECKING:
    from engine.evaluation.evaluate import Evaluation, Progress
    from engine.evaluation.setup import SamplingSettings
    from engine.evaluation.summary import Result, TargetComparison
    from engine.statistics.intervals import Estimate

FOLDER = Path("evaluations")
"""Where evaluations are kept, below the working directory."""


def evaluation_json(
    evaluation: Evaluation, results: Sequence[Result], comparisons: Sequence[TargetComparison]
) -> dict[str, Any]:
    return {
        "evaluation": evaluation.setup.id,
        "dir": str(evaluation.folder.path),
        "results": [result.to_json() for result in results],
        "comparisons": [comparison.to_json() for comparison in comparisons],
    }


def evaluation_lines(
    evaluation: Evaluation, results: Sequence[Result], comparisons: Sequence[TargetComparison]
) -> Iterator[str]:
    """A block per metric: the targets, and below each what it was compared with."""
    setup = evaluation.setup
    # Below a target stands ``  vs BASELINE``, 5 columns further to the right.
    names = [result.target for result in results] + [f"  vs {pair.a}" for pair in comparisons]
    width = max(map(len, names))
    items = count_of(setup.items, "item")
    yield f"{setup.id}: {items} of {setup.data}, {_format_sampling(setup.sampling)}"
    for metric in dict.fromkeys(result.metric for result in results):
        yield ""
        yield metric
        for result in results:
            if result.metric != metric:
                continue
            yield f"  {result.target:{width}}  {_format_result(result)}"
            for pair in comparisons:
                if (pair.b, pair.metric) == (result.target, metric):
                    yield f"    vs {pair.a:{width - 5}}  {_format_comparison(pair)}"
    why = {r.target: r.why_unscored for r in results if r.why_unscored is not None}
    yield from ("", *(f"unscored, {target}: {reason}" for target, reason in why.items()))
    yield f"95% intervals; answers and scores: {evaluation.folder.path}"


def progress_reporter(as_json: bool) -> Callable[[Progress], None]:
    """Report progress on a terminal, on one line of stderr."""
    if as_json or not on_terminal():
        return lambda progress: None

    def report(progress: Progress) -> None:
        end = "\n" if progress.answers >= progress.total else ""
        sys.stderr.write(f"\r{progress.answers}/{progress.total} answers{end}")
        sys.stderr.flush()

    return report


def _format_sampling(sampling: SamplingSettings) -> str:
    if sampling.samples == 1:
        return "one greedy answer each"
    return f"{sampling.samples} answers each at temperature {sampling.temperature:g}"


def _format_result(result: Result) -> str:
    estimate = result.estimate
    if estimate is None:
        return f"no scores; {result.unscored} unscored"
    text = f"{estimate.mean:+.3f}  {_format_interval(estimate)}"
    if not result.unscored:
        return text
    bound = "" if result.if_wrong is None else f"; {result.if_wrong:+.3f} if all of them are wrong"
    return f"{text}  {result.unscored} unscored{bound}"


def _format_comparison(pair: TargetComparison) -> str:
    comparison, estimate = pair.comparison, pair.comparison.difference
    text = f"{estimate.mean:+.3f}  {_format_interval(estimate)}  {comparison.verdict}"
    if comparison.needed is not None:
        text += f"; about {comparison.needed:,} items would show it"
    return f"{text}; {count_of(pair.left_out, 'item')} left out" if pair.left_out else text


def _format_interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return "(no interval)"
    return f"({estimate.low:+.3f} to {estimate.high:+.3f})"
