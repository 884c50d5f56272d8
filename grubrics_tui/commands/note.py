"""``grubrics-tui note``: write or print the note of a run."""

from __future__ import annotations

from typing import Annotated

from engine.run.notes import read_notes, write_note
from engine.run.run import find_run, runs_root
from grubrics_tui.commands.shared import Command, Task, answer, argument, options
from grubrics_tui.commands.shared.trust import require_trust


def note(
    run: options.RunArgument,
    text: Annotated[
        str | None, argument("[TEXT]", 'Note text; omit to print it, "" to delete it')
    ] = None,
    trust: options.TrustOption = False,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Write, delete or print the note of a run."""
    chosen = find_run(runs_root(runs), run)
    if text is not None:
        require_trust(chosen, trust)
    notes, before = (read_notes(chosen), "") if text is None else write_note(chosen, text)
    replaced = {"replaced": before} if before not in ("", notes.text) else {}
    value = {"run": chosen.id, "tags": list(notes.tags), "note": notes.text, **replaced}
    lines = [notes.text or "no note", *(f"replaced: {text}" for text in replaced.values())]
    answer(value, "\n".join(lines), as_json)


COMMAND = Command(note, Task.KEEP)
