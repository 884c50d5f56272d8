"""``grubrics-tui sweep``: evaluate every checkpoint of a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from engine.base.errors import UsageError
from engine.run.run import Run, find_run, runs_root
from engine.run.state import observed_state
from grubrics_tui.commands.shared import Command, Task, answer, flag, option, options, say
from grubrics_tui.commands.shared.evaluation_text import (
    FOLDER,
    evaluation_json,
    evaluation_lines,
    progress_reporter,
    wrapped,
)
from grubrics_tui.commands.shared.output import judge_log_hidden, wait_for_more
from grubrics_tui.commands.shared.trust import trusted_source

if TYPE_CHECKING:
    from engine.measure.evaluate import Evaluation
    from engine.measure.measures import Metric
    from engine.measure.summary import Result
    from engine.measure.sweep import Skipped
    from engine.measure.targets import Target

_POLL_S = 1.0
_NICENESS = 19
"""While the run trains, the lowest priority: Ray gives its workers 15, and they come first."""


def sweep(
    run: options.RunArgument,
    data: Annotated[
        Path | None, option("FILE", "Items (default: data.val_files; for SFT, data.val_file)")
    ] = None,
    samples: Annotated[int, option("K", "Answers per item; 1 is greedy")] = 1,
    seed: Annotated[int, option("N", "Seed of the sampling")] = 1,
    limit: Annotated[int | None, option("N", "Evaluate only the first N items")] = None,
    follow: Annotated[
        bool, flag("Evaluate new checkpoints until the run ends", "--follow")
    ] = False,
    when: Annotated[str, option("WHEN", "now, or idle: only when the run is not active")] = "now",
    trust: options.TrustOption = False,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Evaluate all checkpoints of a run, each once.

    With --follow, new checkpoints are evaluated while the run trains, at low priority.
    """
    from engine.measure.evaluate import Evaluation, summarize
    from engine.measure.folder import EvaluationDir
    from engine.measure.measures import metrics_of
    from engine.measure.setup import make_setup, read_data, scored_as, validation_file
    from engine.measure.sweep import (
        Skipped,
        answered_steps,
        find_checkpoints,
        starting_model,
        step_targets,
        sweep_of,
    )
    from engine.run.history.sweep import read_sweep, write_sweep

    if when not in ("now", "idle"):
        raise UsageError(f"--when {when}: must be now or idle")
    root = runs_root(runs)
    swept = find_run(root, run)
    swept.require_config()
    config, _ = trusted_source(str(swept.config_file), [], root, trust)
    path = data or validation_file(config)
    config = scored_as(config, path)
    items = read_data(path, limit, config)
    setup = make_setup(path, items, config, samples, seed)
    metric = metrics_of(setup.scoring)[0]
    start = starting_model(swept, config, root)
    evaluation = Evaluation(EvaluationDir(FOLDER / setup.id), setup, items, [start], config)
    # What was evaluated stays in the table when the trainer deletes its checkpoint.
    known, failed = answered_steps(swept, evaluation), dict[int, Skipped]()
    seen: set[int] = set()
    while True:
        is_active = not observed_state(swept).has_ended
        checkpoints = find_checkpoints(swept)
        if not (is_active and when == "idle"):
            new = step_targets(swept, checkpoints, without=seen)
            known |= new
            evaluation = replace(
                evaluation,
                targets=[start, *_in_order(known, without=failed)],
                niceness=_NICENESS if is_active else 0,
            )
            if new or not seen:
                skipped = _left_out(checkpoints.skipped, known)
                _announce(swept, [target.name for target in new.values()], skipped, as_json)
                failed |= _evaluate(evaluation, known, as_json)
                left = _in_order(known, without=failed)
                evaluation = replace(evaluation, targets=[start, *left])
                results, comparisons = summarize(evaluation, [start.name])
                measured = sweep_of(swept, setup.id, results, metric)
                if measured is not None and measured != read_sweep(swept):
                    write_sweep(swept, measured)
            seen.update(new.keys() or {0})
        if not is_active or (not follow and when != "idle"):
            break
        wait_for_more(_POLL_S)
    skipped = [*_left_out(checkpoints.skipped, known), *failed.values()]
    best = _best(results, metric)
    value = {
        **evaluation_json(evaluation, results, comparisons),
        "run": swept.id,
        "best": best.to_json() if best else None,
        "skipped": [vars(each) for each in skipped],
    }
    lines = [*evaluation_lines(evaluation, results, comparisons)]
    lines += wrapped(_best_line(best, results))
    answer(value, "\n".join(lines), as_json)


def _in_order(known: Mapping[int, Target], *, without: Container[int]) -> list[Target]:
    return [known[step] for step in sorted(known) if step not in without]


def _left_out(skipped: Iterable[Skipped], known: Container[int]) -> list[Skipped]:
    """The checkpoints that cannot be evaluated and were not evaluated before."""
    return [each for each in skipped if each.step not in known]


def _evaluate(
    evaluation: Evaluation, known: Mapping[int, Target], as_json: bool
) -> dict[int, Skipped]:
    """Evaluate the targets. Returns the steps that failed, such as a checkpoint whose weights
    cannot be loaded. GenerationError if the starting model fails."""
    from engine.measure.evaluate import GenerationError, evaluate
    from engine.measure.sweep import Skipped

    try:
        with judge_log_hidden():
            evaluate(evaluation, os.environ, progress_reporter(as_json))
    except GenerationError as error:
        start = evaluation.targets[0]
        if evaluation.missing(start, evaluation.folder.find(start)):
            raise
        failed = {
            step: Skipped(step, str(error))
            for step, target in known.items()
            if target in evaluation.targets
            and evaluation.missing(target, evaluation.folder.find(target))
        }
        for step, skipped in failed.items():
            say(f"step {step} left out: {skipped.reason}", to=sys.stderr)
        return failed
    return {}


def _announce(run: Run, new: Sequence[str], skipped: Sequence[Skipped], as_json: bool) -> None:
    """Say in which order the checkpoints come, and what is left out."""
    if as_json:
        return
    say(f"{run.id}: evaluating {', '.join(new) or 'the starting model'}", to=sys.stderr)
    for each in skipped:
        say(f"{run.id}:{each.step} left out: {each.reason}", to=sys.stderr)


def _best(results: Sequence[Result], metric: Metric) -> Result | None:
    """The target with the best mean of the metric."""
    measured = [r for r in results if r.metric == metric.name and r.estimate is not None]
    choose = min if metric.lower_is_better else max
    return choose(measured, key=lambda r: r.estimate.mean if r.estimate else 0.0, default=None)


def _best_line(best: Result | None, results: Sequence[Result]) -> str:
    if best is None or best.estimate is None:
        return ""
    mean = best.estimate.mean
    equal = [
        result.target
        for result in results
        if result is not best and result.metric == best.metric
        if result.estimate is not None and result.estimate.mean == mean
    ]
    ties = f", and with the same mean {', '.join(equal)}" if equal else ""
    return (
        f"best: {best.target}, {best.metric} {mean:.3f}{ties}. The best of several looks better "
        "than it is; confirm it on other items"
    )


COMMAND = Command(sweep, Task.MEASURE)
