"""Whether a run's training data could be scored by the rubric reward."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from engine.data.contract import row_problem
from engine.runs.rundir import RunDir


def has_gold(run: RunDir) -> bool:
    """Whether the first row of the first training file has answers and gold scores."""
    manifest = run.read_manifest()
    row = _first_row(Path(manifest.get("cwd") or ""), manifest)
    return row is not None and {"prompt", "extra_info"} <= row.keys() and not row_problem(row)


def _first_row(cwd: Path, manifest: dict[str, Any]) -> dict[str, Any] | None:
    files = (manifest.get("config") or {}).get("data.train_files", {}).get("value")
    first = files[0] if isinstance(files, list) and files else files
    try:
        batches = pq.ParquetFile(cwd / Path(str(first)).expanduser()).iter_batches(1)
        rows: list[dict[str, Any]] = next(batches).to_pylist()
    except (OSError, pa.ArrowException, StopIteration):
        return None
    return rows[0] if rows else None
