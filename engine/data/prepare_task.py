"""Write parquet files from records: those that GRPO trains and validates on, and benchmarks."""

from __future__ import annotations

import hashlib
import shlex
from array import array
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from engine.base import files
from engine.base.errors import UsageError, with_advice
from engine.base.files import content_hash, fingerprints
from engine.base.parquet import pa, pq
from engine.base.quantities import format_count
from engine.base.records import Record, read_records, require_file
from engine.data.benchmarks import Benchmark
from engine.data.blocklist import RecordFilter
from engine.data.contract import FileFacts, Row, make_schema, rewrite_facts
from engine.data.conversations import CONTEXT, holds_conversations, join_instruction
from engine.data.own_records import OwnRecords
from engine.tasks.registry import fitting_tasks
from engine.tasks.task import Example, RecordError, RecordFormat, is_empty

TRAIN, VALIDATION = "train.parquet", "val.parquet"
_MOST_PROBLEMS, _MOST_NAMED = 3, 8

Report = Callable[[int, str], None]
"""Gets the number of records that were read, and the file of the last one."""


def report_nothing(read: int, source: str) -> None:
    pass


@dataclass(frozen=True)
class PrepareOptions:
    """``columns``: those of the files by names of the task's; ``system`` precedes every prompt.
    Records with a text of the file ``blocklist`` in the prompt or a right answer are left out.
    ``names``: what files in a cache are called in errors and in what is recorded of the sources.

    Without a file of its own, validation gets about ``val_share`` of the prompts, at least one.
    Which ones follows from ``seed`` and their text alone, so more records move none of them.
    """

    folder: Path
    columns: Mapping[str, str] = field(default_factory=dict)
    system: str | None = None
    val_share: float = 0.1
    seed: int = 1
    skip_unusable: bool = False
    blocklist: Path | None = None
    names: Mapping[Path, str] = field(default_factory=dict)

    def name_of(self, path: Path) -> str:
        return self.names.get(path, str(path))


@dataclass
class Prepared:
    """What was written; a benchmark is all ``validation``. ``repeats`` counts records whose prompt
    an earlier one has; ``unusable`` those that are no example of the task. ``limits``: what its
    scorer cannot do with these records here. ``unused``: columns that the task does not read.
    ``fits``: the tasks that can read the first record. ``blocked``: what was left out by the block
    list; None without one."""

    train: int = 0
    validation: int = 0
    repeats: int = 0
    unusable: int = 0
    problems: list[str] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    fits: list[str] | None = None
    blocked: RecordFilter | None = None

    @property
    def hits(self) -> Mapping[str, int]:
        """The records that were left out, by text of the block list."""
        return {} if self.blocked is None else self.blocked.counts.hits

    def format_remarks(self) -> Iterator[str]:
        """What was left out and why, and the columns that were not used."""
        if self.repeats:
            yield f"left out {format_count(self.repeats, 'repeated prompt')}"
        if self.unusable:
            yield f"left out {format_count(self.unusable, 'record')}: {self.problems[0]}"
        if self.blocked is not None:
            yield from self.blocked.format_lines()
        if self.unused:
            shown, hidden = self.unused[:_MOST_NAMED], len(self.unused[_MOST_NAMED:])
            yield f"columns not used: {', '.join(shown)}{f' and {hidden} more' if hidden else ''}"


def parse_columns(given: Sequence[str], task: RecordFormat) -> dict[str, str]:
    """Columns of the files by names of the task's, from ``NAME=COLUMN``. A NAME may also be one
    that the column usually has in files. UsageError for another text or NAME."""
    columns: dict[str, str] = {}
    for text in given:
        given_name, equals, column = text.partition("=")
        name = task.find_column(given_name)
        if not equals or name is None:
            known = ", ".join(task.columns)
            raise UsageError(f"--column {text}: write NAME=COLUMN, with a NAME of {known}")
        if columns.setdefault(name, column) != column:
            raise UsageError(f"--column {text}: the {name} is the column {columns[name]} already")
    return columns


