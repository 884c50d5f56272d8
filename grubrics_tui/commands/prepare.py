"""``grubrics-tui prepare``: write the parquet files of a task or benchmark from records."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.base.errors import UsageError
from engine.base.quantities import format_count
from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.options import JsonOption
from grubrics_tui.commands.shared.output import answer
from grubrics_tui.commands.shared.progress import record_progress

if TYPE_CHECKING:
    from engine.data.hub_data import HubChoice, Inputs
    from engine.data.prepare_task import Prepared, PrepareOptions
    from engine.tasks import task as tasks

_WIDE = 0.1
"""Of a rate; fewer than 93 prompts tell less."""
_TASK, _VAL_SHARE, _BENCHMARKS = "questions", 0.1, Path("data/benchmarks")


def prepare(
    data: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="DATA...",
            help="JSONL, JSON, CSV, TSV or parquet files; data sets of the Hugging Face hub, as "
            "openai/gsm8k or hf://datasets/openai/gsm8k; functions that make records, as "
            "env.py:make:500; of puzzles, sets as chain_sum:500. A benchmark needs none",
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            metavar="TASK",
            help="Task of the prompts, which also scores the answers; rows: your own reward "
            f"function does (default: {_TASK})",
        ),
    ] = None,
    benchmark: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Write one file for evaluate: gsm8k, math, squad_v2, hotpotqa, humaneval or mbpp",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of the files (default: data/ and DATA's stem, or TASK; "
            f"{_BENCHMARKS} for benchmarks)",
        ),
    ] = None,
    val: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Validation records (default: a share of DATA's)"),
    ] = None,
    val_share: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE", help=f"Share of the prompts for validation (default: {_VAL_SHARE})"
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Split of a data set of the hub (default: train, or the only one; of a "
            "benchmark, its usual one)",
        ),
    ] = None,
    val_split: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Split of DATA on the hub for validation"),
    ] = None,
    config_name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Config of a data set of the hub (default: its default)"),
    ] = None,
    revision: Annotated[
        str | None,
        typer.Option(
            metavar="REV",
            help="Branch, tag or commit of a data set of the hub (default: the newest commit)",
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=COLUMN", help="A column by another name: question=Frage"),
    ] = None,
    system: Annotated[
        str | None, typer.Option(metavar="TEXT", help="System message of every prompt")
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Chooses the validation prompts, the puzzles, and the order of a benchmark; "
            "functions get it",
        ),
    ] = 1,
    skip_unusable: Annotated[
        bool, typer.Option("--skip-unusable", help="Leave out records that are no examples")
    ] = False,
    blocklist: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Leave out records whose prompt or right answer contains a text of FILE, one a "
            "line, in any case",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write the data files of a task, or a benchmark.

    Records come from files, data sets of the Hugging Face hub, or your own function. The files are
    train.parquet and val.parquet, with the columns that GRPO needs. A prompt that occurs twice is
    written once, and none is in both files. A benchmark is one file for evaluate.
    """
    from engine.data.hub_data import HubChoice
    from engine.data.prepare_task import PrepareOptions, parse_columns
    from engine.tasks.registry import find_format

    choice = HubChoice(split, config_name, revision)
    if benchmark is not None:
        decided = {
            "--task": task,
            "--val": val,
            "--val-split": val_split,
            "--val-share": val_share,
            "--column": column,
        }
        for option, given in decided.items():
            if given:
                raise UsageError(f"--benchmark {benchmark} decides the prompts; leave out {option}")
        folder = out or _BENCHMARKS
        options = PrepareOptions(folder, {}, system, _VAL_SHARE, seed, skip_unusable, blocklist)
        answer(*_prepare_benchmark(benchmark, data or [], choice, options, as_json), as_json)
        return
    if not data:
        raise UsageError("name the DATA: files, data sets of the hub or functions")
    chosen = find_format(task or _TASK)
    makes_records = chosen.make_records is not None
    folder = out or Path("data", chosen.name if makes_records else data[0].stem)
    columns = parse_columns(column or [], chosen)
    share = _VAL_SHARE if val_share is None else val_share
    options = PrepareOptions(folder, columns, system, share, seed, skip_unusable, blocklist)
    answer(*_prepare_task(chosen, data, val or [], choice, val_split, options, as_json), as_json)


