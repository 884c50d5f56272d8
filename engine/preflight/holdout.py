"""Check that no validation question is also in the training data.

Rows are compared by their question ids, by the whole held-out list, and by what they ask: the
messages up to the answer, those of them that are not the system's, and the question recorded in
``extra_info``, without case, white space and Unicode forms. So rows that were copied in another
order, under another system prompt, under other ids or without any are found too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.base.parquet import pq
from engine.data.adapters.adapter import id_text
from engine.data.contract import read_facts
from engine.data.holdout import plain_text, read_holdout
from engine.preflight.check import Check, Subject, fail, skip, summary, warn
from engine.preflight.samples import split_files
from engine.recipe.recipe import Recipe
from engine.recipe.scoring import asks_judge
from engine.runs.kinds import ByKind

ID = "holdout"
SFT_HOLDOUT = "holdout_ids.json"
_NAMED = 5
_BATCH = 1024
_VIEWS = 3
_BY_CHANCE = 0.05
"""The share of validation questions that may be asked once more under another id."""
_SPLIT = ByKind(
    "holdout",
    grpo="python -m engine.data.prepare preset --only-cached",
    sft="python -m engine.data.prepare_sft",
)


def _split(recipe: Recipe) -> str:
    own = recipe.kind.has_rollouts and not asks_judge(recipe)
    return "remove the validation rows from the training file" if own else _SPLIT[recipe.kind]


@dataclass(frozen=True)
class Question:
    """A row by its place and id, and digests of what it asks: of all its messages, of those that
    are not the system's, and of its recorded question."""

    file: Path
    row: int
    id: str | None
    digests: tuple[bytes | None, ...]

    @property
    def place(self) -> str:
        return f"{'row' if self.file.suffix == '.parquet' else 'line'} {self.row}"


def check(subject: Subject) -> Check:
    """Training questions against validation questions and against the held-out list."""
    recipe = subject.recipe
    train = [path.resolve() for path in split_files(recipe, "train")]
    validation = [path.resolve() for path in split_files(recipe, "val")]
    shared_file = next((path for path in train if path in validation), None)
    if shared_file is not None:
        return fail(ID, f"{shared_file} is both training and validation data", _split(recipe))
    held_out = [path for file in train if (path := _holdout_file(file)) is not None]
    against = _names([*validation, *held_out])
    if not against:
        return skip(ID, "no validation file and no held-out list to compare with")
    key = str(recipe.get("data.prompt_key", "prompt"))
    trained = list(_questions(train, key))
    if held_out and not any(question.id for question in trained):
        if not validation:
            return skip(ID, f"the training rows have no question ids to compare with {against}")
        against = f"{_names(validation)}; without question ids {_names(held_out)} says nothing"
    found = [
        *_copied(recipe, trained, list(_questions(validation, key))),
        *_listed(recipe, trained, held_out),
    ]
    return summary(ID, found, f"{_counted(trained)}, no overlap with {against}")


def _counted(trained: Sequence[Question]) -> str:
    distinct = len({each.digests[0] for each in trained})
    rows = f" in {len(trained):,} rows" if distinct < len(trained) else ""
    return f"{distinct:,} training questions{rows}"


def _copied(
    recipe: Recipe, trained: Sequence[Question], measured: Sequence[Question]
) -> Iterator[Check]:
    """Validation rows that have the id or the text of a training row.

    Large data sets ask some questions twice, under ids of their own: a few are a warning.
    """
    by_id = {each.id: each for each in reversed(trained) if each.id is not None}
    telling = _telling(trained)
    by_text = {
        digest: each
        for each in reversed(trained)
        for view in telling
        if (digest := each.digests[view]) is not None
    }

    def twin_of(each: Question) -> Question | None:
        texts = (by_text.get(each.digests[view] or b"") for view in telling)
        return by_id.get(each.id or "") or next(filter(None, texts), None)

    pairs = [(each, twin) for each in measured if (twin := twin_of(each)) is not None]
    if not pairs:
        return
    examples = ", ".join(_pair(*pair) for pair in pairs[:_NAMED])
    more = f" and {len(pairs) - _NAMED:,} more" if len(pairs) > _NAMED else ""
    message = (
        f"{len(pairs):,} of {len(measured):,} validation questions are also in the training data"
    )
    renamed = all(twin.id not in (None, each.id) and each.id is not None for each, twin in pairs)
    is_chance = renamed and len(pairs) <= _BY_CHANCE * len(measured)
    status = warn if is_chance else fail
    yield status(ID, f"{message}: {examples}{more}", _split(recipe))


