"""Write the parquet files that GRPO trains and validates on, from records of a task."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from engine.base.errors import UsageError, with_advice
from engine.base.files import content_hash
from engine.base.parquet import pa, pq
from engine.data.contract import METADATA_KEY, FileFacts, Row
from engine.data.records import Record, read_records, require_file
from engine.tasks.task import Example, RecordError, Task

TRAIN, VALIDATION = "train.parquet", "val.parquet"
_BATCH = 10_000
_MOST_PROBLEMS = 3


@dataclass(frozen=True)
class PrepareOptions:
    """``columns``: those of the files by names of the task's; ``system`` precedes every prompt.

    Without a file of its own, validation gets about ``val_share`` of the prompts, at least one.
    Which ones follows from ``seed`` and their text alone, so more records move none of them.
    """

    folder: Path
    columns: Mapping[str, str] = field(default_factory=dict)
    system: str | None = None
    val_share: float = 0.1
    seed: int = 1
    skip_unusable: bool = False


@dataclass
class Prepared:
    """What was written. ``repeats`` counts records whose prompt an earlier one has; ``unusable``
    those that are no example of the task. ``limits``: what its scorer cannot do here."""

    train: int = 0
    validation: int = 0
    repeats: int = 0
    unusable: int = 0
    problems: list[str] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)


def prepare_task(
    task: Task, data: Sequence[Path], validation: Sequence[Path], options: PrepareOptions
) -> Prepared:
    """Write ``train.parquet`` and ``val.parquet`` to the folder, both or none.

    Prompts are read in the order of the files; the same input gives the same bytes. A prompt of
    ``validation`` is in no training file. UsageError for records that are no examples, unless they
    are skipped, and where either file would be empty.
    """
    if not 0 < options.val_share < 1:
        raise UsageError(f"--val-share {options.val_share:g} must be between 0 and 1")
    given, in_files = (*validation, *data), task.make_records is None
    if in_files:
        for path in given:
            require_file(path)
    prepared, seen = Prepared(), set[bytes]()
    with ExitStack() as stack:
        sources = {str(path): (content_hash(path) if in_files else None) or "" for path in given}
        stack.enter_context(_folder(options.folder))
        files = {
            split: stack.enter_context(_File(options, split, task, sources))
            for split in ("train", "val")
        }
        for path in validation:
            for example in _examples(task, path, options, prepared, seen):
                files["val"].add(example)
        examples = chain.from_iterable(
            _examples(task, path, options, prepared, seen) for path in data
        )
        chosen = ((e, False) for e in examples) if validation else _split(examples, options)
        for example, is_val in chosen:
            files["val" if is_val else "train"].add(example)
        prepared.train, prepared.validation = files["train"].rows, files["val"].rows
        _require_rows(prepared, data)
        for file in files.values():
            file.keep()
    return prepared


@contextmanager
def _folder(path: Path) -> Iterator[None]:
    """The folder exists inside; one that stays empty does not stay."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {path}: {error.strerror}") from error
    try:
        yield
    finally:
        with suppress(OSError):
            path.rmdir()


def _examples(
    task: Task, path: Path, options: PrepareOptions, prepared: Prepared, seen: set[bytes]
) -> Iterator[Example]:
    """The examples of a file whose prompts have not been seen."""
    known: dict[tuple[str, ...], dict[str, str]] = {}
    for number, record in _records(task, path, options.seed):
        names = tuple(record)
        if names not in known:
            try:
                known[names] = task.match_columns(names, options.columns)
            except UsageError as error:
                raise UsageError(f"{path}:{number}: {error}") from error
        try:
            example = _read(task, record, known[names])
        except RecordError as error:
            _note_unusable(f"{path}:{number}: {error}", options, prepared)
            continue
        if (key := _digest(example)) in seen:
            prepared.repeats += 1
            continue
        seen.add(key)
        limit = task.find_limit(example.extra)
        if limit is not None and limit not in prepared.limits:
            prepared.limits.append(limit)
        yield example


def _records(task: Task, path: Path, seed: int) -> Iterator[tuple[int, Record]]:
    if task.make_records is None:
        return read_records(path)
    return (
        (number, dict(record)) for number, record in enumerate(task.make_records(str(path), seed))
    )


def _read(task: Task, record: Record, columns: Mapping[str, str]) -> Example:
    return task.read({name: record.get(columns.get(name, "")) for name in task.columns})