def prepare_task(
    task: RecordFormat,
    data: Sequence[Path],
    validation: Sequence[Path],
    options: PrepareOptions,
    report: Report = report_nothing,
) -> Prepared:
    """Write ``train.parquet`` and ``val.parquet`` to the folder, both or none.

    Prompts are read in the order of the files; the same input gives the same bytes. A prompt of
    ``validation`` is in no training file. Memory holds a group of rows, and a few bytes of each
    prompt. UsageError for records that are no examples, unless they are skipped, and where either
    file would be empty.
    """
    if not 0 < options.val_share < 1:
        raise UsageError(f"--val-share {options.val_share:g} must be between 0 and 1")
    reader = _Reader(task, partial(_match_columns, task, options.columns), options, report)
    in_files = task.make_records is None
    sources = _sources((*validation, *data), options, in_files=in_files)
    with ExitStack() as stack:
        stack.enter_context(_folder(options.folder))
        train, held_out = (
            stack.enter_context(TaskFile(options.folder / name, task, split, options, sources))
            for name, split in ((TRAIN, "train"), (VALIDATION, "val"))
        )
        for example in reader.read_all(validation):
            held_out.add(example)
        examples = reader.read_all(data)
        chosen = ((e, False) for e in examples) if validation else _split(examples, options)
        for example, is_val in chosen:
            (held_out if is_val else train).add(example)
        prepared = reader.prepared
        reader.note_columns()
        prepared.train, prepared.validation = train.rows, held_out.rows
        if not prepared.train:
            names = ", ".join(map(options.name_of, data))
            is_taken = format_count(prepared.validation, "prompt") + " for validation"
            reasons = "; ".join([is_taken, *prepared.format_remarks()])
            raise UsageError(f"{names}: no record is left to train on: {reasons}")
        if not prepared.validation:
            raise UsageError("the validation files have no record")
        for file in (train, held_out):
            file.finish(prepared.hits)
        for file in (train, held_out):
            file.keep()
    return prepared


def prepare_benchmark(
    benchmark: Benchmark,
    data: Sequence[Path],
    options: PrepareOptions,
    report: Report = report_nothing,
) -> Prepared:
    """Write all records to ``NAME.parquet`` in the folder, for ``evaluate``.

    The order is drawn by ``options.seed``, so the first rows are a random sample. UsageError for
    files of another schema, for records that are no examples, unless they are skipped, and where
    none is left.
    """
    reader = _Reader(benchmark.task, benchmark.match_columns, options, report)
    sources = _sources(data, options, in_files=True)
    path = options.folder / f"{benchmark.name}.parquet"
    with _folder(options.folder):
        examples = sorted(reader.read_all(data), key=lambda each: _place(each, options.seed))
        if not examples:
            names = ", ".join(map(options.name_of, data))
            problem = f"{names}: no record is left to evaluate on"
            reasons = "; ".join(reader.prepared.format_remarks())
            raise UsageError(f"{problem}: {reasons}" if reasons else problem)
        with TaskFile(path, benchmark.task, "test", options, sources, benchmark.name) as file:
            for example in examples:
                file.add(example)
            file.finish(reader.prepared.hits)
            file.keep()
    reader.prepared.validation = len(examples)
    return reader.prepared


def _sources(paths: Sequence[Path], options: PrepareOptions, *, in_files: bool) -> dict[str, str]:
    """Content hashes by path or name; empty for a source that is no file.

    UsageError for a file that does not exist or cannot be read.
    """
    hashes = {}
    for path in paths:
        hashes[options.name_of(path)] = ""
        if (own := OwnRecords.parse(str(path))) is not None:
            hashes |= own.fingerprints()
        elif in_files:
            require_file(path)
            hashes[options.name_of(path)] = content_hash(path)
    return hashes | fingerprints([options.blocklist])


def _match_columns(task: RecordFormat, chosen: Mapping[str, str], record: Record) -> dict[str, str]:
    """As the task does; the error names the tasks that can read such a record."""
    try:
        return task.match_columns(record, chosen)
    except UsageError as error:
        fits = " or ".join(fitting_tasks(record))
        advice = f"Such records fit the task {fits}" if fits else ""
        raise UsageError(with_advice(error, advice)) from error


@contextmanager
def _folder(path: Path) -> Iterator[None]:
    """The folder exists inside; it and the parents that were made for it do not stay empty."""
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {path}: {error.strerror}") from error
    try:
        yield
    finally:
        for folder in made or [path]:
            with suppress(OSError):
                folder.rmdir()


