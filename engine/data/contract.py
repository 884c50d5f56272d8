"""The GRPO parquet file: its columns, what its metadata records, and what makes it unusable.

Columns: ``data_source`` string; ``prompt`` list<struct<role, content>> (messages, never text);
``reward_model`` struct<ground_truth, style>; ``extra_info`` struct, see ``EXTRA_INFO``. All
datasets share one schema, so files of mixed sources stay typed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from engine.errors import UsageError, nearest

MESSAGE = pa.struct([("role", pa.string()), ("content", pa.string())])
EXTRA_INFO = pa.struct(
    [
        ("index", pa.int64()),
        ("split", pa.string()),
        ("domain_type", pa.string()),
        ("question_id", pa.string()),
        ("question", pa.string()),
        ("golden_rubric", pa.string()),
        ("answers", pa.list_(pa.string())),
        ("gold_scores", pa.list_(pa.float64())),
        ("category", pa.string()),
        ("subject", pa.string()),
    ]
)
SCHEMA = pa.schema(
    [
        ("data_source", pa.string()),
        ("prompt", pa.list_(MESSAGE)),
        ("reward_model", pa.struct([("ground_truth", pa.string()), ("style", pa.string())])),
        ("extra_info", EXTRA_INFO),
    ]
)
METADATA_KEY = b"grubrics"

Row = dict[str, Any]


@dataclass(frozen=True)
class FileFacts:
    """What a parquet file was made from; stored in its schema metadata.

    ``sources`` maps input paths to content hashes. ``composition`` counts rows per dataset.
    """

    preset: str
    split: str
    use_contrastive: bool
    holdout: str | None
    seed: int
    composition: Mapping[str, int] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)


def write_rows(path: Path, rows: Sequence[Row], facts: FileFacts) -> None:
    """Write ``rows`` atomically, with ``index`` counting from 0 in file order."""
    numbered = [
        {**row, "extra_info": {**row["extra_info"], "index": index}}
        for index, row in enumerate(rows)
    ]
    metadata = {METADATA_KEY: json.dumps(asdict(facts), sort_keys=True).encode()}
    table = pa.Table.from_pylist(numbered, schema=SCHEMA.with_metadata(metadata))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.part")
    pq.write_table(table, temporary)
    temporary.replace(path)


def read_rows(path: Path) -> list[Row]:
    """The rows of a parquet file; UsageError when it is missing or not parquet."""
    rows: list[Row] = _opened(path).read().to_pylist()
    return rows


def read_facts(path: Path) -> FileFacts | None:
    """What the file records about its making; None when something else wrote it."""
    raw = (_opened(path).schema_arrow.metadata or {}).get(METADATA_KEY)
    try:
        return FileFacts(**json.loads(raw)) if raw is not None else None
    except (TypeError, ValueError):
        return None


def validate(path: Path) -> list[Row]:
    """The rows of a file that GRPO can train on; UsageError naming the first thing wrong.

    Checked: the file exists and has rows, the columns and their types, every prompt asks its
    question, every row has answers with gold scores.
    """
    schema = _opened(path).schema_arrow
    _check_columns(path, schema)
    rows = read_rows(path)
    if not rows:
        raise UsageError(f"{path}: no rows")
    for number, row in enumerate(rows):
        problem = row_problem(row)
        if problem is not None:
            raise UsageError(f"{path}: row {number}: {problem}")
    return rows


def row_problem(row: Row) -> str | None:
    """Why one row cannot be trained on, or None."""
    extra = row["extra_info"] or {}
    question = extra.get("question")
    if not row["prompt"]:
        return "prompt is empty"
    if not question:
        return "extra_info has no question"
    asked = "\n".join(message["content"] or "" for message in row["prompt"])
    if question not in asked:
        return f"the prompt does not contain the question of '{extra.get('question_id')}'"
    answers, gold = extra.get("answers") or [], extra.get("gold_scores") or []
    if not answers or not gold:
        return f"no answers/gold_scores for '{extra.get('question_id')}'; run precompute first"
    if len(answers) != len(gold):
        return f"{len(answers)} answers but {len(gold)} gold_scores"
    if any(score is None for score in gold):
        return f"gold_scores of '{extra.get('question_id')}' hold null"
    return None


def _check_columns(path: Path, schema: pa.Schema) -> None:
    for wanted in SCHEMA:
        if wanted.name not in schema.names:
            close = nearest(wanted.name, schema.names)
            hint = f"; did you mean '{close}'?" if close else f" (it has {', '.join(schema.names)})"
            raise UsageError(f"{path}: no column '{wanted.name}'{hint}")
    prompt = schema.field("prompt").type
    if not _is_messages(prompt):
        raise UsageError(
            f"{path}: column 'prompt' is {prompt}, not a list of {{role, content}}; "
            "a chat template renders text as an empty prompt: prepare the file again"
        )
    for name in ("reward_model", "extra_info"):
        if not pa.types.is_struct(schema.field(name).type):
            raise UsageError(
                f"{path}: column '{name}' is {schema.field(name).type}, not a struct; "
                "prepare the file again"
            )


def _is_messages(kind: pa.DataType) -> bool:
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return False
    inner = kind.value_type
    return pa.types.is_struct(inner) and {"role", "content"} <= {part.name for part in inner}


def _opened(path: Path) -> pq.ParquetFile:
    if not path.is_file():
        raise UsageError(f"{path} does not exist; make it with python -m engine.data.prepare")
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"{path} is not a parquet file: {error}") from error
