"""``grubrics-tui evaluate``: measure checkpoints on held-out items."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from engine.base.errors import UsageError
from engine.runs.rundir import find_run, runs_root
from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.evaluation_text import (
    FOLDER,
    evaluation_json,
    evaluation_lines,
    progress_reporter,
)
from grubrics_tui.commands.shared.options import JsonOption, RunsOption, TrustOption
from grubrics_tui.commands.shared.output import answer, judge_log_hidden
from grubrics_tui.commands.shared.trust import trusted_source


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
        typer.Option(
            metavar="FILE", help="Items (default: data.val_files; for SFT, data.val_file)"
        ),
    ] = None,
    baseline: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Compare with: base, sft, golden, random, judge, any TARGET, or "
            "EVALUATION:TARGET; e.g. base,sft",
        ),
    ] = "",
    samples: Annotated[int, typer.Option(metavar="K", help="Answers per item; 1 is greedy")] = 1,
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
    """Measure checkpoints on held-out items, with intervals.

    Started again, it adds only the answers and scores that are missing.
    """
    from engine.evaluation.evaluate import Evaluation, summarize
    from engine.evaluation.evaluate import evaluate as run_evaluation
    from engine.evaluation.folder import EvaluationDir
    from engine.evaluation.other import find_other
    from engine.evaluation.setup import make_setup, read_data, validation_file
    from engine.evaluation.targets import find_baseline, find_target

    root = runs_root(runs)
    names = dict.fromkeys(name.strip() for name in baseline.split(","))
    recipe, _ = trusted_source(config or _run_of(targets, root), [], root, trust)
    path = data or validation_file(recipe)
    items = read_data(path, limit, recipe)
    setup = make_setup(path, items, recipe, samples, seed)
    baselines = [find_other(name) or find_baseline(name, recipe, root) for name in names if name]
    own = [find_target(text, root) for text in targets]
    chosen = list({target.name: target for target in (*baselines, *own)}.values())
    evaluation = Evaluation(EvaluationDir(FOLDER / setup.id), setup, items, chosen, recipe)
    with judge_log_hidden():
        run_evaluation(evaluation, os.environ, progress_reporter(as_json))
    summary = summarize(evaluation, [target.name for target in baselines])
    answer(
        evaluation_json(evaluation, *summary),
        "\n".join(evaluation_lines(evaluation, *summary)),
        as_json,
    )
    if all(result.estimate is None for result in summary[0]):
        raise typer.Exit(1)


def _run_of(targets: Sequence[str], root: Path) -> str:
    """The first target that is a run. UsageError where none is, or one is unknown."""
    from engine.evaluation.targets import find_target

    for text in targets:
        for name in (text, text.rpartition(":")[0]):
            with suppress(UsageError):
                return find_run(root, name).id
    for text in targets:
        find_target(text, root)
    raise UsageError("no target is a run: name the config that scores the answers with --config")


COMMAND = Command(evaluate, Task.MEASURE)
