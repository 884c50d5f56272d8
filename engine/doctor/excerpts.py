"""Records of training steps in a text of any layout.

A record is what is said until the same name comes again: so it may fill one line or many, lie in
braces or without them, and lack its beginning or its end.
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

from engine.base import files
from engine.formats.names import bounded, with_scores
from engine.history import metrics
from engine.history.metric_words import STEP, metric_of

if TYPE_CHECKING:
    from engine.history.columns import Columns
    from engine.history.train_log import Metrics


_WIDE = re.compile(r"\t+| {2,}")
_COMMAS = re.compile(r"[^\s,]*(?:, ?[^\s,]*)+")
_RULE = re.compile(r"[\s.\u2026:+|=\u2500-\u257f-]*")
"""A line drawn below the names or between rows, and an ellipsis for rows left out."""
_NO_NUMBER = re.compile(r"|-|n/a|no log|none|\d+(?:\.\d+)? ?%|\d+ ?/ ?\d+")
"""Cells with nothing in them, and shares: of how much is not looked at."""
_NAMES = 2
_LASTS = 2
"""Rows at the end without a number show that it is lost."""


def table_at(lines: Sequence[str], start: int) -> list[tuple[int, list[Pair]]]:
    """The rows of a table whose names stand in ``lines[start]``, each with its place."""
    names = cells(lines[start])
    metrics = [metric_of(name) for name in names]
    known = {metric for metric in metrics if metric}
    if len(known) < _NAMES or known <= {STEP} or any(value_of(name) is not None for name in names):
        return []
    rows = []
    for place in range(start + 1, len(lines)):
        if _RULE.fullmatch(lines[place]):
            continue
        row = _row(names, metrics, cells(lines[place]))
        if not row:
            break
        rows.append((place, row))
    return _without_gaps(rows)


def cells(line: str) -> list[str]:
    """What stands between lines, commas or wide gaps; between any gaps where there are none."""
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
    """NaN is how tables write what was not measured, unless nothing is measured any more."""
    known = {pair.name: place for place, row in rows for pair in row if not math.isnan(pair.value)}
    end = min((place for place, _ in rows[-_LASTS:]), default=0)

    def is_told(pair: Pair, place: int) -> bool:
        return not math.isnan(pair.value) or known.get(pair.name, -1) < min(place, end)

    return [(place, [pair for pair in row if is_told(pair, place)]) for place, row in rows]


def _row(names: Sequence[str], metrics: Sequence[str | None], texts: Sequence[str]) -> list[Pair]:
    if len(texts) != len(names):
        return []
    if any(value_of(text) is None and not _NO_NUMBER.fullmatch(text.lower()) for text in texts):
        return []
    found = (
        pair_of(name, metric, text)
        for name, metric, text in zip(names, metrics, texts, strict=True)
        if metric
    )
    return [pair for pair in found if pair is not None]


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
"""What a number looks like that may follow a name without any sign between them."""
_PROGRAM = re.compile(
    r"\bself\.|\breturn \w|\bdef \w|\bfloat\(|\bargs\.|\bf['\"]|\{[a-z_.]+[:}]|^\s*File \"",
)
_NUMBER_ALONE = re.compile(_NUMBER, re.IGNORECASE)


class Pair(NamedTuple):
    """``name`` as it was written, ``metric`` what it means; ``value`` may be NaN or infinite."""

    name: str
    metric: str
    value: float


def pairs_of(line: str) -> Iterator[Pair]:
    """The known quantities of a line, from left to right; none of a line of a program's text."""
    if _PROGRAM.search(line):
        return
    for found in _PAIR.finditer(line):
        metric = metric_of(found["name"])
        if metric is None:
            continue
        bare = found["between"].isspace()
        if metric != STEP and bare and not _SPELLED.search(found["value"]):
            continue
        if (pair := pair_of(found["name"], metric, found["value"])) is not None:
            yield pair


def pair_of(name: str, metric: str, text: str) -> Pair | None:
    value = value_of(text)
    if value is None or (metric == STEP and not (value >= 0 and value.is_integer())):
        return None
    if metric.endswith("/lr") and value == 0 and len(text) > len("0.0"):
        return None  # A small rate reads 0.0000 where few decimals are printed.
    return Pair(name, metric, value)


def value_of(text: str) -> float | None:
    """A number with or without thousands separators; None for anything else."""
    text = text.strip()
    return float(text.replace(",", "")) if _NUMBER_ALONE.fullmatch(text) else None


ENOUGH = 6
"""Steps of a known format from which on nobody looks for more."""
_END = 256 * 1024
"""Bytes of either end of a long text that are read."""
_LONGEST = 20_000
_APART = 40
"""Lines between two numbers that belong to no one record any more."""
_TELLING = re.compile(
    r"loss|norm|grad|reward|score/|entropy|kl|clipp|length|step|iter", re.IGNORECASE
)
_SIBLINGS = frozenset(name for names in metrics.SIBLINGS.values() for name in names)
_COLORS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_EDGES = str.maketrans(dict.fromkeys("\u2502\u2503\u2551", "|"))
"""A table's lines, however they are drawn."""
_ENDS = re.compile(r"\r\n|[\r\n]")
_NARROWEST = 70
_ALIKE = 6
"""A line that begins as the one above it is a record of its own."""
_LISTED = re.compile(r"\S:\S+ - \S+:|['\"]: [^,]+, ['\"]")


