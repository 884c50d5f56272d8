"""Check that the data files exist and that the trainer can use every row."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError, nearest
from engine.base.parquet import pa, pq
from engine.data.adapters.adapter import id_text
from engine.data.contract import Row, grpo_schema, read_facts, row_problem
from engine.preflight.check import Check, Subject, fail, ok, summary, warn
from engine.preflight.conversations import WANTED, describe_other, name_numbers, read_conversations
from engine.preflight.samples import SPLITS, Split, split_files
from engine.recipe.places import data_files
from engine.recipe.recipe import Recipe
from engine.recipe.scoring import asks_judge
from engine.runs.kinds import GRPO, SFT

ID = "parquet"
TINY_WORLD = Path("data/tiny")
MAKE_TINY_WORLD = "python -m engine.data.tiny_world"
COLUMNS = ("prompt", "extra_info")
_FIELDS = {"prompt": ("role", "content"), "reward_model": ("ground_truth",)}
_SUFFIXES = (".json", ".jsonl", ".parquet")
_GLOB = re.compile(r"[*?\[\]{}]")

_PREPARE = "python -m engine.data.prepare preset --only-cached --output_dir"
_OWN_DATA = (
    "write a parquet file with the columns prompt, data_source, reward_model and extra_info "
    "(docs/rewards.md)"
)
_PREPARE_SFT = "python -m engine.data.prepare_sft --output_dir"
_PREPARED_SFT = "train.jsonl"
_OWN_SFT = f"write a line {WANTED} for each example (docs/data.md)"


def check(subject: Subject) -> Check:
    """Every training and validation file of the recipe."""
    recipe = subject.recipe
    paths = dict.fromkeys(path.expanduser() for path in data_files(recipe))
    answers = [_file(recipe, path) for path in paths]
    if recipe.kind == GRPO:
        sound = not any(answer.status == "fail" for answer in answers)
        for split in SPLITS:
            answers += _list_problems(recipe, split, sound)
    fine = "; ".join(answer.message for answer in answers if answer.status == "ok")
    return summary(ID, answers, fine or "no data files in the config")


def _list_problems(recipe: Recipe, split: Split, are_sound: bool) -> Iterator[Check]:
    """What is wrong with files that are each sound."""
    files = split_files(recipe, split)
    for path, count in Counter(path.resolve() for path in files).items():
        if count > 1:
            message = f"data.{split}_files names {path.name} {count} times"
            yield warn(ID, f"{message}: verl would read its rows that many times")
    for conflict in type_conflicts(files) if are_sound else ():
        yield fail(ID, conflict, "write the column with one type in all files")


def _file(recipe: Recipe, path: Path) -> Check:
    if not path.is_file():
        where = f"{recipe.path}: {_key(recipe, path)}={path}"
        missing = "is not a file" if path.exists() else f"does not exist{_neighbour(path)}"
        return fail(ID, f"{where} {missing}", _prepare(recipe, path))
    if recipe.kind == SFT:
        return _conversations(recipe, path)
    if wild := _GLOB.search(str(path.absolute())):
        absolute = path.absolute()
        return fail(ID, f"{absolute}: verl would read {wild[0]!r} as a glob pattern")
    if path.suffix != ".parquet":
        message = f"{path}: the name must end in .parquet, by which verl detects the format"
        return fail(ID, message, _prepare(recipe, path))
    try:
        return _parquet(recipe, path)
    except (pa.ArrowException, OSError, UsageError) as error:
        first_line = str(error).splitlines()[0]
        return fail(ID, f"{path} cannot be read as parquet: {first_line}", _prepare(recipe, path))


def _parquet(recipe: Recipe, path: Path) -> Check:
    file = pq.ParquetFile(path)
    problems = list(_schema_problems(path, file.schema_arrow))
    mismatch = _mismatch(recipe, path)
    if mismatch and not problems and path.is_relative_to(TINY_WORLD):
        return fail(ID, mismatch, f"reward_config.use_contrastive={_text(not _is_wanted(recipe))}")
    problems += [mismatch] if mismatch else []
    doubts = RowDoubts()
    if not problems and not file.metadata.num_rows:
        problems = [f"{path} has no rows"]
    if not problems and asks_judge(recipe):
        problems = list(_row_problems(path, file, doubts))
    if problems:
        return fail(ID, "; ".join(problems), _prepare(recipe, path))
    if messages := list(doubts.messages(file.metadata.num_rows)):
        return warn(ID, f"{path}: {'; '.join(messages)}", _prepare(recipe, path))
    return ok(ID, f"{path}: {file.metadata.num_rows} rows")


def _schema_problems(path: Path, schema: pa.Schema) -> Iterator[str]:
    for field in grpo_schema():
        name, wanted = field.name, field.type
        if name not in schema.names:
            close = nearest(name, schema.names)
            hint = f"did you mean '{close}'?" if close else f"it has {', '.join(schema.names)}"
            yield f"{path}: no column '{name}'; {hint}"
        elif _nesting(schema.field(name).type) != _nesting(wanted):
            yield (
                f"{path}: column '{name}' is {schema.field(name).type} but must be "
                f"{wanted}{_consequence(name)}"
            )
        elif lacking := [*_lacking_fields(name, schema.field(name).type)]:
            yield (
                f"{path}: column '{name}' is {schema.field(name).type} and has no field "
                f"{' and no '.join(lacking)}"
            )


def _lacking_fields(name: str, kind: pa.DataType) -> Iterator[str]:
    """The fields that verl reads of every row, and stops at when they are missing."""
    inner = kind.value_type if name == "prompt" else kind
    for field in _FIELDS.get(name, ()):
        if inner.get_field_index(field) < 0:
            yield f"'{field}'"


def _nesting(kind: pa.DataType) -> str:
    """The kind of a column as far as verl cares: messages, fields or text."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list of {_nesting(kind.value_type)}"
    return "struct" if pa.types.is_struct(kind) else "value"