def _prepare_benchmark(
    name: str, data: Sequence[Path], choice: HubChoice, options: PrepareOptions, as_json: bool
) -> tuple[dict[str, Any], str]:
    """Write the file of a benchmark; what was written as JSON and as text."""
    from engine.data.benchmarks import find_benchmark
    from engine.data.hub_data import find_inputs
    from engine.data.prepare_task import prepare_benchmark

    benchmark = find_benchmark(name)
    inputs = find_inputs(data or [benchmark.hub], choice, os.environ, usual=benchmark.hub)
    with record_progress(as_json) as report:
        options = replace(options, names=inputs.names)
        prepared = prepare_benchmark(benchmark, inputs.paths, options, report)
    file = options.folder / f"{benchmark.name}.parquet"
    value = {
        "benchmark": benchmark.name,
        "task": benchmark.task.name,
        "data": str(file),
        "rows": prepared.validation,
        **_remarks(prepared, inputs),
    }
    lines = [
        f"wrote {file} ({format_count(prepared.validation, 'prompt')})",
        *prepared.format_remarks(),
        *(f"warning: {limit}" for limit in prepared.limits),
        *(f"read {data}" for data in inputs.data),
        f"next: grubrics-tui evaluate TARGET --data {file}",
    ]
    return value, "\n".join(lines)


def _prepare_task(
    task: tasks.RecordFormat,
    data: Sequence[Path],
    val: Sequence[Path],
    choice: HubChoice,
    val_split: str | None,
    options: PrepareOptions,
    as_json: bool,
) -> tuple[dict[str, Any], str]:
    """Write the two files of a task; what was written as JSON and as text."""
    from engine.data.hub_data import find_task_inputs
    from engine.data.prepare_task import prepare_task
    from engine.tasks.task import Task as ScoredTask

    train, held_out = find_task_inputs(data, val, choice, val_split, os.environ)
    inputs = train + held_out
    with record_progress(as_json) as report:
        options = replace(options, names=inputs.names)
        prepared = prepare_task(task, train.paths, held_out.paths, options, report)
    own, folder = "--reward FILE.py", options.folder
    scored = [f"--task {task.name}", own] if isinstance(task, ScoredTask) else [own]
    others = [name for name in prepared.fits or () if name != task.name]
    value = {
        "task": task.name,
        "train": str(folder / "train.parquet"),
        "val": str(folder / "val.parquet"),
        "rows": {"train": prepared.train, "val": prepared.validation},
        "other_tasks": others,
        "unused_columns": prepared.unused,
        **_remarks(prepared, inputs),
    }
    lines = [
        *format_prepared(prepared, folder),
        *(f"read {data}" for data in inputs.data),
        *([f"other tasks for such records: {', '.join(others)} (--task TASK)"] if others else []),
        *(
            f"{word} grubrics-tui init {folder}/train.parquet {option}"
            for word, option in zip(("next:", "or:"), scored, strict=False)
        ),
    ]
    return value, "\n".join(lines)


def format_prepared(prepared: Prepared, folder: Path) -> Iterator[str]:
    """The lines about the two files of a task that were written to the folder."""
    from engine.base.intervals import estimate_rate

    yield (
        f"wrote {folder}/train.parquet ({format_count(prepared.train, 'prompt')}) and val.parquet "
        f"({format_count(prepared.validation, 'prompt')})"
    )
    yield from prepared.format_remarks()
    yield from (f"warning: {limit}" for limit in prepared.limits)
    width = estimate_rate(prepared.validation // 2, prepared.validation).half_width or 0.0
    if width > _WIDE:
        few = f"{format_count(prepared.validation, 'validation prompt')}: a rate of right answers"
        interval = f"has a 95% interval of up to ±{100 * width:.0f} percentage points"
        yield f"note: {few} {interval}; --val-share or --val FILE gives more prompts"


def _remarks(prepared: Prepared, inputs: Inputs) -> dict[str, Any]:
    return {
        "hub": [data.to_json() for data in inputs.data],
        "repeats": prepared.repeats,
        "unusable": prepared.unusable,
        "problems": prepared.problems,
        "limits": prepared.limits,
        "blocked": prepared.blocked and prepared.blocked.counts,
    }


COMMAND = Command(prepare, Task.PREPARE)
