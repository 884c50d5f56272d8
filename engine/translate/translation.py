"""What became of every key of a source: keys of a config, or the reason why there is none."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError, shorten
from engine.base.masking import mask_text
from engine.config import allowed
from engine.config.keys import check_key, nearest_key
from engine.config.load import defaults_of
from engine.config.secrets import refuse_secret
from engine.run.kinds import Kind

_LONGEST_NOTE = 300
_RESOLVER = re.compile(r"\$\{(?!oc\.)[\w.]+:")


@dataclass(frozen=True)
class Row:
    """A key or line of the source. ``values`` are empty where it has no counterpart.

    ``source`` is empty for what the source does not say and the config needs.
    """

    source: str
    line: int | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    @property
    def is_translated(self) -> bool:
        return bool(self.source and self.values)

    @property
    def is_left_out(self) -> bool:
        return not self.values

    def to_json(self) -> dict[str, Any]:
        return {
            "source": self.source or None,
            "line": self.line,
            "values": dict(self.values),
            "note": self.note,
        }


@dataclass(frozen=True)
class Translation:
    source: Path
    kind: Kind
    rows: tuple[Row, ...]

    @property
    def values(self) -> dict[str, Any]:
        """The values of the config by dotted key."""
        return {key: value for row in self.rows for key, value in row.values.items()}


def in_order(rows: Iterable[Row]) -> tuple[Row, ...]:
    """The rows by their lines; of rows that set the same key, only the last one has its value.

    Rows without a line come last: they are arguments of the script, or were added.
    """
    rows = list(rows)
    last: dict[str, Row] = {}
    for row in rows:
        last |= dict.fromkeys(row.values, row)
    kept: list[Row] = []
    for row in rows:
        values = {key: value for key, value in row.values.items() if last[key] is row}
        if row.values and not values:
            setter = last[next(iter(row.values))]
            where = f"in line {setter.line}" if setter.line else "by an argument"
            kept.append(left_out(row.source, row.line, f"it is set again {where}"))
        else:
            kept.append(replace(row, values=values))
    return tuple(sorted(kept, key=lambda row: row.line or sys.maxsize))


def left_out(source: str, line: int | None, why: str) -> Row:
    """A row without a counterpart; secrets in its texts are masked."""
    return Row(shorten(source, 100), line, {}, shorten(mask_text(why), _LONGEST_NOTE))


def without_keys(rows: Iterable[Row], reasons: Mapping[str, str]) -> Iterator[Row]:
    """The rows without some keys of the config; ``reasons`` say why, by key.

    A key that the source does not say is dropped without a row.
    """
    for row in rows:
        dropped = [key for key in row.values if key in reasons]
        kept = {key: value for key, value in row.values.items() if key not in reasons}
        if kept or not dropped:
            yield replace(row, values=kept)
        if dropped and row.source:
            yield left_out(row.source, row.line, reasons[dropped[0]])


def checked(row: Row, kind: Kind) -> Row:
    """The row, or one without values if a config of this kind would refuse one of them."""
    complaints = (complaint(key, value, kind) for key, value in row.values.items())
    problem = next(filter(None, complaints), None)
    return row if problem is None else left_out(row.source, row.line, problem)


def complaint(key: str, value: Any, kind: Kind) -> str | None:
    """Why a config of this kind would refuse a value, or None."""
    defaults = defaults_of(kind)
    try:
        refuse_secret("", key, value)
        check_key("", key, value, defaults)
    except UsageError as error:
        return str(error).removeprefix(": ")
    if isinstance(value, str) and "${" in value:
        resolver = _RESOLVER.search(value)
        return f"only Hydra resolves {resolver[0]}...}}" if resolver else None
    expected = allowed.complaint(key, value)
    return None if expected is None else f"{key}={value!r} must be {expected}"


def no_such_key(key: str, version: str, known: Iterable[str]) -> str:
    """The reason for a key that this version does not have, with the nearest one."""
    close = nearest_key(key, known)
    return f"verl {version} has no such key" + (f"; the nearest is {close}" if close else "")
