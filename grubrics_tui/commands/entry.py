"""``grubrics-tui entry``: draft the experiment-log entry of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from engine.run.run import find_run, runs_root
from grubrics_tui.commands.shared import Command, Task, answer, flag, option, options
from grubrics_tui.commands.shared.trust import require_trust


def entry(
    run: options.RunArgument,
    append: Annotated[bool, flag("Append the entry to the file", "--append")] = False,
    title: Annotated[str | None, option("TEXT", "Title (default: drafted from the run)")] = None,
    question: Annotated[
        str | None, option("TEXT", "Research question that the run addresses")
    ] = None,
    observations: Annotated[
        str | None, option("TEXT", "Observations (default: drafted from the run)")
    ] = None,
    decision: Annotated[str | None, option("TEXT", "Decision for the next run")] = None,
    file: Annotated[Path, option("FILE", "Experiment log, a Markdown file")] = Path(
        "docs/experiment-log.md"
    ),
    trust: options.TrustOption = False,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Draft a run's experiment-log entry; --append saves it."""
    import dataclasses

    from engine.report.entry import append_entry, draft_entry, render

    given = {
        "title": title,
        "question": question,
        "observations": observations,
        "decision": decision,
    }
    changes = {key: value for key, value in given.items() if value is not None}
    chosen = find_run(runs_root(runs), run)
    if append:
        require_trust(chosen, trust)
    entry = dataclasses.replace(draft_entry(chosen), **changes)
    if append:
        entry = dataclasses.replace(entry, id=append_entry(file, entry))
    value = {
        "id": entry.id,
        "entry": entry,
        "markdown": render(entry),
        "appended_to": str(file) if append else None,
    }
    text = f"appended {entry.id} to {file}" if append else render(entry)
    if append and entry.until:
        text += f". Run {chosen.id} is still active: append its final entry when it has ended"
    answer(value, text, as_json)


COMMAND = Command(entry, Task.KEEP)