class _Reader:
    """Reads examples of files, of equal prompts the first. ``match`` finds the task's columns among
    those of a record, or raises UsageError."""

    def __init__(
        self,
        task: RecordFormat,
        match: Callable[[Record], Mapping[str, str]],
        options: PrepareOptions,
        report: Report,
    ) -> None:
        blocked = RecordFilter.read(options.blocklist) if options.blocklist else None
        self.prepared = Prepared(blocked=blocked)
        self._task, self._match, self._options, self._report = task, match, options, report
        self._columns: dict[tuple[str, ...], Mapping[str, str]] = {}
        self._seen, self._read_count = DigestSet(), 0

    def read_all(self, paths: Iterable[Path]) -> Iterator[Example]:
        return chain.from_iterable(map(self._read_file, paths))

    def note_columns(self) -> None:
        """Note the columns that were not read, and what follows if one of them is the truth."""
        present = dict.fromkeys(name for names in self._columns for name in names)
        matched = [pair for columns in self._columns.values() for pair in columns.items()]
        taken = {column for _, column in matched}
        self.prepared.unused = [name for name in present if name not in taken]
        for name in self._task.columns.keys() - {name for name, _ in matched}:
            consequence = self._task.columns[name].if_missing
            if consequence and self.prepared.unused:
                advice = f"Name its column with --column {name}=COLUMN"
                self.prepared.limits.append(with_advice(consequence, advice))

    def _read_file(self, path: Path) -> Iterator[Example]:
        name = self._options.name_of(path)
        with closing(self._records(path)) as records:
            for number, record in records:
                self._read_count += 1
                self._report(self._read_count, name)
                try:
                    example = self._read(record)
                except RecordError as error:
                    self._note_unusable(f"{name}:{number}: {error}")
                    continue
                except UsageError as error:
                    if isinstance(record, dict) and holds_conversations(record):
                        raise UsageError(
                            f"{name}: has conversations, which SFT trains on as they are: "
                            f"grubrics-tui init {shlex.quote(name)}"
                        ) from error
                    raise UsageError(f"{name}:{number}: {error}") from error
                if self._is_wanted(example):
                    yield example

    def _records(self, path: Path) -> Generator[tuple[int, Record | RecordError], None, None]:
        """The records with their numbers, or why one could not be made."""
        if (own := OwnRecords.parse(str(path))) is not None:
            yield from own.make(self._options.seed)
        elif self._task.make_records is None:
            yield from read_records(path)
        else:
            made = self._task.make_records(str(path), self._options.seed)
            yield from ((number, dict(record)) for number, record in enumerate(made))

    def _read(self, record: Record | RecordError) -> Example:
        if isinstance(record, RecordError):
            raise record
        named = [*self._options.columns.values()]
        if self._task.find_column(CONTEXT) is not None:
            named.append(CONTEXT)  # The task reads it by itself.
        record = join_instruction(record, named)
        names = tuple(record)
        if names not in self._columns:
            self._columns[names] = self._match(record)
        if self.prepared.fits is None:
            self.prepared.fits = fitting_tasks(record)
        columns = self._columns[names]
        example = self._task.read({n: record.get(columns.get(n, "")) for n in self._task.columns})
        if "truth" in columns and is_empty(example.truth):
            raise RecordError(f"the column {columns['truth']} is empty: no answer can match it")
        return example

    def _is_wanted(self, example: Example) -> bool:
        """Whether the example is new and not blocked; notes what the scorer cannot do."""
        blocked = self.prepared.blocked
        if blocked is not None and blocked.blocks(*example.texts):
            return False
        if not self._seen.add(prompt_digest(example)):
            self.prepared.repeats += 1
            return False
        limit = self._task.find_limit(example.extra)
        if limit is not None and limit not in self.prepared.limits:
            self.prepared.limits.append(limit)
        return True

    def _note_unusable(self, problem: str) -> None:
        if not self._options.skip_unusable:
            advice = "Correct it, or leave out such records with --skip-unusable"
            raise UsageError(with_advice(problem, advice))
        self.prepared.unusable += 1
        if len(self.prepared.problems) < _MOST_PROBLEMS:
            self.prepared.problems.append(problem)


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
    digest = hashlib.sha256(f"{seed} ".encode() + prompt_digest(example)).digest()
    return int.from_bytes(digest[:8], "big")


_BATCH = 10_000