def _consequence(name: str) -> str:
    # A chat template iterates over text character by character, finds no roles, and renders
    # nothing but the generation prompt. No error is raised anywhere.
    return ": every prompt would be rendered empty" if name == "prompt" else ""


def _is_wanted(recipe: Recipe) -> bool:
    return bool(recipe.get("reward_config.use_contrastive"))


def _mismatch(recipe: Recipe, path: Path) -> str | None:
    """Return why the file's prompts do not match the config's ``use_contrastive``."""
    facts = read_facts(path)
    wanted = _is_wanted(recipe)
    if not asks_judge(recipe) or facts is None or facts.use_contrastive == wanted:
        return None
    return (
        f"{path} was prepared with use_contrastive={_text(facts.use_contrastive)} but "
        f"{recipe.path} has reward_config.use_contrastive={_text(wanted)}; prompts are "
        "written when the file is prepared"
    )


def _row_problems(path: Path, file: pq.ParquetFile, doubts: RowDoubts) -> Iterator[str]:
    """How many rows cannot be trained on, with the first one's reason."""
    broken: list[tuple[int, str]] = []
    number = 0
    for piece in file.iter_batches(columns=list(COLUMNS)):
        for row in piece.to_pylist():
            problem = _row_problem(row)
            if problem is not None:
                broken.append((number, problem))
            else:
                doubts.read(number, row)
            number += 1
    if broken:
        (first, problem), *others = broken
        also = f"; also {name_numbers('row', [row for row, _ in others])}" if others else ""
        yield f"{path}: {len(broken)} of {number} rows are unusable; row {first}: {problem}{also}"


def _row_problem(row: Row) -> str | None:
    null = next((name for name in COLUMNS if row[name] is None), None)
    return f"{null} is null" if null is not None else row_problem(row)


