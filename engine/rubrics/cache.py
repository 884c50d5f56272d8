"""The cache of gold scores: a JSONL file, one question per line, that only grows.

HealthBench's own caches name their questions ``prompt_id``, ours ``question_id``.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine import files, jsonl, locks
from engine.errors import UsageError
from engine.rubrics.gold import finite_scores

_ID_FIELDS = ("question_id", "prompt_id")


def record_id(record: Mapping[str, Any]) -> str | None:
    """The question that a record is of; None when it does not say."""
    named = (record.get(field) for field in _ID_FIELDS)
    return next((str(name) for name in named if name not in (None, "")), None)


def read_cache(path: Path | None) -> dict[str, dict[str, Any]]:
    """Cached gold scores by question id; the first usable record of an id counts.

    A missing file is empty.
    """
    cache: dict[str, dict[str, Any]] = {}
    for record in jsonl.read(path) if path is not None else ():
        name = record_id(record)
        if name is not None and not (name in cache and has_scores(cache[name])):
            cache[name] = record
    return cache


def has_scores(record: Mapping[str, Any]) -> bool:
    """Whether a record holds gold scores that can be used."""
    return bool(finite_scores(record.get("gold_scores")))


def cached_ids(path: Path) -> set[str]:
    """Ids of the questions for which the cache holds usable gold scores."""
    return {name for name, record in read_cache(path).items() if has_scores(record)}


@contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """No other precomputation fills this cache meanwhile: both would pay for the same questions.

    UsageError when one does. The system frees the lock when its holder ends in any way.
    """
    lock = path.with_name(f".{path.name}.lock")
    descriptor = files.open_lock(lock)
    try:
        locks.take(descriptor, lock, fcntl.flock, patience_s=0.0)
    except OSError as error:
        os.close(descriptor)
        message = f"{path}: another precompute is filling this cache; wait for it, then run again"
        raise UsageError(message) from error
    try:
        yield
    finally:
        os.close(descriptor)
