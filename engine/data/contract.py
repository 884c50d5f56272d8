"""The GRPO parquet file: its columns, what its metadata records, and what makes it unusable.

Columns: ``data_source`` string; ``prompt`` list<struct<role, content>> (messages, never text);
``reward_model`` struct<ground_truth, style>; ``extra_info`` struct, see ``grpo_schema``.
All datasets share one schema, so files of mixed sources stay typed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from engine.base import files
from engine.base.errors import UsageError
from engine.base.parquet import pa, pq
from engine.tasks.rubrics import contrastive_excerpts, gold_problem, rubric_messages

METADATA_KEY = b"grubrics"

Row = dict[str, Any]


@dataclass(frozen=True)
class FileFacts:
    """What a parquet file was made from; stored in its schema metadata.

    ``sources`` maps input paths to content hashes. ``composition`` counts rows per dataset. The
    task ``preset`` scores the answers to a ``benchmark``, whatever scores those to other files.
    ``blocked`` counts, by text of a block list, the records that were left out of the files of the
    call.
    """

    preset: str
    split: str
    use_contrastive: bool
    holdout: str | None
    seed: int
    composition: Mapping[str, int] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    benchmark: str | None = None
    blocked: Mapping[str, int] = field(default_factory=dict)

    def to_metadata(self) -> dict[bytes, bytes]:
        """The metadata of a file. What most files do not have is left out where it is not used, so
        that adding it changed the bytes of no other file."""
        rare = {"benchmark", "blocked"}
        value = {name: value for name, value in asdict(self).items() if value or name not in rare}
        return {METADATA_KEY: json.dumps(value, sort_keys=True).encode()}


def make_schema(extra_info: Sequence[tuple[str, pa.DataType]]) -> pa.Schema:
    """Return the columns of a training or validation file."""
    text, message = pa.string(), pa.struct([("role", pa.string()), ("content", pa.string())])
    return pa.schema(
        [
            ("data_source", text),
            ("prompt", pa.list_(message)),
            ("reward_model", pa.struct([("ground_truth", text), ("style", text)])),
            ("extra_info", pa.struct(list(extra_info))),
        ]
    )


@cache
def grpo_schema() -> pa.Schema:
    """Return the columns of a file of questions with rubrics."""
    texts = ("split", "domain_type", "question_id", "question", "golden_rubric")
    lists = [("answers", pa.list_(pa.string())), ("gold_scores", pa.list_(pa.float64()))]
    labels = [("category", pa.string()), ("subject", pa.string())]
    named = [(name, pa.string()) for name in texts]
    return make_schema([("index", pa.int64()), *named, *lists, *labels])


def write_rows(path: Path, rows: Sequence[Row], facts: FileFacts) -> None:
    """Write ``rows`` atomically, with ``index`` counting from 0 in file order."""
    numbered = [
        {**row, "extra_info": {**row["extra_info"], "index": index}}
        for index, row in enumerate(rows)
    ]
    schema = grpo_schema().with_metadata(facts.to_metadata())
    write_table(path, pa.Table.from_pylist(numbered, schema=schema))


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table atomically, with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.part")
    try:
        with files.errors_name(path):
            pq.write_table(table, temporary)
            temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_rows(path: Path) -> list[Row]:
    """The rows of a parquet file; UsageError when it is missing or not parquet."""
    rows: list[Row] = open_parquet(path).read().to_pylist()
    return rows


def read_facts(path: Path) -> FileFacts | None:
    """The facts stored in the file; None if another program wrote it."""
    raw = (open_parquet(path).schema_arrow.metadata or {}).get(METADATA_KEY)
    try:
        return FileFacts(**json.loads(raw)) if raw is not None else None
    except (TypeError, ValueError):
        return None


def rewrite_facts(path: Path, facts: FileFacts) -> None:
    """Replace the facts of a written file, for those that only its last row decides.

    Its groups of rows are copied one by one.
    """
    copy = path.with_name(f"{path.name}.copy")
    try:
        with open_parquet(path) as file:
            schema = file.schema_arrow.with_metadata(facts.to_metadata())
            with pq.ParquetWriter(copy, schema) as writer:
                for number in range(file.num_row_groups):
                    group = file.read_row_group(number)
                    writer.write_table(group.replace_schema_metadata(schema.metadata))
        copy.replace(path)
    except BaseException:
        copy.unlink(missing_ok=True)
        raise


def row_problem(row: Row) -> str | None:
    """Why a row cannot be trained on, or None."""
    extra = row["extra_info"] or {}
    question = extra.get("question")
    if not row["prompt"]:
        return "prompt is empty"
    if not question:
        return "extra_info has no question"
    prompt = "\n".join(message["content"] or "" for message in row["prompt"])
    if question not in prompt:
        return f"the prompt does not contain the question of '{extra.get('question_id')}'"
    answers, gold = extra.get("answers") or [], extra.get("gold_scores") or []
    if not answers or not gold:
        return f"no answers/gold_scores for '{extra.get('question_id')}'; run precompute first"
    problem = gold_problem(answers, gold)
    return None if problem is None else f"'{extra.get('question_id')}' has {problem}"


def open_parquet(path: Path) -> pq.ParquetFile:
    """A parquet file; UsageError when it is missing or not parquet."""
    if not path.is_file():
        raise UsageError(f"{path} does not exist; create it with python -P -m engine.data.prepare")
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"{path} is not a parquet file: {error}") from error


_CONTEXT = "CONTEXT:\n"


def rewrite_prompts(source: Path, *, use_contrastive: bool) -> list[Row]:
    """The rows of ``source``, in its order, with prompts that have excerpts or lack them.

    Questions, answers and gold scores stay as they are, so a run on the result differs from a run
    on ``source`` in the excerpts alone. UsageError for a file that this project did not prepare,
    for a prompt that was changed afterwards, and where no prompt would change.
    """
    facts, rows = read_facts(source), read_rows(source)
    if facts is None:
        raise UsageError(
            f"{source}: was not written by engine.data.prepare, so its excerpts are unknown"
        )
    written = [
        {**row, "prompt": _prompt(source, row, facts.use_contrastive, use_contrastive)}
        for row in rows
    ]
    if all(
        before["prompt"] == after["prompt"] for before, after in zip(rows, written, strict=True)
    ):
        state = "have" if use_contrastive else "have no"
        raise UsageError(f"{source}: no prompt would change; its prompts {state} excerpts already")
    return written


def write_with_excerpts(source: Path, target: Path, *, use_contrastive: bool) -> None:
    """Write ``rewrite_prompts`` of ``source`` to ``target``, with the facts of ``source``."""
    facts = read_facts(source)
    rows = rewrite_prompts(source, use_contrastive=use_contrastive)
    assert facts is not None  # rewrite_prompts has refused the file otherwise
    write_rows(target, rows, replace(facts, use_contrastive=use_contrastive))


def _prompt(source: Path, row: Row, is_contrastive: bool, use_contrastive: bool) -> Sequence[Row]:
    """The prompt of a row, rendered again. The present one must be what its parts render to."""
    extra = row["extra_info"]
    question = extra["question"]
    excerpts = contrastive_excerpts(extra["answers"] or [], extra["gold_scores"] or [])
    present = excerpts if is_contrastive else None
    context = _context(row, rubric_messages(question, "", present)[-1]["content"])
    if rubric_messages(question, context, present) != row["prompt"]:
        raise UsageError(
            f"{source}: the prompt of '{extra['question_id']}' was not written by "
            "engine.data.prepare; prepare the data again with USE_CONTRASTIVE"
        )
    return rubric_messages(question, context, excerpts if use_contrastive else None)


def _context(row: Row, rest: str) -> str:
    """The context of a question, which only its prompt holds: what comes before ``rest``."""
    before = str(row["prompt"][-1]["content"]).removesuffix(rest) if row["prompt"] else ""
    return before.removeprefix(_CONTEXT).removesuffix("\n\n")
