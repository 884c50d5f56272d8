"""The question before anything is done with a run that somebody else may have written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual.screen import Screen

from engine.base.errors import UsageError
from engine.runs.rundir import RunDir
from engine.runs.trust import Case, agree, objection
from grubrics_tui.screens.dialogs.confirm import YES, Answer, Confirm

if TYPE_CHECKING:
    from grubrics_tui.settings.settings import Settings

_ANSWERS = (Answer(YES, "trust exactly this", "a change of it asks again"),)


class ConfirmTrust(Confirm):
    """Shows who could have written a run and what it would do."""

    def __init__(self, case: Case) -> None:
        lines = [f"{case.subject}: {'; '.join(case.reasons)}.", "", *case.lines]
        super().__init__("trust the run?", "\n".join(lines), _ANSWERS, "do nothing with it")


def when_trusted(
    screen: Screen[None],
    runs: Sequence[RunDir],
    act: Callable[[], None],
    *,
    executes: bool = False,
) -> None:
    """Act on runs at once, or after a yes for each that is not simply acted on."""
    cases = (objection(run, executes=executes) for run in runs)
    case = next((case for case in cases if case is not None), None)
    if case is None:
        act()
        return
    settings: Settings | None = getattr(screen.app, "settings", None)
    if settings is not None and settings.read_only:
        screen.notify("the screen is read-only: nobody is trusted from here", markup=False)
        return

    def answered(key: str | None) -> None:
        if key is None:
            return
        try:
            agree(case)
        except UsageError as error:
            screen.notify(str(error), title="nothing was done", severity="error", markup=False)
        else:
            when_trusted(screen, runs, act, executes=executes)

    screen.app.push_screen(ConfirmTrust(case), answered)