def prompt_digest(example: Example) -> bytes:
    """Prompts that differ only in case and white space have the same digest."""
    text = "\0".join(" ".join(message["content"].split()) for message in example.prompt)
    return hashlib.sha256(text.casefold().encode()).digest()[:16]


class TaskFile:
    """A file that is written beside its place until it is kept; otherwise nothing is left of it.

    Its columns are those of ``engine.data.contract`` that a task needs.
    """

    def __init__(
        self,
        path: Path,
        task: RecordFormat,
        split: str,
        options: PrepareOptions,
        sources: Mapping[str, str],
        benchmark: str | None = None,
    ) -> None:
        self._path, self._task, self._system = path, task, options.system
        self._part = path.with_name(f".{path.name}.part")
        self._facts = FileFacts(
            preset=task.name,
            split=split,
            use_contrastive=False,
            holdout=None,
            seed=options.seed,
            sources=sources,
            benchmark=benchmark,
        )
        texts = ("split", "question_id", "question", *task.extra)
        schema = make_schema([("index", pa.int64()), *((name, pa.string()) for name in texts)])
        self._schema = schema.with_metadata(self._facts.to_metadata())
        self._batch: list[Row] = []
        self.rows = 0

    def __enter__(self) -> Self:
        try:
            with files.errors_name(self._path):
                self._writer = pq.ParquetWriter(self._part, self._schema)
        except OSError:
            self._part.unlink(missing_ok=True)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            with files.errors_name(self._path):
                self._writer.close()
        finally:
            self._part.unlink(missing_ok=True)

    def add(self, example: Example) -> None:
        self._batch.append(self._row(example))
        self.rows += 1
        if len(self._batch) == _BATCH:
            self._write()

    def finish(self, blocked: Mapping[str, int]) -> None:
        """Write the rest, with what a block list left out, which is known only now."""
        self._write()
        with files.errors_name(self._path):
            self._writer.close()
            if blocked:
                rewrite_facts(self._part, replace(self._facts, blocked=blocked))

    def keep(self) -> None:
        """Put the finished file in its place."""
        self._part.replace(self._path)

    def _write(self) -> None:
        if self._batch:
            table = pa.Table.from_pylist(self._batch, schema=self._schema)
            with files.errors_name(self._path):
                self._writer.write_table(table)
            self._batch = []

    def _row(self, example: Example) -> dict[str, Any]:
        system = [{"role": "system", "content": self._system}] if self._system else []
        question = example.prompt[-1]["content"]
        extra = {"index": self.rows, "split": self._facts.split, "question": question}
        identity = {"question_id": example.id or prompt_digest(example).hex()[:12]}
        return {
            "data_source": self._facts.benchmark or example.source or self._task.name,
            "prompt": [*system, *example.prompt],
            "reward_model": {"ground_truth": example.truth, "style": "rule"},
            "extra_info": {**extra, **identity, **example.extra},
        }


_FIRST_SIZE = 1 << 12


class DigestSet:
    """Remembers the first 8 bytes of digests, in 12 to 24 bytes each: a ``set`` takes about 100.

    Of n different digests, two are taken for one with a probability of n^2 / 2^65: 3e-8 for a
    million, 3e-4 for a hundred million.
    """

    def __init__(self) -> None:
        self._slots = array("Q", bytes(8 * _FIRST_SIZE))
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, digest: bytes) -> bool:
        """Add a digest of at least 8 bytes. Returns whether it is new."""
        value = int.from_bytes(digest[:8], "little") or 1  # 0 marks a free slot.
        place = _find_place(self._slots, value)
        if self._slots[place] == value:
            return False
        self._slots[place] = value
        self._count += 1
        if 3 * self._count > 2 * len(self._slots):
            self._grow()
        return True

    def _grow(self) -> None:
        slots = array("Q", bytes(16 * len(self._slots)))
        for value in self._slots:
            if value:
                slots[_find_place(slots, value)] = value
        self._slots = slots


def _find_place(slots: array[int], value: int) -> int:
    """The slot of a value, or the free one where it belongs: linear probing (Knuth, The Art of
    Computer Programming 3, section 6.4, algorithm L). The number of slots is a power of 2."""
    last = len(slots) - 1
    place = value & last
    while slots[place] not in (0, value):
        place = (place + 1) & last
    return place