@dataclass(frozen=True)
class Excerpt:
    """``is_counted`` says that the text does not number its steps."""

    columns: Columns
    is_counted: bool


def fuller(columns: Columns | None, path: Path) -> Excerpt | None:
    """What the file's text tells, where that is more than was read by its trainer's own format.

    Raises OSError when the file cannot be read.
    """
    if columns is not None and len(columns.times.steps) >= ENOUGH:
        return None
    found = read_excerpt(path)
    if found is None or (columns is not None and not _tells_more(found.columns, columns)):
        return None
    return found


def with_meanings(columns: Columns) -> Columns:
    """The columns by the names that the rules know: ``train_loss`` becomes ``train/loss``.

    A column that has such a name already keeps it; of several candidates the first one counts.
    """
    meant: dict[str, str] = {}
    for name in columns.names:
        metric = None if name in _SIBLINGS else metric_of(name)
        if metric and metric != STEP and metric not in {*columns.names, *meant.values()}:
            meant[name] = metric
    if metrics.REWARD_MEAN in meant.values():
        meant = {name: _of_rewards(metric) for name, metric in meant.items()}
        if metrics.TRAIN_LOSS in columns.names:
            meant[metrics.TRAIN_LOSS] = _of_rewards(metrics.TRAIN_LOSS)
    return columns.renamed(meant) if meant else columns


def _of_rewards(metric: str) -> str:
    """The loss of a run that learns from rewards has no level: rules know it by its own name."""
    return "actor/loss" if metric == metrics.TRAIN_LOSS else metric


def _tells_more(found: Columns, known: Columns) -> bool:
    """Whether there are more numbers, or a record more: the last one may have been cut."""
    return _records_of(found) > _records_of(known) > 0 or size(found) > size(known)


def _records_of(columns: Columns) -> int:
    """Steps with a gradient norm, which is printed once for each and not again in a summary."""
    names = "actor/grad_norm", *metrics.SIBLINGS["actor/grad_norm"]
    return max(len(columns.get(name)) for name in names)


def size(columns: Columns) -> int:
    """How many numbers there are."""
    return sum(len(columns.get(name)) for name in columns.names)


def read_excerpt(path: Path) -> Excerpt | None:
    """What both ends of a file tell; None where no number of training is found.

    Raises OSError when the file cannot be read.
    """
    with files.open_regular(path) as file:
        head = file.read(_END)
        file.seek(max(len(head), path.stat().st_size - _END))
        text = head + file.read(_END)
    return excerpt_of(text.decode("utf-8", errors="replace"))


def excerpt_of(text: str) -> Excerpt | None:
    plain = _COLORS.sub("", text).translate(_EDGES)
    found = list(_records(unwrapped(_ENDS.split(plain))))
    if not found:
        return None
    # numpy: a log without numbers is diagnosed without it.
    from engine.history.columns import Batch, Columns
    from engine.history.train_log import Step

    rewarded = any(metrics.REWARD_MEAN in values for _, values in found)
    said = [step for step, _ in found]
    numbered = None not in said and all(a <= b for a, b in pairwise(map(int, filter(None, said))))
    steps = [
        Step((step or 0) if numbered else place, 1, 0.0, _named(values, rewarded))
        for place, (step, values) in enumerate(found, 1)
    ]
    columns = Columns()
    columns.merge(Batch.from_steps(steps))
    return Excerpt(columns, not numbered)


def unwrapped(lines: Sequence[str]) -> list[str]:
    """Lists of numbers that a terminal cut into lines of one width, in one line again."""
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
    for place, pairs in _told(lines):
        for pair in pairs:
            if record.names and (pair.name in record.names or place - last > _APART):
                yield from record.whole()
                record = _Record()
            record.add(pair)
            last = place
    yield from record.whole()


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

    def whole(self) -> Iterable[tuple[int | None, Metrics]]:
        return [(self._step, with_scores(self._values))] if {*self._values} - {"train/lr"} else []


def _told(lines: Sequence[str]) -> Iterator[tuple[int, list[Pair]]]:
    """The pairs of each line that has any, and the rows of tables in their places."""
    rows: dict[int, list[Pair]] = {}
    for place, line in enumerate(lines):
        if place in rows:
            yield place, rows.pop(place)
            continue
        if not _TELLING.search(line):
            continue
        line = line[:_LONGEST]
        pairs = list(pairs_of(line))
        if pairs:
            yield place, pairs
        else:
            rows.update(table_at(lines, place))


def _named(values: Metrics, rewarded: bool) -> Metrics:
    if not rewarded:
        return values
    return {_of_rewards(name): value for name, value in values.items()}
