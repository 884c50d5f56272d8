"""Read the rows of a config's data files whose prompts are measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any, Literal

import numpy as np

from engine.base import jsonl
from engine.base.parquet import pa, pc, pq
from engine.config.load import Config
from engine.data.adapters.adapter import id_text
from engine.data.conversations import parse_conversation, read_lines
from engine.run.kinds import SFT
from engine.tasks.task import RecordError

BUDGET_BYTES = 32 << 20
"""Text that is rendered and tokenized: about ten seconds on two cores."""
_BATCH = 1024

Mask = Sequence[bool]
Split = Literal["train", "val"]
SPLITS: tuple[Split, ...] = ("train", "val")


@dataclass(frozen=True)
class Sample:
    """A row: its messages, which parquet may hold in another form, and the question and its ID that
    are recorded with it."""

    file: Path
    row: int
    messages: Any
    question: str | None = None
    question_id: str | None = None

    @property
    def essential(self) -> str:
        """The text that the rendered prompt must contain."""
        last = self.messages[-1].get("content") if self.messages else None
        return str(self.question or last or "")


def row_label(file: Path, row: int) -> str:
    """``row 0`` of parquet or JSON, which count from 0; ``line 1`` of a text."""
    return f"{'row' if file.suffix in ('.parquet', '.json') else 'line'} {row}"


CONVERSATIONS = "conversations"
"""In place of a column: the rows are conversations of SFT, of JSONL or parquet."""


def prompt_key(config: Config) -> str:
    """The column of the prompts, or ``CONVERSATIONS``."""
    is_sft = config.kind == SFT
    return CONVERSATIONS if is_sft else str(config.get("data.prompt_key", "prompt"))


def split_files(config: Config, split: Split) -> list[Path]:
    """The training or validation files of a config, which names one or a list."""
    names = config.listed(f"data.{split}_files") or config.listed(f"data.{split}_file")
    return [Path(name).expanduser() for name in names if name]


def choose_rows(
    files: Sequence[Path], key: str, budget: int = BUDGET_BYTES
) -> tuple[dict[Path, Mask], int]:
    """Choose the longest rows whose text fits into ``budget`` bytes, and count all rows.

    ``key`` is the column with the messages of a parquet row, or ``CONVERSATIONS``.
    """
    sizes_by_file = [_text_sizes(path, key) for path in files]
    sizes = np.concatenate([*sizes_by_file, np.zeros(0, np.int64)])
    longest_first = np.argsort(-sizes, kind="stable")
    fitting = int(np.searchsorted(np.cumsum(sizes[longest_first]), budget, side="right"))
    chosen = np.zeros(len(sizes), bool)
    chosen[longest_first[: max(1, fitting)]] = True
    masks = np.split(chosen, np.cumsum([len(part) for part in sizes_by_file])[:-1])
    return {path: mask.tolist() for path, mask in zip(files, masks, strict=True)}, len(sizes)


def read_samples(masks: Mapping[Path, Mask | None], key: str) -> Iterator[Sample]:
    """Read the rows that ``masks`` chose, file by file; all rows without masks.

    Lines that are no conversation are left out: the check ``parquet`` names them.
    """
    for path, mask in masks.items():
        if path.suffix == ".parquet" and key != CONVERSATIONS:
            yield from _read_parquet(path, key, mask)
            continue
        lines = read_lines(path)
        for number, line in lines if mask is None else compress(lines, mask):
            record = jsonl.parse_line(line)
            with suppress(RecordError):
                messages = parse_conversation(record)
                name = id_text((record or {}).get("prompt_id"))
                yield Sample(path, number, messages, question_id=name)


def _text_sizes(path: Path, key: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The bytes of text in each row; ``key`` is a list<struct<role, content>> column."""
    if path.suffix != ".parquet" or key == CONVERSATIONS:
        return np.array([len(line) for _, line in read_lines(path)], np.int64)
    sizes = [np.zeros(0, np.int64)]
    for batch in pq.ParquetFile(path).iter_batches(batch_size=_BATCH, columns=[key]):
        messages = batch.column(0)
        contents = pc.struct_field(messages.flatten(), "content")
        lengths = pc.fill_null(pc.binary_length(contents), 0).to_numpy(zero_copy_only=False)
        counts = pc.fill_null(pc.list_value_length(messages), 0).to_numpy(zero_copy_only=False)
        ends = np.cumsum(counts)
        totals = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        sizes.append(np.asarray(totals[ends] - totals[ends - counts], np.int64))
    return np.concatenate(sizes)


def _read_parquet(path: Path, key: str, mask: Mask | None) -> Iterator[Sample]:
    file = pq.ParquetFile(path)
    schema = file.schema_arrow
    columns = [key] if key in schema.names else []
    if "extra_info" in schema.names:
        fields = schema.field("extra_info").type
        names = ("question_id", "question")
        columns += [f"extra_info.{name}" for name in names if fields.get_field_index(name) >= 0]
    start = 0
    for batch in file.iter_batches(batch_size=_BATCH, columns=columns):
        numbers = range(start, start + batch.num_rows)
        chosen = [True] * batch.num_rows if mask is None else mask[start : start + batch.num_rows]
        rows = batch.filter(pa.array(chosen, pa.bool_())).to_pylist()
        for number, row in zip(compress(numbers, chosen), rows, strict=True):
            extra = row.get("extra_info") or {}
            name = id_text(extra.get("question_id"))
            yield Sample(path, number, row.get(key) or [], extra.get("question"), name)
        start += batch.num_rows
