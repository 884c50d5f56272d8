"""``grubrics-tui prepare``: write the parquet files of a task from records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from engine.base.counts import count_of
from engine.base.errors import UsageError
from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.options import JsonOption, TaskOption
from grubrics_tui.commands.shared.output import answer

_DEFAULT = "questions"


def prepare(
    data: Annotated[
        list[Path],
        typer.Argument(
            metavar="DATA...",
            help="JSONL, JSON, CSV, TSV or parquet files; of puzzles, sets as chain_sum:500",
        ),
    ],
    task: TaskOption = _DEFAULT,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder of the files (default: data/ and DATA's stem, or TASK)"
        ),
    ] = None,
    val: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Validation records (default: a share of DATA's)"),
    ] = None,
    val_share: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of the prompts for validation")
    ] = 0.1,
    column: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=COLUMN", help="A column by another name: question=Frage"),
    ] = None,
    system: Annotated[
        str | None, typer.Option(metavar="TEXT", help="System message of every prompt")
    ] = None,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Chooses the validation prompts, and the puzzles")
    ] = 1,
    skip_unusable: Annotated[
        bool, typer.Option("--skip-unusable", help="Leave out records that are no examples")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write the training and validation files of a task.

    The files are train.parquet and val.parquet, with the columns that GRPO needs. A prompt that
    occurs twice is written once, and none is in both files.
    """
    from engine.data.prepare_task import PrepareOptions, prepare_task
    from engine.tasks.registry import find_task

    chosen = find_task(task)
    folder = out or Path("data", data[0].stem if chosen.make_records is None else chosen.name)
    columns = _columns(column or [], list(chosen.columns))
    options = PrepareOptions(folder, columns, system, val_share, seed, skip_unusable)
    prepared = prepare_task(chosen, data, val or [], options)
    value = {
        "task": chosen.name,
        "train": str(folder / "train.parquet"),
        "val": str(folder / "val.parquet"),
        "rows": {"train": prepared.train, "val": prepared.validation},
        "repeats": prepared.repeats,
        "unusable": prepared.unusable,
        "problems": prepared.problems,
        "limits": prepared.limits,
    }
    lines = [
        f"wrote {folder}/train.parquet ({count_of(prepared.train, 'prompt')}) and val.parquet "
        f"({count_of(prepared.validation, 'prompt')})"
    ]
    if prepared.repeats:
        lines.append(f"left out {count_of(prepared.repeats, 'repeated prompt')}")
    if prepared.unusable:
        lines.append(f"left out {count_of(prepared.unusable, 'record')}: {prepared.problems[0]}")
    lines += [f"warning: {limit}" for limit in prepared.limits]
    lines.append(f"next: grubrics-tui init {folder}/train.parquet --task {chosen.name}")
    answer(value, "\n".join(lines), as_json)


def _columns(given: list[str], known: list[str]) -> dict[str, str]:
    columns = {}
    for text in given:
        name, equals, column = text.partition("=")
        if not equals or name not in known:
            raise UsageError(
                f"--column {text}: write NAME=COLUMN, with a NAME of {', '.join(known)}"
            )
        columns[name] = column
    return columns


COMMAND = Command(prepare, Task.PREPARE)