def _note_unusable(problem: str, options: PrepareOptions, prepared: Prepared) -> None:
    if not options.skip_unusable:
        advice = "Correct it, or leave out such records with --skip-unusable"
        raise UsageError(with_advice(problem, advice))
    prepared.unusable += 1
    if len(prepared.problems) < _MOST_PROBLEMS:
        prepared.problems.append(problem)


def _split(examples: Iterable[Example], options: PrepareOptions) -> Iterator[tuple[Example, bool]]:
    """Each example, with whether it is for validation.

    Those with the smallest hashes are; if all hashes are above the share, the smallest one is.
    """
    limit, first, has_val = int(options.val_share * 2**64), None, False
    for example in examples:
        place = _place(example, options.seed)
        if place < limit:
            has_val = True
            yield example, True
        elif first is None:
            first = example
        elif place < _place(first, options.seed):
            yield first, False
            first = example
        else:
            yield example, False
    if first is not None:
        yield first, not has_val


def _place(example: Example, seed: int) -> int:
    """A number below 2**64 that is drawn by the prompt."""
    digest = hashlib.sha256(f"{seed} ".encode() + _digest(example)).digest()
    return int.from_bytes(digest[:8], "big")


def _digest(example: Example) -> bytes:
    """Prompts that differ only in case and white space are the same."""
    text = "\0".join(" ".join(message["content"].split()) for message in example.prompt)
    return hashlib.sha256(text.casefold().encode()).digest()[:16]


def _require_rows(prepared: Prepared, data: Sequence[Path]) -> None:
    names = ", ".join(map(str, data))
    if not prepared.train:
        raise UsageError(f"{names}: no record is left to train on")
    if not prepared.validation:
        raise UsageError("the validation files have no record")


def _schema(task: Task, facts: FileFacts) -> pa.Schema:
    message = pa.struct([("role", pa.string()), ("content", pa.string())])
    extra = [("index", pa.int64()), ("split", pa.string()), ("question_id", pa.string())]
    extra += [("question", pa.string()), *((name, pa.string()) for name in task.extra)]
    fields = [
        ("data_source", pa.string()),
        ("prompt", pa.list_(message)),
        ("reward_model", pa.struct([("ground_truth", pa.string()), ("style", pa.string())])),
        ("extra_info", pa.struct(extra)),
    ]
    metadata = {METADATA_KEY: json.dumps(asdict(facts), sort_keys=True).encode()}
    return pa.schema(fields).with_metadata(metadata)


class _File:
    """One of the files, written beside its place in groups of rows until it is kept."""

    def __init__(
        self, options: PrepareOptions, split: str, task: Task, sources: Mapping[str, str]
    ) -> None:
        self._path = options.folder / (TRAIN if split == "train" else VALIDATION)
        self._part = self._path.with_name(f".{self._path.name}.part")
        self._options, self._split, self._task = options, split, task
        facts = FileFacts(
            preset=task.name,
            split=split,
            use_contrastive=False,
            holdout=None,
            seed=options.seed,
            sources=sources,
        )
        self._schema = _schema(task, facts)
        self._batch: list[Row] = []
        self.rows = 0

    def __enter__(self) -> Self:
        self._writer = pq.ParquetWriter(self._part, self._schema)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.close()
        self._part.unlink(missing_ok=True)

    def add(self, example: Example) -> None:
        self._batch.append(self._row(example))
        self.rows += 1
        if len(self._batch) == _BATCH:
            self._write()

    def keep(self) -> None:
        """Put the whole file in its place."""
        self._write()
        self._writer.close()
        self._part.replace(self._path)

    def _write(self) -> None:
        if self._batch:
            self._writer.write_table(pa.Table.from_pylist(self._batch, schema=self._schema))
            self._batch = []

    def _row(self, example: Example) -> dict[str, Any]:
        system = [{"role": "system", "content": self._options.system}]
        question = example.prompt[-1]["content"]
        extra = {"index": self.rows, "split": self._split, "question": question}
        identity = {"question_id": _digest(example).hex()[:12]}
        return {
            "data_source": self._task.name,
            "prompt": [*(system if self._options.system else []), *example.prompt],
            "reward_model": {"ground_truth": example.truth, "style": "rule"},
            "extra_info": {**extra, **identity, **example.extra},
        }
