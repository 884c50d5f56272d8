"""Check that no validation question is also in the training data.

Rows are compared by question ID, with the held-out list, and by what they ask: all messages before
the answer, the ones of these that are not the system's, and the question in ``extra_info``. Case,
white space and Unicode forms do not count. So copied rows are found even in another order, under
another system prompt, and with other IDs or none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base.parquet import pq
from engine.checks.check import Check, Subject, fail, skip, summary, warn
from engine.checks.samples import CONVERSATIONS, prompt_key, read_samples, row_label, split_files
from engine.config.scoring import asks_judge
from engine.data.contract import read_facts
from engine.data.holdout import plain_text, read_holdout
from engine.run.host.programs import typed_module
from engine.run.kinds import ByKind

ID = "holdout"
SFT_HOLDOUT = "holdout_ids.json"
_MAX_EXAMPLES = 5
_VIEWS = 3
_SHARE_BY_CHANCE = 0.05
"""The share of validation questions that may also be asked under another ID."""
_PREPARE = ByKind(
    "holdout",
    grpo=f"{typed_module('engine.data.prepare')} preset --only-cached",
    sft=typed_module("engine.data.prepare_sft"),
)
Digests = tuple[bytes | None, ...]
"""Of all messages, of those that are not the system's, and of the recorded question."""


@dataclass(frozen=True)
class Question:
    """Where a row is, its question ID, and what it asks."""

    file: Path
    row: int
    id: str | None
    digests: Digests

    @property
    def label(self) -> str:
        return row_label(self.file, self.row)


def check(subject: Subject) -> Check:
    """Compare training questions with validation questions and the held-out list."""
    config = subject.config
    has_own_reward = config.kind.has_rollouts and not asks_judge(config)
    fix = _PREPARE[config.kind]
    if has_own_reward:
        fix = "remove the validation rows from the training file"
    train = [path.resolve() for path in split_files(config, "train")]
    validation = [path.resolve() for path in split_files(config, "val")]
    shared_file = next((path for path in train if path in validation), None)
    if shared_file is not None:
        return fail(ID, f"{shared_file} is both training and validation data", fix)
    lists = [path for file in train if (path := _find_holdout(file)) is not None]
    sources = _format_names([*validation, *lists])
    if not sources:
        return skip(ID, "no validation file and no held-out list to compare with")
    key = prompt_key(config)
    trained = list(_read_questions(train, key))
    if lists and not any(question.id for question in trained):
        if not validation:
            return skip(ID, f"the training rows have no question IDs to compare with {sources}")
        files, unused = _format_names(validation), _format_names(lists)
        sources = f"{files}; without question IDs {unused} cannot be compared"
    distinct = len({question.digests[0] for question in trained})
    rows = f" in {len(trained):,} rows" if distinct < len(trained) else ""
    problems = [*_copied_rows(trained, list(_read_questions(validation, key)), fix)]
    held_out = {name for path in lists for name in read_holdout(path)}
    if common := held_out & {question.id for question in trained if question.id is not None}:
        count = f"{len(common)} of {len(held_out)} IDs of {_format_names(lists)}"
        problems.append(fail(ID, f"{count} are also trained on, e.g. '{min(common)}'", fix))
    return summary(
        ID, problems, f"{distinct:,} training questions{rows}, no overlap with {sources}"
    )


def _copied_rows(
    trained: Sequence[Question], validation: Sequence[Question], fix: str
) -> Iterator[Check]:
    """Check for validation rows with the ID or the text of a training row.

    Large data sets have some questions twice, under different IDs: a few are a warning.
    """
    by_id = {question.id: question for question in reversed(trained) if question.id is not None}
    # A view with few distinct digests does not tell questions apart: every row may end with the
    # same user message ("Solve the task above.").
    counts = [len({question.digests[view] for question in trained}) for view in range(_VIEWS)]
    views = [view for view in range(_VIEWS) if 2 * counts[view] > counts[0]]
    by_digest = {
        digest: question
        for question in reversed(trained)
        for view in views
        if (digest := question.digests[view]) is not None
    }

    def find_copy(question: Question) -> Question | None:
        same_text = (by_digest.get(question.digests[view] or b"") for view in views)
        return by_id.get(question.id or "") or next(filter(None, same_text), None)

    pairs = [(question, copy) for question in validation if (copy := find_copy(question))]
    if not pairs:
        return
    examples = ", ".join(_format_pair(*pair) for pair in pairs[:_MAX_EXAMPLES])
    more = f" and {len(pairs) - _MAX_EXAMPLES:,} more" if len(pairs) > _MAX_EXAMPLES else ""
    message = (
        f"{len(pairs):,} of {len(validation):,} validation questions are also in the training data"
    )
    have_other_ids = all(
        copy.id not in (None, question.id) and question.id is not None for question, copy in pairs
    )
    is_chance = have_other_ids and len(pairs) <= _SHARE_BY_CHANCE * len(validation)
    yield (warn if is_chance else fail)(ID, f"{message}: {examples}{more}", fix)


def _format_pair(question: Question, copy: Question) -> str:
    name = f" ('{question.id}')" if question.id is not None else ""
    return f"{question.file.name} {question.label}{name} is {copy.file.name} {copy.label}"


def _read_questions(files: Iterable[Path], key: str) -> Iterator[Question]:
    for sample in read_samples(dict.fromkeys(files), key):
        asked = sample.messages
        if key == CONVERSATIONS:  # It asks with all messages but the last one, which is learned.
            asked = asked[:-1] or asked
        digests = _digests(asked, sample.question)
        yield Question(sample.file, sample.row, sample.question_id, digests)


def asked_digests(file: Path) -> set[bytes]:
    """What the rows of a training file ask, of GRPO or SFT."""
    is_grpo = file.suffix == ".parquet" and "reward_model" in pq.read_schema(file).names
    key = "prompt" if is_grpo else CONVERSATIONS
    questions = _read_questions([file], key)
    return {digest for question in questions for digest in question.digests[1:2] if digest}


def asked_digest(messages: Sequence[Any]) -> set[bytes]:
    """What a prompt asks, without the message of the system, to compare with these."""
    return {digest for digest in _digests([*messages])[1:2] if digest}


def _digests(messages: Any, question: Any = None) -> Digests:
    """Return the digests of a row. Messages of an unknown form are compared as JSON."""
    recorded = _digest([str(question)]) if question else None
    if not isinstance(messages, list) or not all(isinstance(each, dict) for each in messages):
        return _digest([json.dumps(messages, default=str)]), None, recorded
    texts = [(message.get("role"), str(message.get("content") or "")) for message in messages]
    asked = [text for role, text in texts if role != "system"]
    return _digest([text for _, text in texts]), _digest(asked) if asked else None, recorded


def _digest(texts: Iterable[str]) -> bytes:
    plain = "\0".join(map(plain_text, texts))
    return hashlib.blake2b(plain.encode(errors="replace"), digest_size=16).digest()


def _find_holdout(train: Path) -> Path | None:
    """Find the held-out list of a file: recorded in parquet, in the folder of JSONL."""
    if train.suffix != ".parquet":
        path: Path | None = train.parent / SFT_HOLDOUT
    else:
        facts = read_facts(train)
        path = Path(facts.holdout) if facts is not None and facts.holdout else None
    return path if path is not None and path.is_file() else None


def _format_names(files: Iterable[Path]) -> str:
    return ", ".join(dict.fromkeys(file.name for file in files))
