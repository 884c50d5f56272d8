"""Ask before anything is done with a run that somebody else may have written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from textual.screen import Screen

from engine.base.errors import UsageError
from engine.runs.rundir import RunDir
from engine.runs.trust import Case, agree, objection
from grubrics_tui.screens.dialogs.confirm import YES, Answer, Confirm, Question

if TYPE_CHECKING:
    from grubrics_tui.settings.settings import Settings


def trust_question(case: Case) -> Question[bool]:
    """Who could have written the run, and what it would do."""
    lines = [f"Not trusted yet: {'; '.join(case.reasons)}.", "", *case.lines]
    answer = Answer(YES, "trust this version", True, "asks again after a change")
    return Question(f"Trust {case.subject}?", "\n".join(lines), (answer,))


def when_trusted(
    screen: Screen[Any],
    runs: Sequence[RunDir],
    act: Callable[[], None],
    *,
    executes: bool = False,
) -> None:
    """Call ``act`` at once, or after the user has agreed for each run that is not trusted yet."""
    cases = (objection(run, executes=executes) for run in runs)
    case = next((case for case in cases if case is not None), None)
    if case is None:
        act()
        return
    settings: Settings | None = getattr(screen.app, "settings", None)
    if settings is not None and settings.read_only:
        screen.notify("Not available in read-only mode: the run is not trusted", markup=False)
        return

    def answered(is_trusted: bool | None) -> None:
        if not is_trusted:
            return
        try:
            agree(case)
        except UsageError as error:
            screen.notify(str(error), title="nothing was done", severity="error", markup=False)
        else:
            when_trusted(screen, runs, act, executes=executes)

    screen.app.push_screen(Confirm(trust_question(case)), answered)
