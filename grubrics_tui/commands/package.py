"""``grubrics-tui package``: pack a run into one zip file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from engine.runs.rundir import find_run, runs_root
from grubrics_tui.commands.shared import Command, Task, answer, flag, option, options, say
from grubrics_tui.text.formats import memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.reports.parcel import Parcel


def package(
    run: options.RunArgument,
    out: Annotated[
        Path | None, option("FILE.zip", "Zip file (default: RUN.zip)", "--out", "-o")
    ] = None,
    checkpoints: Annotated[
        bool, flag("Also pack complete checkpoints and the final model", "--checkpoints")
    ] = False,
    force: Annotated[bool, flag("Replace the file if it exists", "--force")] = False,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Pack a run into a zip file with SHA-256 digests.

    Its evaluations are packed too. Secrets in texts are masked. The same run gives the same bytes.
    To check a package: grubrics-tui verify.
    """
    from engine.reports.parcel import write_parcel
    from grubrics_tui.commands.shared.evaluation_text import FOLDER

    chosen = find_run(runs_root(runs), run)
    file = out or Path(f"{chosen.id}.zip")
    parcel = write_parcel(chosen, file, evaluations=FOLDER, checkpoints=checkpoints, force=force)
    value = {
        "path": str(parcel.path),
        "sha256": parcel.sha256,
        "files": parcel.files,
        "bytes": parcel.bytes,
        "masked": list(parcel.masked),
        "left_out": dict(parcel.left_out),
        "active_step": parcel.active_step,
    }
    if parcel.active_step is not None:
        text = f"run '{chosen.id}' is still active: packed as of now, step {parcel.active_step}"
        say(f"warning: {text}", to=sys.stderr)
    answer(value, "\n".join(_lines(parcel)), as_json)


def _lines(parcel: Parcel) -> Iterator[str]:
    yield f"{parcel.path}: {parcel.files} files, {memory(parcel.bytes)}"
    yield f"sha256 {parcel.sha256}"
    for name in parcel.masked:
        yield f"masked   {name}: secrets in it"
    for name, reason in parcel.left_out:
        yield f"left out {name}: {reason}"


COMMAND = Command(package, Task.KEEP)
