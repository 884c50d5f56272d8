"""The parquet file of a task's examples, with verl's columns, written in groups of rows."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from engine.base import files
from engine.base.parquet import pa, pq
from engine.data.contract import FileFacts, Row, rewrite_facts
from engine.tasks.task import Example, RecordFormat

_BATCH = 10_000


def prompt_digest(example: Example) -> bytes:
    """Prompts that differ only in case and white space have the same digest."""
    text = "\0".join(" ".join(message["content"].split()) for message in example.prompt)
    return hashlib.sha256(text.casefold().encode()).digest()[:16]


class TaskFile:
    """A file that is written beside its place until it is kept; otherwise nothing is left of it.

    Its columns are those of ``engine.data.contract`` that a task needs. ``system`` precedes every
    prompt.
    """

    def __init__(
        self, path: Path, task: RecordFormat, facts: FileFacts, system: str | None
    ) -> None:
        self._path, self._task, self._facts, self._system = path, task, facts, system
        self._part = path.with_name(f".{path.name}.part")
        self._schema = _schema(task, facts)
        self._batch: list[Row] = []
        self.rows = 0

    def __enter__(self) -> Self:
        try:
            with files.errors_name(self._path):
                self._writer = pq.ParquetWriter(self._part, self._schema)
        except OSError:
            self._part.unlink(missing_ok=True)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            with files.errors_name(self._path):
                self._writer.close()
        finally:
            self._part.unlink(missing_ok=True)

    def add(self, example: Example) -> None:
        self._batch.append(self._row(example))
        self.rows += 1
        if len(self._batch) == _BATCH:
            self._write()

    def finish(self, blocked: Mapping[str, int]) -> None:
        """Write the rest, with what a block list left out, which is known only now."""
        self._write()
        with files.errors_name(self._path):
            self._writer.close()
            if blocked:
                rewrite_facts(self._part, replace(self._facts, blocked=blocked))

    def keep(self) -> None:
        """Put the finished file in its place."""
        self._part.replace(self._path)

    def _write(self) -> None:
        if self._batch:
            table = pa.Table.from_pylist(self._batch, schema=self._schema)
            with files.errors_name(self._path):
                self._writer.write_table(table)
            self._batch = []

    def _row(self, example: Example) -> dict[str, Any]:
        system = [{"role": "system", "content": self._system}] if self._system else []
        question = example.prompt[-1]["content"]
        extra = {"index": self.rows, "split": self._facts.split, "question": question}
        identity = {"question_id": example.id or prompt_digest(example).hex()[:12]}
        return {
            "data_source": self._facts.benchmark or example.source or self._task.name,
            "prompt": [*system, *example.prompt],
            "reward_model": {"ground_truth": example.truth, "style": "rule"},
            "extra_info": {**extra, **identity, **example.extra},
        }


def _schema(task: RecordFormat, facts: FileFacts) -> pa.Schema:
    message = pa.struct([("role", pa.string()), ("content", pa.string())])
    extra = [("index", pa.int64()), ("split", pa.string()), ("question_id", pa.string())]
    extra += [("question", pa.string()), *((name, pa.string()) for name in task.extra)]
    fields = [
        ("data_source", pa.string()),
        ("prompt", pa.list_(message)),
        ("reward_model", pa.struct([("ground_truth", pa.string()), ("style", pa.string())])),
        ("extra_info", pa.struct(extra)),
    ]
    return pa.schema(fields).with_metadata(facts.to_metadata())


_FIRST_SIZE = 1 << 12


class DigestSet:
    """Remembers the first 8 bytes of digests, in 12 to 24 bytes each: a ``set`` takes about 100.

    Of n different digests, two are taken for one with a probability of n^2 / 2^65: 3e-8 for a
    million, 3e-4 for a hundred million.
    """

    def __init__(self) -> None:
        self._slots = array("Q", bytes(8 * _FIRST_SIZE))
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, digest: bytes) -> bool:
        """Add a digest of at least 8 bytes. Returns whether it is new."""
        value = int.from_bytes(digest[:8], "little") or 1  # 0 marks a free slot.
        place = _find_place(self._slots, value)
        if self._slots[place] == value:
            return False
        self._slots[place] = value
        self._count += 1
        if 3 * self._count > 2 * len(self._slots):
            self._grow()
        return True

    def _grow(self) -> None:
        slots = array("Q", bytes(16 * len(self._slots)))
        for value in self._slots:
            if value:
                slots[_find_place(slots, value)] = value
        self._slots = slots


def _find_place(slots: array[int], value: int) -> int:
    """The slot of a value, or the free one where it belongs: linear probing (Knuth, The Art of
    Computer Programming 3, section 6.4, algorithm L). The number of slots is a power of 2."""
    last = len(slots) - 1
    place = value & last
    while slots[place] not in (0, value):
        place = (place + 1) & last
    return place
