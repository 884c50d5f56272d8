"""``grubrics-tui watch``: the live view of a run or an external log, or its steps as JSON lines."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.base.errors import UsageError
from engine.runs.rundir import RunDir, find_run, runs_root
from engine.runs.state import observed_state
from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.options import (
    FormatOption,
    JsonOption,
    RunOrLogArgument,
    RunsOption,
)
from grubrics_tui.commands.shared.output import on_terminal, print_json

if TYPE_CHECKING:
    from engine.formats.external_run import ExternalRun
    from engine.history.train_log import Step
    from grubrics_tui.model.run_source import Watched


_POLL_S = 0.3


def watch(
    run: RunOrLogArgument,
    as_format: FormatOption = None,
    log: Annotated[
        bool, typer.Option("--log", help="Open the log view instead of the charts")
    ] = False,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Without a terminal: keep printing as an external log grows"),
    ] = False,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Open the live view of a run or an external log.

    An external log is the log of another trainer, or an offline W&B run. No file is changed.
    Without a terminal or with --json: prints one JSON object per step until the run ends, and exits
    with 1 if it does not finish.
    """
    from engine.formats.series import is_external

    root = runs_root(runs)
    on_screen = not as_json and on_terminal()
    if is_external(run):
        if on_screen and log:
            _show_log(Path(run), root)
        elif on_screen:
            _show_external(Path(run), as_format, root)
        else:
            _print_external(Path(run), as_format, follow)
        return
    chosen = RunDir(Path(run)) if RunDir(Path(run)).is_one() else find_run(root, run)
    if on_screen and log:
        _show_log(chosen.attempt(observed_state(chosen).attempt).console, root)
    elif on_screen:
        _open_screen(root, watched=chosen)
    else:
        _print_run(chosen)


def _show_external(path: Path, as_format: str | None, root: Path) -> None:
    """Open the charts; for a console log without a step yet, the log view."""
    log = _open_external(path, as_format)
    if log.metrics or not log.format.is_console:
        _open_screen(root, watched=log)
    else:
        _open_screen(root, log=log.path)


def _open_external(path: Path, as_format: str | None) -> ExternalRun:
    """Return the external log. UsageError if it has no metrics, with what can open it as text."""
    from engine.formats.external_run import open_external

    try:
        return open_external(path, as_format)
    except UsageError as error:
        if as_format is not None or not path.is_file() or not path.stat().st_size:
            raise
        name = shlex.quote(str(path))
        raise UsageError(
            f"{error}. Open it as text: grubrics-tui watch --log {name}, or diagnose it: "
            f"grubrics-tui diagnose {name}"
        ) from error


def _show_log(path: Path, root: Path) -> None:
    if path.is_dir():
        raise UsageError(f"{path} is a directory; --log needs a file")
    _open_screen(root, log=path)


def _open_screen(root: Path, *, watched: Watched | None = None, log: Path | None = None) -> None:
    from grubrics_tui.app.app import GrubricsApp
    from grubrics_tui.settings.settings import load_settings

    GrubricsApp(root, "grpo_tiny", watched=watched, log=log, loaded=load_settings()).run()


def _print_external(path: Path, as_format: str | None, follow: bool) -> None:
    from engine.formats.external_run import require_steps

    watched = _open_external(path, as_format).watch()
    if not follow:
        _print_steps(require_steps(path, as_format))
        return
    while True:
        news = watched.poll_steps()
        _print_steps(news.steps)
        if news.read_share == 1.0:
            time.sleep(_POLL_S)


def _print_run(run: RunDir) -> None:
    from grubrics_tui.commands.shared.follow import parting, updates

    with parting(run):
        for state, steps in updates(run):
            _print_steps(steps)
            went_well = state.went_well
    if not went_well:
        raise typer.Exit(1)


def _print_steps(steps: Iterable[Step]) -> None:
    for step in steps:
        print_json(step.to_json())


COMMAND = Command(watch, Task.INSPECT)
