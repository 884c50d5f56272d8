"""``grubrics-tui runs``: list the runs."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.runs.registry import RunInfo
from engine.runs.rundir import archive_root, runs_root
from engine.runs.state import describe
from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.options import JsonOption, RunsOption
from grubrics_tui.commands.shared.output import print_json, say
from grubrics_tui.commands.shared.run_text import health_json, with_health
from grubrics_tui.text.formats import step_of
from grubrics_tui.text.terminal_text import clean_texts

if TYPE_CHECKING:
    from engine.doctor.health import Health


_EXAMINE_S = 2.0
"""``runs`` lets the doctor examine new runs for so many seconds of CPU; the next call continues."""


def list_runs(
    archived: Annotated[
        bool, typer.Option("--archived", help="List the archived runs instead")
    ] = False,
    chosen: Annotated[
        str | None,
        typer.Option("--filter", metavar="EXPR", help="state:failed tag:x reward/mean>0.5 ..."),
    ] = None,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the runs, newest first."""
    with _without_collection():
        _list_runs(archived, chosen, runs, as_json)


@contextmanager
def _without_collection() -> Iterator[None]:
    """Ten thousand rows live until they are printed: a search for garbage finds none."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _list_runs(archived: bool, chosen: str | None, runs: str | None, as_json: bool) -> None:
    from engine.runs import registry

    root = runs_root(runs)
    root = archive_root(root) if archived else root
    found = registry.list_runs(root)
    none = "no run is archived" if archived else _how_to_start(root)
    if chosen is not None and found:
        found, none = filtered(root, found, chosen), "no run passes the filter"
    from engine.doctor.health import UNKNOWN, HealthBook

    health = HealthBook(root).examine_all(found, _EXAMINE_S)
    if as_json:
        print_json({"runs": [info.to_json() | health_json(health[info.id]) for info in found]})
        return
    rows = clean_texts(_row(info, health[info.id]) for info in found)
    print("".join(f"{row}\n" for row in rows), end="")
    if left := sum(health[info.id] is UNKNOWN for info in found):
        what = "1 finished run is" if left == 1 else f"{left} finished runs are"
        say(f"{what} not examined yet; the next call continues", to=sys.stderr)
    if not found:
        say(none)


def _how_to_start(root: Path) -> str:
    demo = "grpo_tiny"
    config = demo if Path("configs", f"{demo}.yaml").is_file() else "CONFIG"
    return f"no runs in {root} yet; grubrics-tui launch {config} starts one"


def _row(info: RunInfo, health: Health | None) -> str:
    step = step_of(info.state.step, info.state.total_steps)
    tags = "".join(f"  #{tag}" for tag in info.notes.tags)
    return f"{info.id:<36} {step:>11} {with_health(describe(info.state), health)}{tags}"


def filtered(root: Any, found: Sequence[Any], text: str) -> list[Any]:
    """The runs that pass a filter; what may be wrong with it is said on stderr."""
    from engine.supervise.filter_match import RunFiles, RunFilter

    chosen, files = RunFilter(text), RunFiles(root)
    passed = list(chosen.select(found, files))
    if (remark := chosen.remark(files)) is not None:
        say(f"note: {remark}", to=sys.stderr)
    return passed


COMMAND = Command(list_runs, Task.INSPECT)
