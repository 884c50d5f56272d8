"""The cache of gold scores: an append-only JSONL file with one question per line.

HealthBench's caches identify questions by ``prompt_id``, ours by ``question_id``.
"""

from __future__ import annotations

import os
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.base import files, jsonl, locks
from engine.base.errors import UsageError
from engine.data.adapters.adapter import Example, id_text
from engine.tasks.rubrics import finite_scores, gold_problem

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

    def with_gold(self, example: Example) -> Example:
        """The example with the answers and gold scores of its record, if it has one."""
        record = self.find(example)
        if record is None:
            return example
        gold = finite_scores(record["gold_scores"])
        return replace(example, answers=tuple(record["answers"]), gold_scores=gold)

    def notes(self, examples: Iterable[Example]) -> list[str]:
        """One line for each problem of the cache."""
        examples = list(examples)
        recorded = [example for example in examples if example.question_id in self.records]
        notes = [
            f"{count:,} records cannot be used: {reason}" for reason, count in self.unusable.items()
        ]
        if self.records and examples and not recorded:
            problem = f"none of its {len(self.records):,} questions is in the data set"
            notes.append(f"{problem}, e.g. '{next(iter(self.records))}'")
        for doubt, ids in self._doubts(recorded).items():
            if ids:
                count = "1 question has" if len(ids) == 1 else f"{len(ids):,} questions have"
                notes.append(f"{count} {doubt}, e.g. '{ids[0]}'")
        if ids := [example.question_id for example in recorded if self.find(example) is None]:
            problem = f"{len(ids):,} of {len(recorded):,} questions have records with another text"
            notes.append(f"{problem} or other right answers under their ID, e.g. '{ids[0]}'")
        if ids := [name for name, records in self.records.items() if _differ(records)]:
            count = "1 question has" if len(ids) == 1 else f"{len(ids):,} questions have"
            problem = f"{count} several records with different gold scores"
            notes.append(f"{problem}, e.g. '{ids[0]}'; the first record counts")
        return [f"{self.path}: {line}" for line in notes]

    def _doubts(self, examples: Iterable[Example]) -> dict[str, list[str]]:
        """Return IDs of questions whose records are usable but probably wrong, by problem."""
        used = {question_id: records[0] for question_id, records in self.records.items()}
        pairs = {
            question_id: {*zip(record["answers"], record["gold_scores"], strict=True)}
            for question_id, record in used.items()
        }
        return {
            "gold scores on a scale other than 0 to 1 (rewards use only their order)": [
                question_id
                for question_id, record in used.items()
                if max(map(abs, record["gold_scores"])) > 1
            ],
            "different scores for the same answer": [
                question_id
                for question_id, record in used.items()
                if len(pairs[question_id]) > len({*record["answers"]})
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
        question_id = record_id(record)
        problem = _record_problem(record)
        if problem is None and question_id is not None:
            records[question_id].append(record)
            continue
        nameless += problem is None
        fields = ", ".join(sorted(record)[:8])
        unusable[problem or f"no {' or '.join(_ID_FIELDS)} (they have {fields})"] += 1
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
    """Whether neither the text nor the data set's own gold scores contradict the record."""
    text = record.get("question")
    if isinstance(text, str) and _plain(text) != _plain(example.question):
        return False
    gold_scores = dict(zip(example.answers, example.gold_scores, strict=False))
    recorded = zip(record["answers"], record["gold_scores"], strict=True)
    return all(gold_scores.get(answer, gold) == gold for answer, gold in recorded)


def _shares_nothing(record: Record, example: Example) -> bool:
    has_text = isinstance(record.get("question"), str)
    return not has_text and not {*record["answers"]} & {*example.answers}


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).split()).casefold()


def _differ(records: Sequence[Record]) -> bool:
    """Whether records of the same question text have different gold scores."""
    first = records[0]
    repeats = (record for record in records[1:] if record.get("question") == first.get("question"))
    return any(record["gold_scores"] != first["gold_scores"] for record in repeats)


@contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Keep other processes from filling this cache: both would pay for the same questions.

    UsageError if one is doing so. The system frees the lock when its holder ends in any way.
    """
    lock = path.with_name(f".{path.name}.lock")
    descriptor = files.open_lock(lock)
    try:
        locks.take(descriptor, lock, patience_s=0.0)
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
