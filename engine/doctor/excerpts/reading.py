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
from typing import TYPE_CHECKING

from engine.base import files
from engine.doctor.excerpts.names import STEP, metric_of
from engine.doctor.excerpts.pairs import Pair, pairs_of
from engine.doctor.excerpts.tables import table_at
from engine.formats.names import bounded, with_scores
from engine.history import metrics

if TYPE_CHECKING:
    from engine.history.columns import Columns
    from engine.history.train_log import Metrics

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
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
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
    plain = _COLOURS.sub("", text).translate(_EDGES)
    found = list(_records(unwrapped(_ENDS.split(plain))))
    if not found:
        return None
    # numpy: a log without numbers is diagnosed without it.
    from engine.history.batch import Batch
    from engine.history.columns import Columns
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
