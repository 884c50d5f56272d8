"""Runs and external logs that a command line names, for commands that take several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from engine.runs.rundir import RunDir, find_run

if TYPE_CHECKING:
    from engine.reports.groups import Grouping
    from grubrics_tui.model.run_source import Watched


def open_source(root: Path, name: str, as_format: str | None) -> Watched:
    """A run by ID or directory, or an external log by its path. UsageError for neither."""
    from engine.formats.external_run import open_external
    from engine.formats.series import is_external

    if is_external(name):
        return open_external(Path(name), as_format)
    return RunDir(Path(name)) if RunDir(Path(name)).is_one() else find_run(root, name)


def open_comparison(root: Path, runs: Sequence[Watched], grouping: Grouping | None = None) -> None:
    """Open the screen that shows runs side by side."""
    from grubrics_tui.app.app import GrubricsApp
    from grubrics_tui.screens.navigation import OpenCompare
    from grubrics_tui.settings.comparison_marks import ComparisonMarks
    from grubrics_tui.settings.settings import load_settings

    opened = OpenCompare(runs, ComparisonMarks(), grouping)
    GrubricsApp(root, "grpo_tiny", compared=opened, loaded=load_settings()).run_to_end()
