"""``--trust``: showing what a run would make this user do, and acting on it with consent."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from engine.runs.rundir import RunDir
from engine.runs.trust import Case, UntrustedError, agree, exposures, objection
from grubrics_tui.options import on_terminal, say

TrustOption = Annotated[
    bool,
    typer.Option(
        "--trust", help="Act on a run that somebody else may have written, once it was shown"
    ),
]


def require_trust(run: RunDir, trust: bool, *, executes: bool = False) -> None:
    """Show a run that somebody else may have written. UntrustedError unless it is trusted.

    Of a run that nobody else can write but that came from elsewhere, a person is asked.
    """
    case = objection(run, executes=executes)
    if case is None:
        return
    say("\n".join([f"run '{run.id}': {'; '.join(case.reasons)}", *case.lines]), to=sys.stderr)
    if not (trust or _agreed(case)):
        raise UntrustedError(case)
    agree(case)


def require_config_trust(config: str, trust: bool) -> None:
    """The same for a recipe that lies in a run's folder."""
    given = Path(config)
    named = Path("configs") / f"{given.name.removesuffix('.yaml')}.yaml"  # It may be a link.
    file = next((path for path in (given, named) if path.is_file()), None)
    if file is None:
        return
    above = (RunDir(folder) for folder in file.resolve().parents)
    run = next((run for run in above if run.is_one()), None)
    if run is not None:
        require_trust(run, trust, executes=True)


def _agreed(case: Case) -> bool:
    if exposures(case.run) or not on_terminal():
        return False
    return input("Trust what is shown? [y/N] ").strip().lower() in ("y", "yes")
