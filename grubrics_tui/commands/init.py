"""``grubrics-tui init``: write a first config for a data file."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from grubrics_tui.commands.prepare import format_prepared
from grubrics_tui.commands.shared import Command, Task, answer, argument, option, options
from grubrics_tui.commands.shared.progress import record_progress


def init(
    data: Annotated[
        Path,
        argument(
            "DATA",
            "Conversations or pairs of a prompt and a response (SFT), rows in verl's format "
            "(GRPO); with --task or --reward whatever grubrics-tui prepare reads",
        ),
    ],
    name: Annotated[str | None, option("NAME", "Name of the config (default: DATA's stem)")] = None,
    model: Annotated[
        str | None,
        option("MODEL", "Folder or hub name of the model (default: Qwen/Qwen2.5-0.5B-Instruct)"),
    ] = None,
    task: Annotated[
        str | None, option("TASK", "Task that scores the answers and prepares DATA if necessary")
    ] = None,
    reward: Annotated[
        str | None,
        option(
            "FILE[:FUNCTION]",
            "Your reward function, which scores the answers (default function: compute_score)",
        ),
    ] = None,
    tools: Annotated[
        Path | None, option("FILE", "Python file of tools that the model may call")
    ] = None,
    column: Annotated[
        list[str] | None, option("NAME=COLUMN", "A column by another name: question=Frage")
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Write a first config for a data file to configs/.

    With --task or --reward, records such as questions and answers are prepared first, in data/ and
    the config's name. Without them, rows in verl's format without gold scores get verl's own score
    of their data_source if it pays for right answers, and otherwise a reward function in rewards/,
    which compares the final answer of a response with the ground truth: adapt it to your task.
    """
    from engine.launch.new_config import write_config

    with record_progress(as_json) as report:
        new = write_config(
            data,
            name,
            model,
            task=task,
            reward=reward,
            tools=tools,
            columns=column or (),
            report=report,
        )
    lines = [f"wrote {new.path}"]
    if new.prepared is not None:
        lines = [*format_prepared(new.prepared, new.data.parent), *lines]
    lines += [f"note: {note}" for note in new.notes]
    if new.reward is not None:
        lines.append(f"wrote {new.reward}: edit how a response is scored")
    if new.missing is not None:
        split = f"grubrics-tui prepare {shlex.quote(str(data))} --task rows"
        lines.append(f"create {new.missing} in the format of {data}, or split it: {split}")
    lines.append(f"next: grubrics-tui check {new.name}")
    value = {
        "config": str(new.path),
        "name": new.name,
        "data": str(new.data),
        "reward": None if new.reward is None else str(new.reward),
        "notes": list(new.notes),
    }
    answer(value, "\n".join(lines), as_json)


COMMAND = Command(init, Task.PREPARE)
