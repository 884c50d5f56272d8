"""Training files of the tiny world with one thing wrong in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

TRAIN = Path("data/tiny/processed/train.parquet")
VAL = Path("data/tiny/processed/val.parquet")

Row = dict[str, Any]


def without_gold(row: Row) -> Row:
    return {**row, "extra_info": {**row["extra_info"], "gold_scores": []}}


def with_flat_gold(row: Row) -> Row:
    """Gold that ranks no answer above another."""
    gold = [0.5] * len(row["extra_info"]["gold_scores"])
    return {**row, "extra_info": {**row["extra_info"], "gold_scores": gold}}


def without_prompt(row: Row) -> Row:
    return {**row, "prompt": [{"role": "user", "content": ""}]}


def write_with(change: Callable[[Row], Row], target: Path) -> Path:
    """The tiny world's training file with every row changed."""
    table = pq.read_table(TRAIN)
    rows = [change(row) for row in table.to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), target)
    return target


def write_with_held_out_rows(target: Path) -> Path:
    """Training data that holds the validation questions too."""
    train = pq.read_table(TRAIN)
    held_out = pq.read_table(VAL, columns=train.column_names).cast(train.schema)
    pq.write_table(pa.concat_tables([train, held_out]), target)
    return target
