"""The commands that tell about runs: the list of them, and everything about one."""

from __future__ import annotations

import gc
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.base import jsonl
from engine.runs.registry import RunInfo
from engine.runs.rundir import archive_root, find_run, runs_root
from engine.runs.state import describe
from grubrics_tui.commands.options import JsonOption, RunArgument, RunsOption, print_json, say
from grubrics_tui.text.formats import clock, duration, memory, step_of
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
        from grubrics_tui.commands.compare_command import filtered

        found, none = filtered(root, found, chosen), "no run passes the filter"
    from engine.doctor.health import UNKNOWN, HealthBook

    health = HealthBook(root).examine_all(found, _EXAMINE_S)
    if as_json:
        print_json({"runs": [info.to_json() | _health_json(health[info.id]) for info in found]})
        return
    rows = clean_texts(_row(info, health[info.id]) for info in found)
    print("".join(f"{row}\n" for row in rows), end="")
    if left := sum(health[info.id] is UNKNOWN for info in found):
        what = "1 finished run is" if left == 1 else f"{left} finished runs are"
        say(f"{what} not examined yet; the next call continues", to=sys.stderr)
    if not found:
        say(none)


def show(run: RunArgument, runs: RunsOption = None, as_json: JsonOption = False) -> None:
    """Say everything about one run; --json gives every value as it is kept."""
    from engine.doctor.health import health_of
    from engine.supervise.details import details

    chosen = find_run(runs_root(runs), run)
    health = health_of(chosen)
    shown = _health_json(health)
    sick = shown["health"] and shown["health"]["finding"]
    found = {**details(chosen), **shown, "sick": sick}
    if as_json:
        print_json(found)
        return
    found["phrase"] = _with_health(found["phrase"], health)
    for label, text in _facts(found):
        say(f"{label:<12} {jsonl.line(text)}")


def _health_json(health: Health | None) -> dict[str, Any]:
    """``health`` of a run that has not finished is null: its state says all."""
    return {"health": None if health is None else health.to_json()}


def _with_health(phrase: str, health: Health | None) -> str:
    return ", ".join(filter(None, (phrase, health.phrase if health else "")))


def _how_to_start(root: Path) -> str:
    demo = "grpo_tiny"
    config = demo if Path("configs", f"{demo}.yaml").is_file() else "CONFIG"
    return f"no runs in {root} yet; grubrics-tui launch {config} starts one"


def _row(info: RunInfo, health: Health | None) -> str:
    step = step_of(info.state.step, info.state.total_steps)
    tags = "".join(f"  #{tag}" for tag in info.notes.tags)
    return f"{info.id:<36} {step:>11} {_with_health(describe(info.state), health)}{tags}"


def _facts(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is known, in words; what is not known is left out."""
    yield "run", found["id"]
    yield "state", found["phrase"]
    for why in found["exposed_because"]:
        yield "not trusted", f"{why}; nothing is done with the run without --trust"
    if found["sick"]:
        yield "doctor", "{title} [{id}]; grubrics-tui diagnose says why".format(**found["sick"])
    yield "step", step_of(found["step"], found["total_steps"])
    yield "recipe", f"{found['recipe']} ({found['kind']})"
    yield "time", _time(found)
    yield from _told(found, ("waiting_for", "exit_code", "signal", "gpus", "ray", "ray_job"))
    if found["attempts"] > 1:
        yield "attempts", _attempts(found)
    if pids := found["pids"]:
        yield "processes", f"{len(pids)}: {' '.join(map(str, pids))}"
    for change in found["changes"] or ():
        yield "changed", "{key}: {before} -> {after} ({origin})".format(**change)
    for path in found["edited"]:
        yield "edited", f"{path} since the launch; the run keeps its copy"
    if found["tags"]:
        yield "tags", " ".join(f"#{tag}" for tag in found["tags"])
    yield from _told(found, ("note",))
    yield "command", shlex.join(found["argv"] or ())
    yield "dir", f"{found['dir']}  {memory(found['bytes'])}"
    yield from _told(found, ("manifest", "console", "checkpoints"))


def _told(found: Mapping[str, Any], keys: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    known = ((key, found[key]) for key in keys)
    return ((key.replace("_", " "), str(value)) for key, value in known if value not in (None, ""))


def _attempts(found: Mapping[str, Any]) -> str:
    since = found["attempt_started"]
    return f"{found['attempts']}" + (f", the last since {clock(since)}" if since else "")


def _time(found: Mapping[str, Any]) -> str:
    """From the first attempt's start to the last one's end, and how long the attempts took."""
    if found["started"] is None:
        return "not started"
    until = f" to {clock(found['ended'])}" if found["ended"] is not None else ""
    pauses = " without the pauses" if found["attempts"] > 1 else ""
    return f"{clock(found['started'])}{until}, elapsed {duration(found['elapsed_s'])}{pauses}"
