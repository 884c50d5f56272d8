"""``grubrics-tui watch``: the live view of runs and external logs, or their steps as JSON lines."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.base.errors import UsageError, with_advice
from engine.run.history.live import RunWatch
from engine.run.run import Run, find_run_not_file, runs_root
from engine.run.state import observed_state
from grubrics_tui.commands.shared import Command, Task, on_terminal, options, print_json, say
from grubrics_tui.commands.shared.completions import complete_run
from grubrics_tui.commands.shared.options import argument, flag
from grubrics_tui.commands.shared.output import wait_for_more
from grubrics_tui.commands.shared.standard_input import STANDARD_INPUT, StandardInput

if TYPE_CHECKING:
    from engine.logs.formats.external_run import ExternalRun, ExternalWatch
    from engine.run.history.train_log import Step
    from grubrics_tui.model.run_source import Watched


def watch(
    run: Annotated[
        list[str],
        argument(
            "RUN|PATH...",
            "Run IDs, unique prefixes or directories, or external logs or their folders; "
            "- for stdin",
            autocompletion=complete_run,
        ),
    ],
    as_format: options.FormatOption = None,
    log: Annotated[bool, flag("Open the log view instead of the charts", "--log")] = False,
    follow: Annotated[
        bool, flag("Without a terminal: keep printing as an external log grows", "--follow")
    ] = False,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Open the live view of a run or an external log.

    Several are compared as they grow. An external log is the log of another trainer, or an offline
    W&B run. No file is changed.
    Without a terminal or with --json: prints one JSON object per step until the run ends, and exits
    with 1 if it does not finish.
    """
    from engine.logs.formats.series import is_external

    root = runs_root(runs)
    if len(run) > 1:
        _watch_several(run, as_format, root, on_screen=not as_json and on_terminal(), follow=follow)
        return
    (name,) = run
    if name == STANDARD_INPUT:
        _watch_input(as_format, root, on_screen=not as_json and sys.stdout.isatty(), log=log)
        return
    on_screen = not as_json and on_terminal()
    if is_external(name):
        if on_screen and log:
            _show_log(Path(name), root)
        elif on_screen:
            _show_external(Path(name), as_format, root)
        else:
            _print_external(Path(name), as_format, follow)
        return
    chosen = Run(Path(name)) if Run(Path(name)).is_one() else find_run_not_file(root, name)
    if on_screen and log:
        _show_log(chosen.attempt(observed_state(chosen).attempt).console, root)
    elif on_screen:
        _open_screen(root, watched=chosen)
    else:
        _print_run(chosen)


def _watch_input(as_format: str | None, root: Path, *, on_screen: bool, log: bool) -> None:
    """Watch standard input until it ends, or on the screen until the user leaves."""
    source = StandardInput(keyboard=on_screen)
    if on_screen and log:
        _show_log(source.path, root)
        return
    _wait_for_format(source, as_format, report=on_screen)
    from engine.logs.formats.external_run import open_external

    with source.named():
        run = open_external(source.path, as_format)
    if on_screen:
        _open_screen(root, watched=run)
        return
    watched = run.watch()
    while not source.has_ended.is_set():
        wait_for_more()
        _print_steps(watched.poll_steps().steps)
    while (news := watched.poll_steps()).read_share < 1.0:
        _print_steps(news.steps)
    _print_steps([*news.steps, *watched.rest()])


def _wait_for_format(source: StandardInput, as_format: str | None, *, report: bool) -> None:
    """Wait until what came shows a format, or until the end."""
    from engine.logs.formats.detect import detect

    if report:
        say("waiting for a known line on stdin (Ctrl-C quits) ...", to=sys.stderr)
    while not source.has_ended.is_set():
        wait_for_more()
        try:
            detect(source.path, as_format)
        except UsageError:
            continue
        return


def _watch_several(
    names: Sequence[str], as_format: str | None, root: Path, *, on_screen: bool, follow: bool
) -> None:
    """Show the comparison, or print the steps of all with the ID of their run."""
    from engine.report.compare import check_choice
    from engine.report.run_record import distinct_ids
    from grubrics_tui.commands.shared.sources import open_comparison, open_sources

    if STANDARD_INPUT in names:
        raise UsageError("'-' is watched alone; to compare it, use compare")
    sources = open_sources(root, names, as_format)
    ids = distinct_ids(sources)
    check_choice(ids)
    if on_screen:
        open_comparison(root, sources)
        return
    going = [_printer(id, source, follow) for id, source in zip(ids, sources, strict=True)]
    while going := [print_new for print_new in going if not print_new()]:
        wait_for_more()


def _printer(id: str, source: Watched, follow: bool) -> Callable[[], bool]:
    """What prints the new steps of a run, and returns whether no more will come."""
    if isinstance(source, Run):
        return partial(_print_new_of_run, id, RunWatch(source))
    return partial(_print_new_of_log, id, source.watch(), follow)


def _print_new_of_run(id: str, watch: RunWatch) -> bool:
    state, steps = watch.poll_steps()
    _print_steps(steps, id)
    return state.has_ended


def _print_new_of_log(id: str, watch: ExternalWatch, follow: bool) -> bool:
    news = watch.poll_steps()
    _print_steps(news.steps, id)
    if follow or news.read_share < 1.0:
        return False
    _print_steps(watch.rest(), id)
    return True


def _show_external(path: Path, as_format: str | None, root: Path) -> None:
    """Open the charts; for a console log without a step yet, the log view."""
    log = _open_external(path, as_format)
    if log.metrics or not log.format.is_console:
        _open_screen(root, watched=log)
    else:
        _open_screen(root, log=log.path)


def _open_external(path: Path, as_format: str | None) -> ExternalRun:
    """Return the external log. UsageError if it has no metrics, with what can open it as text."""
    from engine.logs.formats.external_run import open_external

    try:
        return open_external(path, as_format)
    except UsageError as error:
        if as_format is not None or not path.is_file() or not path.stat().st_size:
            raise
        name = shlex.quote(str(path))
        advice = (
            f"Open it as text: grubrics-tui watch --log {name}, or diagnose it: "
            f"grubrics-tui diagnose {name}"
        )
        raise UsageError(with_advice(error, advice)) from error


def _show_log(path: Path, root: Path) -> None:
    if path.is_dir():
        raise UsageError(f"{path} is a directory; --log needs a file")
    _open_screen(root, log=path)


def _open_screen(root: Path, *, watched: Watched | None = None, log: Path | None = None) -> None:
    from grubrics_tui.app.app import GrubricsApp
    from grubrics_tui.settings.settings import load_settings

    GrubricsApp(root, "grpo_tiny", watched=watched, log=log, loaded=load_settings()).run_to_end()


def _print_external(path: Path, as_format: str | None, follow: bool) -> None:
    from engine.logs.formats.external_run import require_steps

    watched = _open_external(path, as_format).watch()
    if not follow:
        _print_steps(require_steps(path, as_format))
        return
    while True:
        news = watched.poll_steps()
        _print_steps(news.steps)
        if news.read_share == 1.0:
            wait_for_more()


def _print_run(run: Run) -> None:
    from grubrics_tui.commands.shared.follow import parting, updates

    with parting(run):
        for state, steps in updates(run):
            _print_steps(steps)
            went_well = state.went_well
    if not went_well:
        raise typer.Exit(1)


def _print_steps(steps: Iterable[Step], id: str | None = None) -> None:
    for step in steps:
        print_json(step.to_json() if id is None else {"run": id, **step.to_json()})


COMMAND = Command(watch, Task.INSPECT)
