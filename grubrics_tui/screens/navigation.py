"""Messages with which a screen asks the app to open another one, or to notify the user."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

from engine.runs.rundir import RunDir
from grubrics_tui.settings.comparison_marks import ComparisonMarks

if TYPE_CHECKING:
    from engine.ablations.plan import AblationPlan
    from engine.findings.finding import Finding
    from engine.reports.groups import Grouping
    from grubrics_tui.model.run_source import Watched


class OpenRun(Message):
    """Show the live view of a run, or of another program's log."""

    def __init__(self, run: Watched) -> None:
        super().__init__()
        self.run = run


class OpenChecklist(Message):
    """Show the preflight checks of a config; with an empty name, choose one first."""

    def __init__(self, config: str) -> None:
        super().__init__()
        self.config = config


class LaunchAgain(Message):
    """Show the preflight checks of a run's config, and edit its overrides first."""

    def __init__(self, run: str) -> None:
        super().__init__()
        self.run = run


class OpenSummary(Message):
    """Show the summary of an ended run."""

    def __init__(self, run: RunDir) -> None:
        super().__init__()
        self.run = run


class OpenRollouts(Message):
    """Show the rollouts of a run at ``step``, or at the latest one; with ``group`` and ``rollout``,
    one of that step."""

    def __init__(
        self, run: RunDir, step: int | None = None, group: str = "", rollout: int | None = None
    ) -> None:
        super().__init__()
        self.run, self.step, self.group, self.rollout = run, step, group, rollout


class OpenConfig(Message):
    """Show the configuration of a run or an external log."""

    def __init__(self, run: Watched) -> None:
        super().__init__()
        self.run = run


class OpenCompare(Message):
    """Show runs side by side, in the colors that ``marks`` gives them. ``grouping`` makes columns
    of them; None: those that differ only in their seeds together."""

    def __init__(
        self,
        runs: Sequence[Watched],
        marks: ComparisonMarks,
        grouping: Grouping | None = None,
    ) -> None:
        super().__init__()
        self.runs, self.marks, self.grouping = runs, marks, grouping


class OpenAblation(Message):
    """Show the table of an ablation."""

    def __init__(self, plan: AblationPlan) -> None:
        super().__init__()
        self.plan = plan


class OpenGuide(Message):
    """Plan an ablation of a config or a run; with an empty name, choose one first."""

    def __init__(self, base: str, overrides: Sequence[str] = ()) -> None:
        super().__init__()
        self.base, self.overrides = base, overrides


class OpenLeftovers(Message):
    """Show orphaned processes of ended runs."""


class ShowNotice(Message):
    """Tell the user of a result on the screen that is open by then."""

    def __init__(self, text: str, *, failed: bool = False) -> None:
        super().__init__()
        self.text, self.failed = text, failed


class OpenLog(Message):
    """Show a log file on the whole screen, at the line that holds byte ``offset`` or at its end."""

    def __init__(self, path: Path, title: str = "", offset: int | None = None) -> None:
        super().__init__()
        self.path, self.title, self.offset = path, title, offset


class OpenFindings(Message):
    """Show the findings of a run or an external log.

    ``findings`` are shown until the first diagnosis is complete.
    """

    def __init__(self, run: Watched, findings: Sequence[Finding] = ()) -> None:
        super().__init__()
        self.run, self.findings = run, findings


class OpenLogEntry(Message):
    """Show the form for a run's entry in the experiment log."""

    def __init__(self, run: RunDir) -> None:
        super().__init__()
        self.run = run


class OpenDecision(Message):
    """Show the form for a decision; ``context`` is what is known already."""

    def __init__(self, context: str) -> None:
        super().__init__()
        self.context = context
