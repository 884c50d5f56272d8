"""``grubrics-tui evaluate``: measure checkpoints on held-out items."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.base.errors import UsageError
from engine.run.run import find_run, runs_root
from grubrics_tui.commands.shared import Command, Task, answer, argument, option, options
from grubrics_tui.commands.shared.evaluation_text import (
    FOLDER,
    evaluation_json,
    evaluation_lines,
    overview_lines,
    progress_reporter,
)
from grubrics_tui.commands.shared.output import judge_log_hidden
from grubrics_tui.commands.shared.trust import trusted_source

if TYPE_CHECKING:
    from engine.config.load import Config
    from engine.measure.evaluate import Evaluation
    from engine.measure.targets import Target


def evaluate(
    targets: Annotated[
        list[str],
        argument(
            "TARGET...",
            "Run (its last checkpoint), RUN:STEP, checkpoint or model folder, or hub name",
        ),
    ],
    data: Annotated[
        list[Path] | None,
        option(
            "FILE",
            "Items; may be given several times (default: data.val_files; for SFT, data.val_file)",
        ),
    ] = None,
    baseline: Annotated[
        str,
        option(
            "NAMES",
            "Compare with: base, sft, golden, random, judge, any TARGET, or "
            "EVALUATION:TARGET; e.g. base,sft",
        ),
    ] = "",
    samples: Annotated[int, option("K", "Answers per item; 1 is greedy")] = 1,
    seed: Annotated[int, option("N", "Seed of the sampling")] = 1,
    limit: Annotated[int | None, option("N", "Evaluate only the first N items")] = None,
    config: Annotated[
        str | None,
        option("CONFIG|RUN", "Scores the answers (default: the first TARGET that is a run)"),
    ] = None,
    trust: options.TrustOption = False,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Measure checkpoints on held-out items, with intervals.

    Started again, it adds only the answers and scores that are missing. The answers to a benchmark
    of grubrics-tui prepare are scored by its task.
    """
    from engine.measure.baselines import find_other
    from engine.measure.evaluate import evaluate as run_evaluation
    from engine.measure.evaluate import summarize
    from engine.measure.setup import validation_file
    from engine.measure.targets import find_baseline, find_target

    root = runs_root(runs)
    names = dict.fromkeys(name.strip() for name in baseline.split(","))
    loaded, _ = trusted_source(config or _run_of(targets, root), [], root, trust)
    files = dict.fromkeys(data or [validation_file(loaded)])
    baselines = [find_other(name) or find_baseline(name, loaded, root) for name in names if name]
    own = [find_target(text, root) for text in targets]
    chosen = list({target.name: target for target in (*baselines, *own)}.values())
    # All files are read before the first answer is generated.
    evaluations = [_plan(file, limit, loaded, samples, seed, chosen) for file in files]
    summaries = []
    for evaluation in evaluations:
        with judge_log_hidden():
            run_evaluation(evaluation, os.environ, progress_reporter(as_json))
        summaries.append(summarize(evaluation, [target.name for target in baselines]))
    results = [results for results, _ in summaries]
    values = [evaluation_json(e, *s) for e, s in zip(evaluations, summaries, strict=True)]
    blocks = [evaluation_lines(e, *s) for e, s in zip(evaluations, summaries, strict=True)]
    if len(evaluations) > 1:
        blocks.append(overview_lines(evaluations, results))
    answer(
        values[0] if len(values) == 1 else {"evaluations": values},
        "\n\n".join(map("\n".join, blocks)),
        as_json,
    )
    if any(all(result.estimate is None for result in of_file) for of_file in results):
        raise typer.Exit(1)


def _plan(
    file: Path,
    limit: int | None,
    config: Config,
    samples: int,
    seed: int,
    targets: Sequence[Target],
) -> Evaluation:
    from engine.measure.evaluate import Evaluation
    from engine.measure.folder import EvaluationDir
    from engine.measure.setup import make_setup, read_data, scored_as

    config = scored_as(config, file)
    items = read_data(file, limit, config)
    setup = make_setup(file, items, config, samples, seed)
    return Evaluation(EvaluationDir(FOLDER / setup.id), setup, items, targets, config)


def _run_of(targets: Sequence[str], root: Path) -> str:
    """The first target that is a run. UsageError where none is, or one is unknown."""
    from engine.measure.targets import find_target

    for text in targets:
        for name in (text, text.rpartition(":")[0]):
            with suppress(UsageError):
                return find_run(root, name).id
    for text in targets:
        find_target(text, root)
    raise UsageError("no target is a run: name the config that scores the answers with --config")


COMMAND = Command(evaluate, Task.MEASURE)
