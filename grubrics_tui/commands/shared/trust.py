"""``--trust``: showing what a run would make this user do, and acting on it with consent."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from engine.runs.rundir import RunDir
from engine.runs.trust import Case, UntrustedError, agree, objection
from grubrics_tui.commands.shared.output import on_terminal, say

if TYPE_CHECKING:
    from engine.recipe.recipe import Recipe


def require_trust(run: RunDir, trust: bool, *, executes: bool = False) -> None:
    """Show a run that somebody else may have written. UntrustedError unless it is trusted.

    Of a run that nobody else can write but that came from elsewhere, a person is asked.
    """
    _settle(objection(run, executes=executes), trust)


def require_run_code_trust(run: RunDir, trust: bool) -> None:
    """``require_trust`` for what executes a run, and ``require_code_trust`` for its recipe."""
    from engine.recipe.recipe import load_recipe

    require_trust(run, trust, executes=True)
    if trust and run.recipe.is_file():
        require_code_trust(load_recipe(str(run.recipe), (), {}), trust)


def require_code_trust(recipe: Recipe, trust: bool) -> None:
    """The same for the files outside of a run that a launch of the recipe would execute."""
    from engine.recipe.executed import code_objection

    _settle(code_objection(recipe), trust)


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


def _settle(case: Case | None, trust: bool) -> None:
    if case is None:
        return
    say("\n".join([f"{case.subject}: {'; '.join(case.reasons)}", *case.lines]), to=sys.stderr)
    if not (trust or _agreed(case)):
        raise UntrustedError(case)
    agree(case)


def _agreed(case: Case) -> bool:
    if case.is_exposed or not on_terminal():
        return False
    return input("Trust what is shown? [y/N] ").strip().lower() in ("y", "yes")
