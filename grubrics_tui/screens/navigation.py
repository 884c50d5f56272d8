"""Messages with which a screen asks the app to open another one, or to notify the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

from engine.run.run import Run
from grubrics_tui.settings.comparison_marks import ComparisonMarks

if TYPE_CHECKING:
    from engine.measure.ablations.plan import AblationPlan
    from engine.report.groups import Grouping
    from engine.run.finding import Finding
    from grubrics_tui.model.run_source import Watched


@dataclass
class OpenRun(Message):
    """Show the live view of a run, or of another program's log."""

    run: Watched


@dataclass
class OpenPreflight(Message):
    """Show the preflight checks of a config; with an empty name, choose one first."""

    config: str


@dataclass
class LaunchAgain(Message):
    """Show the preflight checks of a run's config, and edit its overrides first."""

    run: str


@dataclass
class OpenSummary(Message):
    """Show the summary of an ended run."""

    run: Run


@dataclass
class OpenRollouts(Message):
    """Show the rollouts of a run at ``step``, or at the latest one; with ``group`` and ``rollout``,
    one of that step."""

    run: Run
    step: int | None = None
    group: str = ""
    rollout: int | None = None


@dataclass
class OpenConfig(Message):
    """Show the configuration of a run or an external log."""

    run: Watched


@dataclass
class OpenCompare(Message):
    """Show runs side by side, in the colors that ``marks`` gives them. ``grouping`` makes columns
    of them; None: those that differ only in their seeds together."""

    runs: Sequence[Watched]
    marks: ComparisonMarks
    grouping: Grouping | None = None


@dataclass
class OpenAblation(Message):
    """Show the table of an ablation."""

    plan: AblationPlan


@dataclass
class OpenGuide(Message):
    """Plan an ablation of a config or a run; with an empty name, choose one first."""

    base: str
    overrides: Sequence[str] = ()


class OpenOrphans(Message):
    """Show orphaned processes of ended runs."""


@dataclass
class ShowNotice(Message):
    """Tell the user of a result on the screen that is open by then."""

    text: str
    failed: bool = False


@dataclass
class OpenLog(Message):
    """Show a log file on the whole screen, at the line that holds byte ``offset`` or at its end."""

    path: Path
    title: str = ""
    offset: int | None = None


@dataclass
class OpenFindings(Message):
    """Show the findings of a run or an external log.

    ``findings`` are shown until the first diagnosis is complete.
    """

    run: Watched
    findings: Sequence[Finding] = ()


@dataclass
class OpenLogEntry(Message):
    """Show the form for a run's entry in the experiment log."""

    run: Run


@dataclass
class OpenDecision(Message):
    """Show the form for a decision; ``context`` is what is known already."""

    context: str
