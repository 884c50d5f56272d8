"""``grubrics-tui adopt``: put a run that was launched elsewhere into the list."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from engine.base.text import format_command
from engine.run.run import runs_root
from grubrics_tui.commands.shared import Command, Task, answer, argument, option, options, warn


def adopt(
    target: Annotated[
        str, argument("PID|PATH", "A process of yours, or a log or the folder of a run")
    ],
    name: Annotated[str | None, option("ID", "Run ID (default: PROGRAM-TIMESTAMP)")] = None,
    log: Annotated[
        list[Path] | None,
        option(
            "FILE",
            "File that the process prints to (default: its stdout and stderr); may be repeated",
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        option(
            "PATH|PATTERN",
            "File or folder of metrics that the process writes, or a pattern of lines, e.g. "
            r"'iter (?P<step>\d+): loss (?P<loss>\S+)' (default: known formats)",
        ),
    ] = None,
    as_format: Annotated[
        str | None,
        option("FORMAT", "Format of its metrics (default: detected from content)", "--as"),
    ] = None,
    dry_run: options.DryRunOption = False,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """List and follow a run that was launched elsewhere.

    Its files are only read. A process can be stopped like a run, after a question.
    """
    from engine.launch.adopt import adopt as start
    from engine.launch.adopt import plan_adoption

    plan = plan_adoption(
        target, runs_root(runs), name=name, logs=log or (), metrics=metrics, log_format=as_format
    )
    value = plan.to_json()
    if plan.adopted.process is not None and not plan.adopted.logs:
        warn([f"{plan.adopted.where} prints to no file, so its log is unknown; name it with --log"])
    if plan.other_tags:
        limits = "letters, digits, '.', '_', '-', at most 40 of them, and 20 tags"
        warn([f"these tags are left out, because those of a run have {limits}: {plan.other_tags}"])
    if dry_run:
        answer(value, f"dry run: {_describe(value)}; nothing was written", as_json)
        return
    run = start(plan)
    text = f"{_describe(value)}\nadopted as {run.id}; open it: grubrics-tui watch {run.id}"
    answer(value, text, as_json)


def _describe(value: dict[str, object]) -> str:
    argv, logs = value["argv"], value["logs"]
    assert isinstance(argv, list) and isinstance(logs, list)
    lines = [
        f"process {value['pid']}: {format_command(argv)}" if value["pid"] else str(value["path"])
    ]
    lines += [f"log {path}" for path in logs]
    return "; ".join(lines)


COMMAND = Command(adopt, Task.RUN)
