"""``grubrics-tui verify``: check a package of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.base.typed import to_json
from grubrics_tui.commands.shared import Command, Task, answer, argument, options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.report.package import PackageCheck


def verify(
    path: Annotated[Path, argument("FILE.zip|FOLDER", "Package, or the folder it was unpacked to")],
    as_json: options.JsonOption = False,
) -> None:
    """Check a package against its SHA-256 digests.

    Names changed, missing and extra files, and exits with 1 if there are any.
    """
    from engine.report.package import check_package

    check = check_package(path)
    value = {**to_json(check), "ok": not check.problems}
    answer(value, "\n".join(_lines(check)), as_json)
    raise typer.Exit(1 if check.problems else 0)


def _lines(check: PackageCheck) -> Iterator[str]:
    for problem in check.problems:
        detail = f" ({problem.detail})" if problem.detail else ""
        yield f"{problem.kind:<8} {problem.name}{detail}"
    files = "1 file" if check.files == 1 else f"{check.files} files"
    yield f"{check.path}: {files} as listed" + (
        f", {len(check.problems)} not" if check.problems else ""
    )


COMMAND = Command(verify, Task.KEEP)
