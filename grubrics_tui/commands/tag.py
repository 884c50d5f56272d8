"""``grubrics-tui tag``: add, remove or print the tags of a run."""

from __future__ import annotations

from typing import Annotated

from engine.base.errors import UsageError
from engine.run.notes import add_tags, read_notes, remove_tags
from engine.run.run import find_run, runs_root
from grubrics_tui.commands.shared import Command, Task, answer, argument, flag, options
from grubrics_tui.commands.shared.trust import require_trust


def tag(
    run: options.RunArgument,
    tags: Annotated[
        list[str] | None, argument("[TAG...]", "Tags to add; omit to print the current tags")
    ] = None,
    remove: Annotated[bool, flag("Remove these tags", "--remove")] = False,
    trust: options.TrustOption = False,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Add, remove or print the tags of a run.

    `grubrics-tui runs --filter tag:NAME` lists the runs with a tag.
    """
    chosen = find_run(runs_root(runs), run)
    if remove and not tags:
        raise UsageError("--remove: name the tags to remove")
    if tags:
        require_trust(chosen, trust)
        notes = remove_tags(chosen, tags) if remove else add_tags(chosen, tags)
    else:
        notes = read_notes(chosen)
    value = {"run": chosen.id, "tags": list(notes.tags), "note": notes.text}
    answer(value, " ".join(notes.tags) or "no tags", as_json)


COMMAND = Command(tag, Task.KEEP)
