"""Does any question that measures the model also train it?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow.parquet as pq

from engine import jsonl
from engine.data.contract import read_facts
from engine.data.holdout import read_holdout
from engine.launch.recipe import Recipe
from engine.preflight.check import Check, Subject, fail, skip, summary

ID = "holdout"
SFT_HOLDOUT = "holdout_ids.json"


def check(subject: Subject) -> Check:
    """Training questions against validation questions and against the held-out list."""
    recipe = subject.recipe
    train, validation = _files(recipe, "train"), _files(recipe, "val")
    shared_file = next((path for path in train if path in validation), None)
    if shared_file is not None:
        return fail(ID, f"{shared_file} is both training and validation data", _SPLIT[recipe.kind])
    trained = _ids(train)
    if not trained:
        return skip(ID, "the training rows have no question ids to compare")
    held_out = [path for file in train if (path := _holdout_file(file)) is not None]
    found = [
        *_shared(recipe, trained, _ids(validation), "validation questions"),
        *_shared(recipe, trained, _held_out(held_out), f"ids of {_names(held_out)}"),
    ]
    against = _names([*validation, *held_out])
    if not against:
        return skip(ID, "there is no validation file and no held-out list to compare with")
    return summary(ID, found, f"{len(trained)} training questions, none of them in {against}")


_SPLIT = {
    "grpo": "python -m engine.data.prepare preset --only-cached",
    "sft": "python -m engine.data.prepare_sft",
}


def _shared(recipe: Recipe, trained: set[str], measured: set[str], what: str) -> Iterator[Check]:
    common = trained & measured
    if common:
        yield fail(
            ID,
            f"{len(common)} of {len(measured)} {what} are trained on, e.g. '{min(common)}'",
            _SPLIT[recipe.kind],
        )


def _files(recipe: Recipe, split: str) -> list[Path]:
    value = recipe.get(f"data.{split}_files") or recipe.get(f"data.{split}_file")
    names = value if isinstance(value, list) else [value]
    return [Path(name).expanduser().resolve() for name in names if name]


def _ids(files: Iterable[Path]) -> set[str]:
    return {name for file in files for name in _file_ids(file)}


def _file_ids(file: Path) -> Iterator[str]:
    if file.suffix != ".parquet":
        records = jsonl.read(file)
        yield from (str(record["prompt_id"]) for record in records if record.get("prompt_id"))
        return
    parquet = pq.ParquetFile(file)
    if parquet.schema_arrow.field("extra_info").type.get_field_index("question_id") < 0:
        return
    rows = parquet.read(columns=["extra_info.question_id"]).column("extra_info").to_pylist()
    yield from (str(row["question_id"]) for row in rows if row and row["question_id"])


def _holdout_file(train: Path) -> Path | None:
    """The held-out list a file was made with: recorded in parquet, a neighbour of JSONL."""
    if train.suffix != ".parquet":
        beside = train.parent / SFT_HOLDOUT
        return beside if beside.is_file() else None
    facts = read_facts(train)
    recorded = Path(facts.holdout) if facts is not None and facts.holdout else None
    return recorded if recorded is not None and recorded.is_file() else None


def _held_out(files: Iterable[Path]) -> set[str]:
    return {name for file in files for name in read_holdout(file)}


def _names(files: Iterable[Path]) -> str:
    return ", ".join(dict.fromkeys(file.name for file in files))
