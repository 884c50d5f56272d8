"""``grubrics-tui show``: print what is known about one run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from engine.base import jsonl
from engine.runs.columns import format_step
from engine.runs.rundir import find_run, runs_root
from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.options import JsonOption, RunArgument, RunsOption
from grubrics_tui.commands.shared.output import print_json, say
from grubrics_tui.commands.shared.run_text import health_json, with_health
from grubrics_tui.text.formats import clock, duration, memory


def show(run: RunArgument, runs: RunsOption = None, as_json: JsonOption = False) -> None:
    """Show one run: state, time, overrides, processes and files.

    --json prints all stored values.
    """
    from engine.doctor.health import health_of
    from engine.supervise.run_summary import read_summary

    chosen = find_run(runs_root(runs), run)
    health = health_of(chosen)
    shown = health_json(health)
    sick = shown["health"] and shown["health"]["finding"]
    found = {**read_summary(chosen), **shown, "sick": sick}
    if as_json:
        print_json(found)
        return
    found["phrase"] = with_health(found["phrase"], health)
    for label, text in _facts(found):
        say(f"{label:<12} {jsonl.line(text)}")


def _facts(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield a label and a text for each known fact."""
    yield "run", found["id"]
    yield "state", found["phrase"]
    for why in found["exposed_because"]:
        yield "not trusted", f"{why}. To act on this run, use --trust"
    if found["sick"]:
        title, finding_id = found["sick"]["title"], found["sick"]["id"]
        yield "unhealthy", f"{title} [{finding_id}]. See: grubrics-tui diagnose {found['id']}"
    yield "step", format_step(found["step"], found["total_steps"])
    yield "config", f"{found['recipe']} ({found['kind']})"
    yield "time", _time(found)
    yield from _present(found, ("waiting_for", "exit_code", "signal", "gpus", "ray", "ray_job"))
    if found["attempts"] > 1:
        yield "attempts", _attempts(found)
    if pids := found["pids"]:
        yield "processes", f"{len(pids)}: {' '.join(map(str, pids))}"
    for change in found["changes"] or ():
        yield "override", "{key}: {before} -> {after} ({origin})".format(**change)
    for path in found["edited"]:
        yield "edited", f"{path} was edited after the launch; the run uses its own copy"
    if found["tags"]:
        yield "tags", " ".join(f"#{tag}" for tag in found["tags"])
    yield from _present(found, ("note",))
    yield "command", shlex.join(found["argv"] or ())
    yield "dir", f"{found['dir']}  {memory(found['bytes'])}"
    yield from _present(found, ("manifest", "console", "checkpoints"))


def _present(found: Mapping[str, Any], keys: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    known = ((key, found[key]) for key in keys)
    return ((key.replace("_", " "), str(value)) for key, value in known if value not in (None, ""))


def _attempts(found: Mapping[str, Any]) -> str:
    since = found["attempt_started"]
    return f"{found['attempts']}" + (f", latest since {clock(since)}" if since else "")


def _time(found: Mapping[str, Any]) -> str:
    """Format start and end of the run, and the duration of its attempts."""
    if found["started"] is None:
        return "not started"
    until = f" to {clock(found['ended'])}" if found["ended"] is not None else ""
    pauses = " (attempts only)" if found["attempts"] > 1 else ""
    return f"{clock(found['started'])}{until}, elapsed {duration(found['duration_s'])}{pauses}"


COMMAND = Command(show, Task.INSPECT)
