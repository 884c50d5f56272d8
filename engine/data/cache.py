"""The cache of gold scores: an append-only JSONL file with one question per line.

HealthBench's caches identify questions by ``prompt_id``, ours by ``question_id``.
"""

from __future__ import annotations

import fcntl
import os
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base import files, jsonl, locks
from engine.base.errors import UsageError
from engine.data.adapters.adapter import Example, id_text
from engine.rubrics.gold import gold_problem

_ID_FIELDS = ("question_id", "prompt_id")

Record = Mapping[str, Any]


@dataclass(frozen=True)
class GoldCache:
    """Usable records by question id, in file order, and why the others cannot be used.

    ``unusable`` counts records by reason, ``nameless`` those of gold scores that name no
    question.
    """

    path: Path | None
    records: Mapping[str, Sequence[Record]]
    unusable: Mapping[str, int]
    nameless: int

    def find(self, example: Example) -> Record | None:
        """The first usable record of the example's question.

        IDs that count rows change their meaning when a data set is filtered or sorted, so the
        record's text and the data set's own gold scores must match too.
        """
        records = self.records.get(example.question_id, ())
        return next((record for record in records if _is_of(record, example)), None)

    def notes(self, examples: Iterable[Example]) -> list[str]:
        """One line for each problem of the cache."""
        examples = list(examples)
        known = [example for example in examples if example.question_id in self.records]
        mismatched = [example.question_id for example in known if self.find(example) is None]
        notes = [f"{count:,} records cannot be used: {why}" for why, count in self.unusable.items()]
        if self.records and examples and not known:
            what = f"none of its {len(self.records):,} questions is in the data set"
            notes.append(f"{what}, e.g. '{next(iter(self.records))}'")
        for what, names in self._doubts(known).items():
            if names:
                many = "1 question has" if len(names) == 1 else f"{len(names):,} questions have"
                notes.append(f"{many} {what}, e.g. '{names[0]}'")
        if mismatched:
            what = f"{len(mismatched):,} of {len(known):,} questions have records with another text"
            notes.append(f"{what} or other right answers under their ID, e.g. '{mismatched[0]}'")
        if at_odds := [name for name, records in self.records.items() if _differ(records)]:
            what = f"{len(at_odds):,} questions have several records with different gold scores"
            notes.append(f"{what}, e.g. '{at_odds[0]}'; the first record counts")
        return [f"{self.path}: {line}" for line in notes]

    def _doubts(self, examples: Iterable[Example]) -> dict[str, list[str]]:
        """Questions whose records are usable but probably wrong."""
        used = {name: records[0] for name, records in self.records.items()}
        return {
            "gold scores on a scale other than 0 to 1 (rewards use only their order)": [
                name for name, record in used.items() if max(map(abs, record["gold_scores"])) > 1
            ],
            "different scores for the same answer": [
                name for name, record in used.items() if _contradicts_itself(record)
            ],
            "records with neither its text nor any of its answers": [
                example.question_id
                for example in examples
                if example.answers and _shares_nothing(used[example.question_id], example)
            ],
        }


def read_cache(path: Path | None) -> GoldCache:
    """The gold scores of a cache; a missing file is empty."""
    records: defaultdict[str, list[Record]] = defaultdict(list)
    unusable: Counter[str] = Counter()
    nameless = 0
    for record in _lines(path) if path is not None else ():
        if record is None:
            unusable["not a JSON object"] += 1
            continue
        name = record_id(record)
        problem = _record_problem(record)
        if problem is None and name is not None:
            records[name].append(record)
        else:
            nameless += problem is None
            unusable[problem or f"no {' or '.join(_ID_FIELDS)} (they have {_fields(record)})"] += 1
    return GoldCache(path, records, unusable, nameless)


def _lines(path: Path) -> Iterator[Record | None]:
    """The records of the file, None for unreadable lines. A missing file is empty."""
    try:
        handle = files.open_regular(path)
    except FileNotFoundError:
        return
    with handle:
        for line in handle:
            if line.strip():
                yield jsonl.parse_line(line)


def record_id(record: Record) -> str | None:
    """The ID of the record's question; None if it has none."""
    named = (id_text(record.get(field)) for field in _ID_FIELDS)
    return next(filter(None, named), None)


def _record_problem(record: Record) -> str | None:
    for field in ("answers", "gold_scores"):
        if not isinstance(record.get(field), list):
            return f"no list '{field}'"
    return gold_problem(record["answers"], record["gold_scores"])


def _is_of(record: Record, example: Example) -> bool:
    text = record.get("question")
    if isinstance(text, str) and _plain(text) != _plain(example.question):
        return False
    own = dict(zip(example.answers, example.gold_scores, strict=False))
    scored = zip(record["answers"], record["gold_scores"], strict=True)
    return all(own.get(answer, gold) == gold for answer, gold in scored)


def _shares_nothing(record: Record, example: Example) -> bool:
    text_is_named = isinstance(record.get("question"), str)
    return not text_is_named and not {*record["answers"]} & {*example.answers}


def _contradicts_itself(record: Record) -> bool:
    pairs = {*zip(record["answers"], record["gold_scores"], strict=True)}
    return len(pairs) > len({*record["answers"]})


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).split()).casefold()


def _differ(records: Sequence[Record]) -> bool:
    first = records[0]
    same = (record for record in records[1:] if record.get("question") == first.get("question"))
    return any(record["gold_scores"] != first["gold_scores"] for record in same)


def _fields(record: Record) -> str:
    return ", ".join(sorted(record)[:8])


@contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Keep other processes from filling this cache: both would pay for the same questions.

    UsageError if one is doing so. The system frees the lock when its holder ends in any way.
    """
    lock = path.with_name(f".{path.name}.lock")
    descriptor = files.open_lock(lock)
    try:
        locks.take(descriptor, lock, fcntl.flock, patience_s=0.0)
    except OSError as error:
        os.close(descriptor)
        message = (
            "another precompute is filling this cache; wait until it ends, then run this again"
        )
        raise UsageError(f"{path}: {message}") from error
    try:
        yield
    finally:
        os.close(descriptor)
