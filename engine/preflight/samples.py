"""Read the rows of a config's data files whose prompts are measured."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any, Literal

import numpy as np

from engine.base.parquet import pa, pc, pq
from engine.recipe.recipe import Recipe

BUDGET_BYTES = 32 << 20
"""Text that is rendered and tokenized: some ten seconds on two cores."""
_BATCH = 1024

Mask = Sequence[bool]
Split = Literal["train", "val"]
SPLITS: tuple[Split, ...] = ("train", "val")


@dataclass(frozen=True)
class Sample:
    """A row as the template gets it, and the text that must be found in what it renders."""

    file: Path
    row: int
    messages: Sequence[dict[str, Any]]
    essential: str

    @property
    def place(self) -> str:
        """Rows of a parquet file count from 0, lines of a JSONL file from 1."""
        return f"{'row' if self.file.suffix == '.parquet' else 'line'} {self.row}"


def split_files(recipe: Recipe, split: Split) -> list[Path]:
    """The training or the validation files of a recipe, which names one or a list."""
    value = recipe.get(f"data.{split}_files") or recipe.get(f"data.{split}_file")
    names = value if isinstance(value, list) else [value]
    return [Path(name).expanduser() for name in names if name]


def choose_rows(
    files: Sequence[Path], key: str, budget: int = BUDGET_BYTES
) -> tuple[dict[Path, Mask], int]:
    """Every row, or the longest ones whose text fits into ``budget`` bytes; and how many rows
    there are. ``key`` is the column that holds the messages of a parquet row."""
    sizes = [_sizes(path, key) for path in files]
    every = np.concatenate([*sizes, np.zeros(0, np.int64)])
    longest_first = np.argsort(-every, kind="stable")
    fitting = int(np.searchsorted(np.cumsum(every[longest_first]), budget, side="right"))
    chosen = np.zeros(len(every), bool)
    chosen[longest_first[: max(1, fitting)]] = True
    parts = np.split(chosen, np.cumsum([len(size) for size in sizes])[:-1])
    return {path: part.tolist() for path, part in zip(files, parts, strict=True)}, len(every)


def read_samples(masks: Mapping[Path, Mask], key: str) -> Iterator[Sample]:
    """The rows that ``masks`` chose, file by file."""
    for path, mask in masks.items():
        rows = _parquet(path, key, mask) if path.suffix == ".parquet" else _jsonl(path, mask)
        yield from rows


def _sizes(path: Path, key: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Bytes of text in each row."""
    if path.suffix != ".parquet":
        with path.open("rb") as handle:
            return np.array([len(line) for line in handle if line.strip()], np.int64)
    pieces = pq.ParquetFile(path).iter_batches(batch_size=_BATCH, columns=[key])
    parts = [_message_bytes(piece.column(0)) for piece in pieces]
    return np.concatenate([*parts, np.zeros(0, np.int64)])


def _message_bytes(messages: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The sum of the lengths of a row's contents, for a list<struct<role, content>> column."""
    contents = pc.struct_field(messages.flatten(), "content")
    lengths = pc.fill_null(pc.binary_length(contents), 0).to_numpy(zero_copy_only=False)
    counts = pc.fill_null(pc.list_value_length(messages), 0).to_numpy(zero_copy_only=False)
    ends = np.cumsum(counts)
    totals = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return np.asarray(totals[ends] - totals[ends - counts], np.int64)


def _parquet(path: Path, key: str, mask: Mask) -> Iterator[Sample]:
    file = pq.ParquetFile(path)
    columns = [name for name in (key, "extra_info") if name in file.schema_arrow.names]
    start = 0
    for piece in file.iter_batches(batch_size=_BATCH, columns=columns):
        part = mask[start : start + piece.num_rows]
        numbers = compress(range(start, start + piece.num_rows), part)
        chosen = piece.filter(pa.array(part, pa.bool_()))
        for number, row in zip(numbers, chosen.to_pylist(), strict=True):
            messages = row[key] or []
            yield Sample(path, number, messages, _question(messages, row.get("extra_info")))
        start += piece.num_rows


def _question(messages: Sequence[Mapping[str, Any]], extra: Mapping[str, Any] | None) -> str:
    """The question of rubric data, of other data the last message."""
    last = messages[-1].get("content") if messages else None
    return str((extra or {}).get("question") or last or "")


def _jsonl(path: Path, mask: Mask) -> Iterator[Sample]:
    with path.open("rb") as handle:
        lines = ((number, line) for number, line in enumerate(handle, start=1) if line.strip())
        for number, line in compress(lines, mask):
            record = json.loads(line)["messages"]
            messages = [{"role": str(m["role"]), "content": str(m["content"])} for m in record]
            yield Sample(path, number, messages, messages[-1]["content"])