def _conversations(recipe: Recipe, path: Path) -> Check:
    if path.suffix not in (".json", ".jsonl"):
        return fail(ID, *describe_other(path))
    found = read_conversations(path)
    if found.complaint:
        return fail(ID, f"{path}: {found.complaint}", _prepare(recipe, path))
    if not found.rows:
        return fail(ID, f"{path} has no rows", _prepare(recipe, path))
    doubts = [
        warn(ID, f"{path}: {message}", fix or _prepare(recipe, path))
        for message, fix in found.warnings
    ]
    if doubts:
        return summary(ID, doubts, "")
    repeats = f", {found.repeats} of them repeats" if found.repeats else ""
    return ok(ID, f"{path}: {found.rows} rows{repeats}")


def _key(recipe: Recipe, path: Path) -> str:
    """The key that names a data file."""
    for key in ("data.train_files", "data.val_files", "data.train_file", "data.val_file"):
        value = recipe.get(key)
        named = value if isinstance(value, list) else [value]
        if path in [Path(name).expanduser() for name in named if name]:
            return key
    return "data"


def _neighbour(path: Path) -> str:
    """The file beside it with the most similar name, whatever kind of data file it is."""
    stems = {
        other.stem: other
        for other in sorted(path.parent.glob("*"))
        if other.suffix in {path.suffix, *_SUFFIXES}
    }
    close = nearest(path.stem, stems)
    return f"; did you mean {stems[close]}?" if close is not None else ""


def _prepare(recipe: Recipe, path: Path) -> str:
    """The command that makes the file, or what it must be."""
    if path.is_relative_to(TINY_WORLD):
        return MAKE_TINY_WORLD
    key = _key(recipe, path)
    is_val = key.startswith("data.val")
    if recipe.kind == SFT:
        if is_val:
            return f"write it, or set {key}=null (prepare_sft makes no validation file)"
        if path.name == _PREPARED_SFT:
            return f"{_PREPARE_SFT} {path.parent}"
        return _OWN_SFT
    if not asks_judge(recipe):
        return _OWN_DATA
    contrastive = recipe.get("reward_config.use_contrastive")
    prefix = "" if contrastive else "USE_CONTRASTIVE=0 "
    name = "mixed_val.parquet" if is_val else "mixed_train.parquet"
    return _naming(f"{prefix}{_PREPARE} {path.parent}", key, path, name)


def _naming(command: str, key: str, path: Path, written: str) -> str:
    """The command, and the key to set where it writes a file of another name."""
    return command if path.name == written else f"{command}, then {key}={path.parent / written}"


def _text(flag: Any) -> str:
    return str(flag).lower()


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


@dataclass
class RowDoubts:
    """Numbers of the rows by what is doubtful about them; rows count from 0."""

    flat: list[int] = dataclass_field(default_factory=list)
    contradicting: list[int] = dataclass_field(default_factory=list)
    reused: list[int] = dataclass_field(default_factory=list)
    _questions: dict[str, int] = dataclass_field(default_factory=dict)

    def read(self, number: int, row: Row) -> None:
        """Look at a row that ``row_problem`` has nothing against."""
        extra = row["extra_info"]
        answers, gold = extra["answers"], extra["gold_scores"]
        if len(set(gold)) == 1:
            self.flat.append(number)
        if len({*zip(answers, gold, strict=True)}) > len({*answers}):
            self.contradicting.append(number)
        name, question = id_text(extra.get("question_id")), hash(extra["question"])
        if name is not None and self._questions.setdefault(name, question) != question:
            self.reused.append(number)

    def messages(self, count: int) -> Iterator[str]:
        """One line for each kind of doubt, of ``count`` rows."""
        kinds = (
            (self.flat, "the same gold score for all answers, so no ranking is rewarded"),
            (self.contradicting, "different gold scores for the same answer"),
            (self.reused, "the ID of another question, so their records cannot be distinguished"),
        )
        for rows, what in kinds:
            if rows:
                yield f"{len(rows)} of {count} rows have {what} ({name_numbers('row', rows)})"
