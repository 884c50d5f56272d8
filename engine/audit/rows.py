"""Rows of a training file for an audit, from all parts of it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from engine.audit.answers import Row, truth_of
from engine.base.errors import UsageError
from engine.base.parquet import pa, pq

_COLUMNS = ("data_source", "prompt", "reward_model", "extra_info")


def read_audit_rows(path: Path, count: int) -> list[Row]:
    """At most ``count`` rows at equal distances; of another row's truth, the next different one.

    UsageError for what is no parquet file with the columns of GRPO.
    """
    try:
        file = pq.ParquetFile(path)
        names = file.schema_arrow.names
        if missing := [name for name in ("prompt", "reward_model") if name not in names]:
            raise UsageError(f"{path}: no column {', '.join(missing)} (docs/rewards.md)")
        step = max(1, math.ceil(file.metadata.num_rows / count))
        columns = [name for name in _COLUMNS if name in names]
        kept: list[tuple[int, dict[str, Any]]] = []
        start = 0
        for batch in file.iter_batches(columns=columns):
            chosen = range(-start % step, batch.num_rows, step)
            rows = batch.take(pa.array(chosen, pa.int64())).to_pylist()
            kept += zip((start + index for index in chosen), rows, strict=True)
            start += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    truths = [truth_of(values) for _, values in kept]
    return [Row(number, values, _other(truths, i)) for i, (number, values) in enumerate(kept)]


def _other(truths: list[str], index: int) -> str:
    """The next truth that differs; the same one where none does."""
    following = (*truths[index + 1 :], *truths[:index])
    return next((truth for truth in following if truth and truth != truths[index]), truths[index])
