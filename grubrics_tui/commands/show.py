"""``grubrics-tui show``: print what is known about one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from engine.base import jsonl
from engine.base.quantities import format_duration, format_size, format_time
from engine.base.text import format_command, format_config_value
from engine.run.columns import format_step
from engine.run.run import find_run, runs_root
from grubrics_tui.commands.shared import Command, Task, options, print_json, say
from grubrics_tui.commands.shared.run_text import health_json, with_health
from grubrics_tui.text.plans import format_saved


def show(
    run: options.RunArgument, runs: options.RunsOption = None, as_json: options.JsonOption = False
) -> None:
    """Show one run: state, time, overrides, processes and files.

    --json prints all stored values.
    """
    from engine.doctor.health import health_of
    from engine.supervise.run_summary import read_summary

    chosen = find_run(runs_root(runs), run)
    health = health_of(chosen)
    summary = {**read_summary(chosen), **health_json(health)}
    # The key before "health".
    summary["unhealthy"] = summary["health"] and summary["health"]["finding"]
    if as_json:
        print_json(summary)
        return
    summary["phrase"] = with_health(summary["phrase"], health)
    for label, text in _facts(summary):
        say(f"{label:<12} {jsonl.line(text)}")


def _facts(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield a label and a text for each known fact."""
    yield "run", summary["id"]
    yield "state", summary["phrase"]
    for reason in summary["exposed_because"]:
        yield "not trusted", f"{reason}. To act on this run, use --trust"
    if summary["unhealthy"]:
        title, finding_id = summary["unhealthy"]["title"], summary["unhealthy"]["id"]
        yield "unhealthy", f"{title} [{finding_id}]. See: grubrics-tui diagnose {summary['id']}"
    yield "step", format_step(summary["step"], summary["total_steps"])
    is_known = summary["config"] or summary["kind"]
    unknown = "unknown: the manifest names none"
    yield "config", f"{summary['config']} ({summary['kind']})" if is_known else unknown
    yield "time", _time(summary)
    yield from _present(summary, ("waiting_for", "exit_code", "signal", "gpus", "ray", "ray_job"))
    if summary["attempts"] > 1:
        latest = summary["attempt_started"]
        since = f", latest since {format_time(latest)}" if latest else ""
        yield "attempts", f"{summary['attempts']}{since}"
    if pids := summary["pids"]:
        yield "processes", f"{len(pids)}: {' '.join(map(str, pids))}"
    for change in summary["changes"] or ():
        before, after = format_config_value(change["before"]), format_config_value(change["after"])
        yield "override", f"{change['key']}: {before} -> {after} ({change['origin']})"
    for path in summary["edited"]:
        yield "edited", f"{path} was edited after the launch; the run uses its own copy"
    if summary["tags"]:
        yield "tags", " ".join(f"#{tag}" for tag in summary["tags"])
    yield from _present(summary, ("note",))
    yield "command", format_command(summary["argv"] or ())
    yield "dir", f"{summary['dir']}  {format_size(summary['bytes'])}"
    yield from _present(summary, ("manifest", "console", "checkpoints"))
    if summary["saved"]:
        yield "saved", format_saved(summary["saved"])
    if summary["moved"]:
        yield "moved", f"a later run moved checkpoints of this run to {summary['moved']}"
    yield from _present(summary, ("wandb",))


def _present(summary: Mapping[str, Any], keys: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield label and text of those keys that have a value."""
    for key in keys:
        if (value := summary[key]) not in (None, ""):
            yield key.replace("_", " "), str(value)


def _time(summary: Mapping[str, Any]) -> str:
    """Format start and end of the run, and the duration of its attempts."""
    if summary["started"] is None:
        return "not started"
    until = f" to {format_time(summary['ended'])}" if summary["ended"] is not None else ""
    pauses = " (attempts only)" if summary["attempts"] > 1 else ""
    elapsed = format_duration(summary["duration_s"])
    return f"{format_time(summary['started'])}{until}, elapsed {elapsed}{pauses}"


COMMAND = Command(show, Task.INSPECT)
