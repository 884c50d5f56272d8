"""``grubrics-tui import``: translate a script of verl or a config of AFlow into a config."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from engine.base.quantities import format_count
from engine.base.text import format_command, format_config_value
from grubrics_tui.commands.shared import Command, Task, answer, argument, flag, option, options

if TYPE_CHECKING:
    from engine.translate.import_config import ImportedConfig
    from engine.translate.translation import Row


def import_config(
    file: Annotated[Path, argument("FILE", "Shell script that starts verl, or YAML of AFlow")],
    arguments: Annotated[
        list[str] | None,
        argument("[ARGUMENT...]", "Arguments of the script, for its $1 and $@", show_default=False),
    ] = None,
    out: Annotated[
        Path | None, option("FILE", "Config to write (default: FILE's stem in configs/)")
    ] = None,
    device: Annotated[
        str | None,
        option(
            "cpu|cuda",
            "cpu: leave out what needs a GPU (default: as in FILE)",
            autocompletion=lambda: ["cpu", "cuda"],
        ),
    ] = None,
    line: Annotated[
        int | None, option("N", "Line of the trainer, in a script with several")
    ] = None,
    force: Annotated[bool, flag("Replace the config if it exists", "--force")] = False,
    dry_run: Annotated[
        bool, flag("Print the keys and the config; write nothing", "--dry-run")
    ] = False,
    as_json: options.JsonOption = False,
) -> None:
    """Translate a script of verl or a config of AFlow into a config.

    The script is read, not executed. Prints what became of every key: the key of the config, or
    why there is none.
    """
    from engine.translate.import_config import plan_import, write_import

    config = plan_import(
        file, arguments or (), out=out, line=line, device=device, force=force or dry_run
    )
    if not dry_run:
        write_import(config)
    answer(_value(config, dry_run), "\n".join(_lines(config, dry_run)), as_json)


def _value(config: ImportedConfig, dry_run: bool) -> dict[str, Any]:
    rows = config.translation.rows
    return {
        "config": str(config.path),
        "name": config.name,
        "written": not dry_run,
        "kind": config.translation.kind.name,
        "source": str(config.translation.source),
        "translated": sum(row.is_translated for row in rows),
        "left_out": sum(row.is_left_out for row in rows),
        "added": _added(rows),
        "keys": [row.to_json() for row in rows],
        "text": config.text,
    }


def _lines(config: ImportedConfig, dry_run: bool) -> Iterator[str]:
    rows = config.translation.rows
    translated = [row for row in rows if row.is_translated]
    missing = [row for row in rows if row.is_left_out]
    added = [row for row in rows if row.values and not row.source]
    yield from (line for row in translated for line in _translated(row))
    for title, group in (("added", added), ("left out", missing)):
        if group:
            yield f"\n{title}:"
        yield from (line for row in group for line in _other(row))
    yield ""
    if dry_run:
        yield config.text
        yield f"dry run: {config.path} was not written"
    else:
        yield f"wrote {config.path} ({config.translation.kind.title})"
    counts = f"{_added(rows)} added, {len(missing)} left out"
    yield f"{format_count(len(translated), 'key')} translated, {counts}"
    if not dry_run:
        yield f"next: {format_command(['grubrics-tui', 'check', config.name])}"


def _added(rows: Iterable[Row]) -> int:
    """How many keys the source does not say and the config needs."""
    return sum(len(row.values) for row in rows if not row.source)


def _translated(row: Row) -> Iterator[str]:
    """``12  trainer.nnodes=1``, and the name in the source where it is another one."""
    for key, value in row.values.items():
        origin = "" if key == row.source else f"from {row.source}"
        note = "; ".join(filter(None, (origin, row.note)))
        yield f"{_number(row)}{key}={format_config_value(value)}" + (f"  ({note})" if note else "")


def _other(row: Row) -> Iterator[str]:
    if not row.values:
        yield f"{_number(row)}{row.source}: {row.note}"
    for key, value in row.values.items():
        yield f"{_number(row)}{key}={format_config_value(value)}  ({row.note})"


def _number(row: Row) -> str:
    return f"{row.line or '':>4}  "


COMMAND = Command(import_config, Task.PREPARE)
