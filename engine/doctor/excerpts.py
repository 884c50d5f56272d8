"""Reads records of training steps from text of any layout.

A record ends where one of its names comes again. It may take one line or several, with or without
braces, and may lack its beginning or its end.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from engine.doctor.trainer_dialects import read_ends
from engine.logs.formats.names import bounded, with_scores
from engine.run.history import metrics
from engine.run.history.metric_words import STEP, metric_of

if TYPE_CHECKING:
    from engine.run.history.columns import Columns
    from engine.run.history.train_log import Metrics


_WIDE = re.compile(r"\t+| {2,}")
_COMMAS = re.compile(r"[^\s,]*(?:, ?[^\s,]*)+")
_RULE = re.compile(r"[\s.\u2026:+|=\u2500-\u257f-]*")
"""A line drawn below the header or between rows, and an ellipsis for omitted rows."""
_NO_NUMBER = re.compile(r"|-|n/a|no log|none|\d+(?:\.\d+)? ?%|\d+ ?/ ?\d+")
"""Empty cells, and shares, which are not read."""
_FEWEST_METRICS = 2
_LAST_ROWS = 2
"""A metric without a number in this many final rows has become NaN."""


def table_at(lines: Sequence[str], start: int) -> list[tuple[int, list[Pair]]]:
    """Return the rows of a table with its header in ``lines[start]``, each with its line index."""
    names = cells(lines[start])
    metrics = [metric_of(name) for name in names]
    distinct = {metric for metric in metrics if metric}
    if len(distinct) < _FEWEST_METRICS or any(value_of(name) is not None for name in names):
        return []
    rows = []
    for index in range(start + 1, len(lines)):
        if _RULE.fullmatch(lines[index]):
            continue
        row = _parse_row(names, metrics, cells(lines[index]))
        if not row:
            break
        rows.append((index, row))
    return _without_gaps(rows)


def cells(line: str) -> list[str]:
    """Split a row at vertical lines, commas or wide gaps, or else at every gap."""
    line = line.strip()
    if "|" in line:
        parts = line.strip("|").split("|")
    elif _COMMAS.fullmatch(line):
        parts = line.split(",")
    else:
        parts = _WIDE.split(line)
        parts = parts if len(parts) > 1 else line.split()
    return [part.strip() for part in parts]


def _without_gaps(rows: list[tuple[int, list[Pair]]]) -> list[tuple[int, list[Pair]]]:
    """Remove NaN before the last number of a column, or after one in the final rows."""
    last = {pair.name: index for index, row in rows for pair in row if not math.isnan(pair.value)}
    end = min((index for index, _ in rows[-_LAST_ROWS:]), default=0)

    def is_value(pair: Pair, index: int) -> bool:
        return not math.isnan(pair.value) or last.get(pair.name, -1) < min(index, end)

    return [(index, [pair for pair in row if is_value(pair, index)]) for index, row in rows]


def _parse_row(
    names: Sequence[str], metrics: Sequence[str | None], texts: Sequence[str]
) -> list[Pair]:
    if len(texts) != len(names):
        return []
    if any(value_of(text) is None and not _NO_NUMBER.fullmatch(text.lower()) for text in texts):
        return []
    pairs = (
        pair_of(name, metric, text)
        for name, metric, text in zip(names, metrics, texts, strict=True)
        if metric
    )
    return [pair for pair in pairs if pair is not None]


_NUMBER = (
    r"[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d*)?|(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|nan|inf(?:inity)?)"
)
_PAIR = re.compile(
    r"(?<![\w/.-])(?P<quote>['\"]?)"
    r"(?P<name>[a-z_][\w/.@-]*+(?: (?!nan\b|inf\b)[a-z][\w-]*+){0,3})(?P=quote)\]?"
    r"(?P<between>\s?[:=]\s{0,40}|\s{0,40}\|\s{0,40}|\s{1,20})"
    r"['\"]?(?:[a-z][\w.]{0,20}\()?"
    rf"(?P<value>{_NUMBER})(?![\w%]|\.\d)",
    re.IGNORECASE,
)
_SPELLED = re.compile(r"\d\.\d|e|n", re.IGNORECASE)
"""Signs of a number that may follow a name without a separator."""
_PROGRAM = re.compile(
    r"\bself\.|\breturn \w|\bdef \w|\bfloat\(|\bargs\.|\bf['\"]|\{[a-z_.]+[:}]|^\s*File \"",
)
_NUMBER_ALONE = re.compile(_NUMBER, re.IGNORECASE)


class Pair(NamedTuple):
    """``name`` as written, ``metric`` in our terms; ``value`` may be NaN or infinite."""

    name: str
    metric: str
    value: float


def pairs_of(line: str) -> Iterator[Pair]:
    """Yield the known metrics of a line from left to right; none of a line of source code."""
    if _PROGRAM.search(line):
        return
    for match in _PAIR.finditer(line):
        metric = metric_of(match["name"])
        if metric is None:
            continue
        has_separator = not match["between"].isspace()
        if metric != STEP and not has_separator and not _SPELLED.search(match["value"]):
            continue
        if (pair := pair_of(match["name"], metric, match["value"])) is not None:
            yield pair


def pair_of(name: str, metric: str, text: str) -> Pair | None:
    value = value_of(text)
    if value is None or (metric == STEP and not (value >= 0 and value.is_integer())):
        return None
    if metric.endswith("/lr") and value == 0 and len(text) > len("0.0"):
        return None  # With few decimals, a small learning rate is printed as 0.0000.
    return Pair(name, metric, value)


def value_of(text: str) -> float | None:
    """Parse a number with or without thousands separators; None for other text."""
    text = text.strip()
    return float(text.replace(",", "")) if _NUMBER_ALONE.fullmatch(text) else None


ENOUGH = 6
"""With this many steps of a known format, the text is not searched for more."""
_LONGEST = 20_000
_APART = 40
"""Lines without a metric that end a record."""
_METRIC_WORD = re.compile(
    r"loss|norm|grad|reward|score/|entropy|kl|clipp|length|step|iter", re.IGNORECASE
)
_SIBLINGS = frozenset(name for names in metrics.SIBLINGS.values() for name in names)
_COLORS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_EDGES = str.maketrans(dict.fromkeys("\u2502\u2503\u2551", "|"))
"""Vertical lines of tables."""
_ENDS = re.compile(r"\r\n|[\r\n]")
_NARROWEST = 70
_ALIKE = 6
"""A line that begins with the same characters as the one above it is a new record."""
_LISTED = re.compile(r"\S:\S+ - \S+:|['\"]: [^,]+, ['\"]")


@dataclass(frozen=True)
class Excerpt:
    """``is_counted``: the text does not number its steps, so records are counted."""

    columns: Columns
    is_counted: bool


def fuller(columns: Columns | None, path: Path, is_general: bool = False) -> Excerpt | None:
    """Read metrics from the file's text; None unless there are more than in its trainer's format.

    Of a general format as many are enough: here, names have a meaning.
    """
    if columns is not None and len(columns.times.steps) >= ENOUGH:
        return None
    excerpt = read_excerpt(path)
    if excerpt is None or columns is None:
        return excerpt
    # The last record may have been cut.
    has_more_records = _records_of(excerpt.columns) > _records_of(columns) > 0
    has_more_numbers = size(excerpt.columns) > size(columns) - is_general
    return excerpt if has_more_records or has_more_numbers else None


def with_meanings(columns: Columns) -> Columns:
    """Rename columns to the names that the rules use: ``train_loss`` becomes ``train/loss``.

    A column that has such a name already keeps it; of several candidates the first one counts.
    """
    new_names: dict[str, str] = {}
    for name in columns.names:
        metric = None if name in _SIBLINGS else metric_of(name)
        if metric and metric != STEP and metric not in {*columns.names, *new_names.values()}:
            new_names[name] = metric
    if metrics.REWARD_MEAN in new_names.values():
        new_names = {name: _name_in_rl(metric) for name, metric in new_names.items()}
        if metrics.TRAIN_LOSS in columns.names:
            new_names[metrics.TRAIN_LOSS] = _name_in_rl(metrics.TRAIN_LOSS)
    return columns.renamed(new_names) if new_names else columns


def _name_in_rl(metric: str) -> str:
    """The loss of an RL run has no meaningful level: rules use another name for it."""
    return "actor/loss" if metric == metrics.TRAIN_LOSS else metric


def _records_of(columns: Columns) -> int:
    """Count steps by their gradient norm: it is printed once per step, and not in a summary."""
    names = "actor/grad_norm", *metrics.SIBLINGS["actor/grad_norm"]
    return max(len(columns.get(name)) for name in names)


def size(columns: Columns) -> int:
    """Return the number of values in all columns."""
    return sum(len(columns.get(name)) for name in columns.names)


def read_excerpt(path: Path) -> Excerpt | None:
    """Read both ends of a file; None if there is no metric of training."""
    return excerpt_of(read_ends(path).decode("utf-8", errors="replace"))


def excerpt_of(text: str) -> Excerpt | None:
    plain = _COLORS.sub("", text).translate(_EDGES)
    records = list(_records(unwrapped(_ENDS.split(plain))))
    if not records:
        return None
    # Imported here: a log without metrics is diagnosed without numpy.
    from engine.run.history.columns import Batch, Columns
    from engine.run.history.train_log import Step

    if any(metrics.REWARD_MEAN in values for _, values in records):
        records = [
            (step, {_name_in_rl(name): value for name, value in values.items()})
            for step, values in records
        ]
    steps = [step for step, _ in records]
    numbered = None not in steps and all(a <= b for a, b in pairwise(map(int, filter(None, steps))))
    columns = Columns()
    columns.merge(
        Batch.from_steps(
            [
                Step((step or 0) if numbered else number, 1, 0.0, values)
                for number, (step, values) in enumerate(records, 1)
            ]
        )
    )
    return Excerpt(columns, not numbered)


def unwrapped(lines: Sequence[str]) -> list[str]:
    """Join lists of metrics that a terminal has wrapped into lines of equal width."""
    widths = Counter(len(line) for line in lines if len(line) >= _NARROWEST)
    cut = {width for width, count in widths.items() if count > 1}
    joined: list[str] = []
    is_open = False
    for line in lines:
        if is_open and line[:_ALIKE] != joined[-1][:_ALIKE]:
            joined[-1] += line
        else:
            joined.append(line)
        listed = _LISTED.search(joined[-1]) is not None
        is_open = len(line) in cut and listed and len(joined[-1]) < _LONGEST
    return joined


def _records(lines: Sequence[str]) -> Iterator[tuple[int | None, Metrics]]:
    record, last = _Record(), 0
    for index, pairs in _pairs_by_line(lines):
        for pair in pairs:
            if record.names and (pair.name in record.names or index - last > _APART):
                yield from record.finish()
                record = _Record()
            record.add(pair)
            last = index
    yield from record.finish()


class _Record:
    def __init__(self) -> None:
        self.names: set[str] = set()
        self._step: int | None = None
        self._values: Metrics = {}

    def add(self, pair: Pair) -> None:
        self.names.add(pair.name)
        if pair.metric == STEP:
            self._step = int(pair.value) if self._step is None else self._step
        else:
            value = None if math.isnan(pair.value) else bounded(pair.value)
            self._values.setdefault(pair.metric, value)

    def finish(self) -> Iterable[tuple[int | None, Metrics]]:
        """Return the record, or nothing if it has no metric but the learning rate."""
        return [(self._step, with_scores(self._values))] if {*self._values} - {"train/lr"} else []


def _pairs_by_line(lines: Sequence[str]) -> Iterator[tuple[int, list[Pair]]]:
    """Yield the index and pairs of each line with a metric, rows of tables included."""
    rows: dict[int, list[Pair]] = {}
    for index, line in enumerate(lines):
        if index in rows:
            yield index, rows.pop(index)
            continue
        if not _METRIC_WORD.search(line):
            continue
        line = line[:_LONGEST]
        pairs = list(pairs_of(line))
        if pairs:
            yield index, pairs
        else:
            rows.update(table_at(lines, index))