def _telling(trained: Sequence[Question]) -> list[int]:
    """The digests that tell questions apart. Where every row has the same user message ("Solve the
    task above.") that says nothing of the question."""
    counts = [len({each.digests[view] for each in trained}) for view in range(_VIEWS)]
    return [view for view in range(_VIEWS) if 2 * counts[view] > counts[0]]


def _pair(measured: Question, trained: Question) -> str:
    name = f" ('{measured.id}')" if measured.id is not None else ""
    return f"{measured.file.name} {measured.place}{name} is {trained.file.name} {trained.place}"


def _listed(
    recipe: Recipe, trained: Sequence[Question], held_out: Sequence[Path]
) -> Iterator[Check]:
    """Training rows whose id is on a held-out list."""
    listed = {name for file in held_out for name in read_holdout(file)}
    common = listed & {each.id for each in trained if each.id is not None}
    if common:
        yield fail(
            ID,
            f"{len(common)} of {len(listed)} ids of {_names(held_out)} are also trained on, "
            f"e.g. '{min(common)}'",
            _split(recipe),
        )


def _questions(files: Iterable[Path], key: str) -> Iterator[Question]:
    for file in files:
        yield from _parquet(file, key) if file.suffix == ".parquet" else _jsonl(file)


def _parquet(path: Path, key: str) -> Iterator[Question]:
    file = pq.ParquetFile(path)
    wanted = (key, "extra_info.question_id", "extra_info.question")
    columns = [name for name in wanted if _has(file, name)]
    number = 0
    for piece in file.iter_batches(batch_size=_BATCH, columns=columns):
        for row in piece.to_pylist():
            extra = row.get("extra_info") or {}
            digests = _digests(row.get(key), extra.get("question"))
            yield Question(path, number, id_text(extra.get("question_id")), digests)
            number += 1


def _has(file: pq.ParquetFile, column: str) -> bool:
    name, _, field = column.partition(".")
    schema = file.schema_arrow
    if name not in schema.names:
        return False
    return not field or schema.field(name).type.get_field_index(field) >= 0


def _jsonl(path: Path) -> Iterator[Question]:
    """What a conversation asks is all of it but the last message, which is learned."""
    with path.open("rb") as handle:
        for number, line in enumerate(handle, start=1):
            record = jsonl.parse_line(line)
            if record is not None:
                messages = record.get("messages")
                asked = messages[:-1] or messages if isinstance(messages, list) else None
                yield Question(path, number, id_text(record.get("prompt_id")), _digests(asked))


def _digests(messages: Any, question: Any = None) -> tuple[bytes | None, ...]:
    """A row whose messages cannot be read as such is compared as it is."""
    recorded = _digest([str(question)]) if question else None
    if not isinstance(messages, list) or not all(isinstance(each, dict) for each in messages):
        return _digest([json.dumps(messages, default=str)]), None, recorded
    texts = [(each.get("role"), str(each.get("content") or "")) for each in messages]
    asked = [text for role, text in texts if role != "system"]
    return _digest([text for _, text in texts]), _digest(asked) if asked else None, recorded


def _digest(texts: Iterable[str]) -> bytes:
    plain = "\0".join(map(plain_text, texts))
    return hashlib.blake2b(plain.encode(errors="replace"), digest_size=16).digest()


def _holdout_file(train: Path) -> Path | None:
    """The held-out list a file was made with: recorded in parquet, a neighbour of JSONL."""
    if train.suffix != ".parquet":
        beside = train.parent / SFT_HOLDOUT
        return beside if beside.is_file() else None
    facts = read_facts(train)
    recorded = Path(facts.holdout) if facts is not None and facts.holdout else None
    return recorded if recorded is not None and recorded.is_file() else None


def _names(files: Iterable[Path]) -> str:
    return ", ".join(dict.fromkeys(file.name for file in files))
