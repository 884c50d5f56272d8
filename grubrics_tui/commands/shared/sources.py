"""Runs and external logs that a command line names, for commands that take several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from engine.base.errors import UsageError
from engine.run.run import Run, find_run_not_file

if TYPE_CHECKING:
    from engine.report.groups import Grouping
    from grubrics_tui.model.run_source import Watched


T = TypeVar("T")


def open_source(root: Path, name: str, as_format: str | None) -> Watched:
    """A run by ID or directory, or an external log by its path. UsageError for neither."""
    from engine.logs.formats.external_run import open_external
    from engine.logs.formats.series import is_external

    if is_external(name):
        return open_external(Path(name), as_format)
    return Run(Path(name)) if Run(Path(name)).is_one() else find_run_not_file(root, name)


def find_all(find: Callable[[str], T], names: Iterable[str]) -> list[T]:
    """What the names stand for. UsageError that names all of them for which there is nothing."""
    found, problems = [], []
    for name in names:
        try:
            found.append(find(name))
        except UsageError as error:
            problems.append(str(error))
    if problems:
        raise UsageError("; ".join(dict.fromkeys(problems)))
    return found


def open_sources(root: Path, names: Iterable[str], as_format: str | None) -> list[Watched]:
    """Runs and external logs in the order of their names. UsageError that names all wrong ones."""
    return find_all(lambda name: open_source(root, name, as_format), names)


def open_comparison(root: Path, runs: Sequence[Watched], grouping: Grouping | None = None) -> None:
    """Open the screen that shows runs side by side."""
    from grubrics_tui.app.app import GrubricsApp
    from grubrics_tui.screens.navigation import OpenCompare
    from grubrics_tui.settings.comparison_marks import ComparisonMarks
    from grubrics_tui.settings.settings import load_settings

    opened = OpenCompare(runs, ComparisonMarks(), grouping)
    GrubricsApp(root, "grpo_tiny", compared=opened, loaded=load_settings()).run_to_end()
