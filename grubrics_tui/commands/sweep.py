"""``grubrics-tui sweep``: evaluate every checkpoint of a run."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.base.errors import UsageError
from engine.runs.rundir import RunDir, find_run, runs_root
from engine.runs.state import observed_state
from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.evaluation_text import (
    FOLDER,
    evaluation_json,
    evaluation_lines,
    progress_reporter,
)
from grubrics_tui.commands.shared.options import JsonOption, RunArgument, RunsOption, TrustOption
from grubrics_tui.commands.shared.output import answer, judge_log_hidden, say
from grubrics_tui.commands.shared.trust import trusted_source

if TYPE_CHECKING:
    from engine.evaluation.summary import Result
    from engine.evaluation.sweep import Checkpoints

_POLL_S = 2.0
_NICENESS = 10


def sweep(
    run: RunArgument,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Items, a parquet file (default: data.val_files)"),
    ] = None,
    samples: Annotated[int, typer.Option(metavar="K", help="Answers per item; 1 is greedy")] = 1,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the sampling")] = 1,
    limit: Annotated[
        int | None, typer.Option(metavar="N", help="Evaluate only the first N items")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Evaluate new checkpoints until the run ends")
    ] = False,
    when: Annotated[
        str,
        typer.Option(metavar="WHEN", help="now, or idle: only when the run is not active"),
    ] = "now",
    trust: TrustOption = False,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Evaluate all checkpoints of a run, each once.

    With --follow, new checkpoints are evaluated while the run trains, at low priority.
    """
    from engine.evaluation.evaluate import Evaluation, summarize
    from engine.evaluation.evaluate import evaluate as run_evaluation
    from engine.evaluation.folder import EvaluationDir
    from engine.evaluation.items import read_items
    from engine.evaluation.setup import make_setup
    from engine.evaluation.sweep import find_checkpoints, starting_model, step_targets

    if when not in ("now", "idle"):
        raise UsageError(f"--when {when}: must be now or idle")
    root = runs_root(runs)
    swept = find_run(root, run)
    recipe, _ = trusted_source(str(swept.recipe), [], root, trust)
    path = data or Path(str(recipe.get("data.val_files")))
    items = read_items(path, limit)
    setup = make_setup(path, items, recipe, samples, seed)
    start = starting_model(swept, recipe, root)
    done: set[str] = set()
    while True:
        is_active = not observed_state(swept).has_ended
        checkpoints = find_checkpoints(swept)
        targets = [start, *step_targets(swept, checkpoints)]
        evaluation = Evaluation(
            EvaluationDir(FOLDER / setup.id), setup, items, targets, recipe, _NICENESS
        )
        new = [target.name for target in targets if target.name not in done]
        if new and not (is_active and when == "idle"):
            _announce(swept, new, checkpoints, as_json)
            with judge_log_hidden():
                run_evaluation(evaluation, os.environ, progress_reporter(as_json))
            done.update(new)
        if not follow or not is_active:
            break
        time.sleep(_POLL_S)
    results, comparisons = summarize(evaluation, [start.name])
    best = _best(results)
    value = {
        **evaluation_json(evaluation, results, comparisons),
        "run": swept.id,
        "best": best.to_json() if best else None,
        "skipped": [vars(skipped) for skipped in checkpoints.skipped],
    }
    lines = [*evaluation_lines(evaluation, results, comparisons), *_best_lines(best)]
    answer(value, "\n".join(lines), as_json)


def _announce(run: RunDir, new: Sequence[str], checkpoints: Checkpoints, as_json: bool) -> None:
    """Say in which order the targets come, and what is left out."""
    if as_json:
        return
    say(f"{run.id}: evaluating {', '.join(new)}", to=sys.stderr)
    for skipped in checkpoints.skipped:
        say(f"{run.id}:{skipped.step} left out: {skipped.reason}", to=sys.stderr)


def _best(results: Sequence[Result]) -> Result | None:
    """The target with the highest mean of the first metric."""
    first = [r for r in results if r.metric == results[0].metric and r.estimate is not None]
    return max(first, key=lambda r: r.estimate.mean if r.estimate else 0.0, default=None)


def _best_lines(best: Result | None) -> list[str]:
    if best is None or best.estimate is None:
        return []
    return [
        f"best: {best.target}, {best.metric} {best.estimate.mean:+.3f}. The best of several looks "
        "better than it is; confirm it on other items"
    ]


COMMAND = Command(sweep, Task.PREPARE)
