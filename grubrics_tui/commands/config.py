"""``grubrics-tui config``: print the values of a config, run or log with their origins."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from engine.base.errors import UsageError, unknown_name
from engine.base.text import format_config_value
from engine.run.kinds import find_kind
from engine.run.run import Run, find_run, runs_root
from grubrics_tui.commands.shared import Command, Task, flag, option, options, print_json, say

if TYPE_CHECKING:
    from engine.config.load import Config
    from engine.report.run_config import ConfigValue
    from engine.run.manifest import Origin
    from grubrics_tui.model.run_source import Watched


_LOGS = (".json", ".jsonl", ".log", ".wandb")
_UNKNOWN = {"accepts": "any value", "meaning": "no description"}
ORIGINS = ("default", "preset", "file", "cli", "environment", "implied")


def config(
    name: options.SourceArgument,
    overrides: options.OverridesArgument = None,
    changed: Annotated[
        bool, flag("Print only values that differ from those of the file", "--changed")
    ] = False,
    unused: Annotated[
        bool, flag("Print only values that are set but have no effect", "--unused")
    ] = False,
    origin: Annotated[
        str | None,
        option(
            "ORIGIN", "Print only values of this origin: default, file, cli, environment or implied"
        ),
    ] = None,
    explain: Annotated[
        str | None,
        option(
            "WORDS",
            "Print only values whose key or value contains the words, with their meaning and "
            "the values that the key takes",
        ),
    ] = None,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Print the values of a config, run or log with their origins.

    Of a run of a command, print the command. Of a log of another trainer, print the values that it
    holds.
    """
    if origin is not None and origin not in ORIGINS:
        raise unknown_name("origin", origin, ORIGINS)
    if changed and unused:
        raise UsageError("--changed and --unused exclude each other")
    if explain is not None and unused:
        raise UsageError("--explain and --unused exclude each other")
    run = _find_run(name, overrides or [], runs_root(runs))
    if unused:
        _print_unused(_read_config(name, overrides or [], run), origin, as_json)
        return
    kind, values = _read_values(name, overrides or [], run, runs_root(runs))
    values = [
        value
        for value in values
        if (value.is_changed or not changed)
        and origin in (None, value.origin)
        and value.matches((explain or "").lower().split())
    ]
    explained = explain is not None
    if as_json:
        shown = {
            value.key: value.to_json(with_file=changed)
            | (_doc(value.key, kind) if explained else {})
            for value in values
        }
        print_json({"kind": kind, "values": shown})
        return
    for value in values:
        before = f"  (file: {format_config_value(value.in_file)})" if changed else ""
        say(f"{value.origin or '-':<11} {value.key}={value.text}{before}")
        for label, text in _doc(value.key, kind).items() if explained else ():
            say(f"{'':<11}   {label:<8} {text or _UNKNOWN[label]}")
    if explained and not values:
        say(f"no key or value contains '{explain}'")
    elif changed and not values:
        say("all values are those of the file")


def _find_run(name: str, overrides: list[str], root: Path) -> Watched | None:
    """Return the run or log of that name; None for a config."""
    from engine.config.config_files import find_config
    from engine.logs.formats.series import is_external

    path = Path(name)
    is_log = path.suffix in _LOGS or (path.is_dir() and not Run(path).is_one())
    if is_log and is_external(name):
        from engine.logs.formats.external_run import open_external

        run: Watched = open_external(path)
    else:
        try:
            find_config(name)
        except UsageError as error:
            try:
                run = find_run(root, name)
            except UsageError:
                raise error from None
        else:
            return None
    if overrides:
        raise UsageError(f"overrides apply to a config; '{run.id}' is a run")
    return run


def _read_config(name: str, overrides: list[str], run: Watched | None) -> Config:
    """Return a config as a launch from here reads it, or that of a run with the origins of its
    manifest."""
    from dataclasses import replace

    from engine.config.load import load_config

    if run is None:
        return load_config(name, overrides)
    if not isinstance(run, Run):
        raise UsageError(f"--unused needs a config or a run; {run.given} is a log")
    run.require_config()
    recorded = run.read_config()
    if not recorded:
        raise UsageError(run.no_config())
    config = load_config(str(run.config_file), (), {})
    origins: dict[str, Origin] = {
        key: (config.is_chosen(key) and key in recorded and recorded[key].origin) or default
        for key, default in config.origins.items()
    }
    return replace(config, origins=origins)


def _read_values(
    name: str, overrides: list[str], run: Watched | None, root: Path
) -> tuple[str, Sequence[ConfigValue]]:
    """Return the kind, and the values of a launch from here or those that a run had."""
    from engine.config.frozen import in_file, manifest_config
    from engine.config.load import load_config
    from engine.report.run_config import config_values, read_run_config

    if run is None:
        config = load_config(name, overrides)
        entries = manifest_config(config, root / "RUN" / "attempt_1")
        return config.kind.name, config_values(entries, in_file(config))
    read = read_run_config(run)
    if not read.values:
        raise UsageError(
            run.no_config() if isinstance(run, Run) else f"{run.path} has no config values"
        )
    if isinstance(run, Run):
        return str(run.read_manifest().kind), read.values
    return run.kind.name, read.values


def _print_unused(config: Config, origin: str | None, as_json: bool) -> None:
    from engine.config.unread import switched_off, unread

    unused = [value for value in unread(config) if origin in (None, value.origin)]
    silenced = [value for value in switched_off(config) if origin in (None, value.origin)]
    if as_json:
        print_json(
            {
                "kind": config.kind.name,
                "unused": unused,
                "switched_off": silenced,
            }
        )
        return
    for value in unused:
        fix = f"  [{value.instead}]" if value.instead else ""
        setting = f"{value.key}={format_config_value(value.value)}"
        say(f"{value.origin:<11} {setting}  {value.reason}{fix}")
    if not unused:
        say("all values that are set have an effect")
    if silenced:
        names = ", ".join(value.key for value in silenced)
        say(f"without effect because of an override: {names}")


def _doc(key: str, kind: str) -> dict[str, str]:
    """What the values of a key must be, and what it means."""
    from engine.config.key_docs import KeyDoc, describe_key

    known = find_kind(kind)
    doc = describe_key(key, known) if known else KeyDoc()
    return {"accepts": doc.values, "meaning": doc.meaning}


COMMAND = Command(config, Task.PREPARE)
