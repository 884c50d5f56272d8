"""``grubrics-tui package``: pack a run into one zip file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from engine.base.quantities import format_size
from engine.run.run import find_run, runs_root
from grubrics_tui.commands.shared import Command, Task, answer, flag, option, options, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.report.package import Package


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
    from engine.report.package import write_package
    from grubrics_tui.commands.shared.evaluation_text import FOLDER

    chosen = find_run(runs_root(runs), run)
    file = out or Path(f"{chosen.id}.zip")
    written = write_package(chosen, file, evaluations=FOLDER, checkpoints=checkpoints, force=force)
    value = {
        "path": str(written.path),
        "sha256": written.sha256,
        "files": written.files,
        "bytes": written.bytes,
        "masked": list(written.masked),
        "left_out": dict(written.left_out),
        "active_step": written.active_step,
    }
    if written.active_step is not None:
        text = f"run '{chosen.id}' is still active: packed as of now, step {written.active_step}"
        say(f"warning: {text}", to=sys.stderr)
    answer(value, "\n".join(_lines(written)), as_json)


def _lines(written: Package) -> Iterator[str]:
    yield f"{written.path}: {written.files} files, {format_size(written.bytes)}"
    yield f"sha256 {written.sha256}"
    for name in written.masked:
        yield f"masked   {name}: secrets in it"
    for name, reason in written.left_out:
        yield f"left out {name}: {reason}"


COMMAND = Command(package, Task.KEEP)
