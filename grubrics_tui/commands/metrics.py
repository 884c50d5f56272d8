"""``grubrics-tui metrics``: print metric values step by step."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from engine.base.errors import UsageError
from engine.run.run import runs_root
from grubrics_tui.commands.shared import Command, Task, argument, options, print_json, say
from grubrics_tui.commands.shared.standard_input import STANDARD_INPUT, standard_input_read
from grubrics_tui.text.terminal_text import clean_text

if TYPE_CHECKING:
    from engine.run.history.columns import Columns


def metrics(
    run: options.RunOrLogArgument,
    names: Annotated[
        list[str] | None,
        argument(
            "[PATH...] [METRIC...]",
            "More logs, then metric names; omit the names to list the available ones",
        ),
    ] = None,
    as_format: options.FormatOption = None,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Print metric values per step, of runs or external logs.

    Values have six significant digits; --json has all of them.
    Names of W&B dashboards are known too: train/policy_loss is actor/pg_loss. A known metric that
    no step has is named on stderr with the reason, and in "unavailable" of --json.
    Of several, each line begins with the log, and --json has the logs in "sources".
    """
    from engine.logs.formats import series as source

    words = [run, *(names or ())]
    count = 1 + sum(1 for _ in takewhile(_is_path, words[1:]))
    given, metric_names = words[:count], words[count:]
    with standard_input_read(given) as paths:
        tables = [
            source.read_columns(path, runs_root(runs), metric_names, as_format) for path in paths
        ]
        empty = {
            label: source.explain_no_steps(path, runs_root(runs))
            for label, path, columns in zip(given, paths, tables, strict=True)
            if not source.names(columns)
        }
    for label, reason in empty.items():
        if metric_names:
            raise UsageError(f"{label}: {reason}")
        say(f"{label}: {reason}", to=sys.stderr)
    answers = {
        label: _answer(columns, metric_names, label)
        for label, columns in zip(given, tables, strict=True)
    }
    if as_json:
        print_json({"sources": answers} if count > 1 else answers[run])
        return
    for label, answer in answers.items():
        prefix = clean_text(label) + "\t" if count > 1 else ""
        for line in _lines(answer):
            print(prefix + line)
        for name, reason in answer.get("unavailable", {}).items():
            say(f"{prefix}{name}\tn/a: {reason}", to=sys.stderr)


def _answer(columns: Columns, metric_names: Sequence[str], label: str) -> dict[str, Any]:
    """The names of a log's metrics, or the series of those asked for, as --json prints them."""
    from engine.logs.formats import series as source

    if not metric_names:
        return {"names": source.names(columns)}
    reasons = {name: source.why_not_logged(columns, name) for name in metric_names}
    unavailable = {name: reason for name, reason in reasons.items() if reason is not None}
    found = {
        name: source.series(columns, name, label)
        for name in metric_names
        if name not in unavailable
    }
    return {"series": found, **({"unavailable": unavailable} if unavailable else {})}


def _is_path(word: str) -> bool:
    return word == STANDARD_INPUT or Path(word).exists()


def _lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of metrics, or their values by step."""
    yield from map(clean_text, answer.get("names", ()))
    for name, points in answer.get("series", {}).items():
        shown = clean_text(name)
        for step, number in points:
            value = "nan" if number is None else _format_value(float(number))
            yield f"{shown}\t{step}\t{value}"


def _format_value(value: float) -> str:
    """``0.412346``: six significant digits, one decimal from 100,000 on; ``5.0`` for an integer."""
    if value.is_integer():
        return str(value)
    return f"{value:.1f}" if abs(value) >= 100_000 else f"{value:.6g}"


COMMAND = Command(metrics, Task.INSPECT)
