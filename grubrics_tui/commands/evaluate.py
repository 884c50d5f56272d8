"""``grubrics-tui evaluate``: measure checkpoints on held-out items."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.base.errors import UsageError
from engine.runs.rundir import find_run, runs_root
from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.config_source import recipe_of_source
from grubrics_tui.commands.shared.options import JsonOption, RunsOption, TrustOption
from grubrics_tui.commands.shared.output import answer, judge_log_hidden, on_terminal
from grubrics_tui.commands.shared.trust import (
    require_code_trust,
    require_config_trust,
    require_trust,
)

if TYPE_CHECKING:
    from engine.evaluation.evaluate import Progress
    from engine.evaluation.setup import SamplingSettings
    from engine.evaluation.summary import Result, TargetComparison
    from engine.evaluation.targets import Target
    from engine.recipe.recipe import Recipe
    from engine.statistics.intervals import Estimate


def evaluate(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET...",
            help="Run (its last checkpoint), RUN:STEP, checkpoint or model folder, or hub name",
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Items, a parquet file (default: data.val_files)"),
    ] = None,
    baseline: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Compare with: base, sft, golden, random, or any TARGET; e.g. base,sft",
        ),
    ] = "",
    samples: Annotated[
        int, typer.Option(metavar="K", help="Answers per item; 1 is greedy (default: 1)")
    ] = 1,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the sampling")] = 1,
    limit: Annotated[
        int | None, typer.Option(metavar="N", help="Evaluate only the first N items")
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="CONFIG|RUN",
            help="Scores the answers (default: the first TARGET that is a run)",
        ),
    ] = None,
    trust: TrustOption = False,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure checkpoints on held-out items, with intervals and paired comparisons.

    Started again, it adds only the answers and scores that are missing.
    """
    from engine.evaluation.evaluate import Evaluation
    from engine.evaluation.evaluate import evaluate as run_evaluation
    from engine.evaluation.folder import EvaluationDir
    from engine.evaluation.items import read_items
    from engine.evaluation.measures import metrics_of
    from engine.evaluation.setup import make_setup
    from engine.evaluation.summary import TargetRows, compare_targets, find_results
    from engine.evaluation.targets import find_baseline, find_target

    root = runs_root(runs)
    recipe = _recipe(config or _run_of(targets, root), root, trust)
    path = data or Path(str(recipe.get("data.val_files")))
    items = read_items(path, limit)
    baselines = [find_baseline(name, recipe, root) for name in baseline.split(",") if name]
    chosen = _unique([*baselines, *(find_target(text, root) for text in targets)])
    setup = make_setup(path, items, recipe, samples, seed)
    folder = EvaluationDir(Path("evaluations") / setup.id)
    with judge_log_hidden():
        folders = run_evaluation(
            Evaluation(folder, setup, items, chosen, recipe), os.environ, _reporter(as_json)
        )
    rows = {name: TargetRows.read(name, target) for name, target in folders.items()}
    metrics = metrics_of(setup.scoring)
    results = [result for target in rows.values() for result in find_results(target, metrics)]
    against = [rows[target.name] for target in baselines]
    own = [rows[target.name] for target in chosen if target not in baselines]
    comparisons = compare_targets(against, own, metrics)
    value = {
        "evaluation": setup.id,
        "dir": str(folder.path),
        "results": [result.to_json() for result in results],
        "comparisons": [comparison.to_json() for comparison in comparisons],
    }
    lines = [
        f"{setup.id}: {len(items)} items of {path}, {_format_sampling(setup.sampling)}",
        *_report(results, comparisons),
        "",
        f"95% intervals; answers and scores: {folder.path}",
    ]
    answer(value, "\n".join(lines), as_json)


def _recipe(source: str, root: Path, trust: bool) -> Recipe:
    recipe, run = recipe_of_source(source, [], root)
    if run is not None:
        require_trust(run, trust, executes=True)
    else:
        require_config_trust(source, trust)
        require_code_trust(recipe, trust)
    return recipe


def _run_of(targets: Sequence[str], root: Path) -> str:
    """The first target that is a run. UsageError where none is."""
    for text in targets:
        for name in (text, text.rpartition(":")[0]):
            with suppress(UsageError):
                return find_run(root, name).id
    raise UsageError("no target is a run: name the config that scores the answers with --config")


def _unique(targets: Sequence[Target]) -> list[Target]:
    return list({target.name: target for target in targets}.values())


def _reporter(as_json: bool) -> Any:
    if as_json or not on_terminal():
        return lambda progress: None

    def report(progress: Progress) -> None:
        done = progress.answers >= progress.total
        sys.stderr.write(f"\r{progress.answers}/{progress.total} answers" + ("\n" if done else ""))
        sys.stderr.flush()

    return report


def _format_sampling(sampling: SamplingSettings) -> str:
    if sampling.samples == 1:
        return "one greedy answer each"
    return f"{sampling.samples} answers each at temperature {sampling.temperature:g}"


def _report(results: Sequence[Result], comparisons: Sequence[TargetComparison]) -> Iterator[str]:
    """A block per metric: the targets, and below each what it was compared with."""
    width = max(len(result.target) for result in results)
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
    return f"{text}; {pair.left_out} items left out" if pair.left_out else text


def _format_interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return "(no interval)"
    return f"({estimate.low:+.3f} to {estimate.high:+.3f})"


COMMAND = Command(evaluate, Task.PREPARE)
