"""Can verl join the files of a list?

It hands them to ``datasets.concatenate_datasets``, which fills columns and fields that a file lacks
with null, and raises where the same column has two types: after the model has been loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def type_conflicts(files: Sequence[Path]) -> Iterator[str]:
    """Columns that have another type in a file than in the first; OSError, ArrowException."""
    if len(files) < 2:
        return
    first, *others = ((path, pq.read_schema(path)) for path in files)
    for path, schema in others:
        here, there = pa.struct(list(schema)), pa.struct(list(first[1]))
        for column, kinds in _differing(here, there, ""):
            message = f"column '{column}' is {kinds[0]} but {kinds[1]} in {first[0].name}"
            yield f"{path}: {message}; verl cannot join the files"


def _differing(
    here: pa.DataType, there: pa.DataType, name: str
) -> Iterator[tuple[str, tuple[pa.DataType, pa.DataType]]]:
    if pa.types.is_null(here) or pa.types.is_null(there):
        return
    if pa.types.is_struct(here) and pa.types.is_struct(there):
        for field in here:
            if (index := there.get_field_index(field.name)) >= 0:
                inner = f"{name}.{field.name}" if name else field.name
                yield from _differing(field.type, there.field(index).type, inner)
    elif pa.types.is_list(here) and pa.types.is_list(there):
        yield from _differing(here.value_type, there.value_type, name)
    elif here != there:
        yield name, (here, there)
