"""Check that the data files exist and that the trainer can use every row."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.base import jsonl
from engine.base.errors import UsageError, nearest
from engine.base.parquet import pa, pq
from engine.base.quantities import format_count
from engine.base.records import SUFFIXES, require_file
from engine.checks.check import Check, Subject, fail, ok, summary, warn
from engine.checks.demands import check_hashes
from engine.checks.samples import SPLITS, split_files
from engine.config.curriculum import find_curriculum
from engine.config.load import Config
from engine.config.places import DATA_KEYS, MAKE_TINY_WORLD, TINY_WORLD, data_files
from engine.config.scoring import asks_judge
from engine.data.adapters.adapter import id_text
from engine.data.contract import Row, grpo_schema, read_facts, row_problem
from engine.data.conversations import (
    MESSAGE_FIELDS,
    find_messages,
    parse_conversation,
    read_lines,
)
from engine.run.host.programs import typed_module
from engine.run.kinds import GRPO, SFT
from engine.tasks.rubrics import parse_rubric
from engine.tasks.task import RecordError

ID = "parquet"
_VERIFIABLE, _OPEN = "verifiable", "open_rubric"
_READ_COLUMNS = ("prompt", "extra_info")
_REQUIRED_FIELDS = {"prompt": ("role", "content"), "reward_model": ("ground_truth",)}
"""The fields that verl reads of every row; it stops where one is missing."""
_GLOB = re.compile(r"[*?\[\]{}]")
_CONTRASTIVE = "reward_config.use_contrastive"

_PREPARE = f"{typed_module('engine.data.prepare')} preset --only-cached --output_dir"
_OWN_DATA = (
    "grubrics-tui prepare DATA makes such a file of your records (docs/tasks.md); it has the "
    "columns prompt, data_source, reward_model and extra_info"
)
_PREPARE_SFT = f"{typed_module('engine.data.prepare_sft')} --output_dir"
_PREPARED_SFT = "train.jsonl"
_LINE_FORMAT = (
    '{"messages": [{"role": "user", "content": ...}, {"role": "assistant", "content": ...}]}'
)
_OWN_SFT = f"write a line {_LINE_FORMAT} for each example (docs/data.md)"


def check(subject: Subject) -> Check:
    """Check every training and validation file of the config."""
    config = subject.config
    paths = dict.fromkeys(data_files(config))
    checks = [_check_file(config, path) for path in paths] + [*check_hashes(config, ID)]
    are_sound = all(check.status != "fail" for check in checks)
    for split in SPLITS if config.kind == GRPO else ():
        files = split_files(config, split)
        for path, count in Counter(path.resolve() for path in files).items():
            if count > 1:
                message = f"data.{split}_files names {path.name} {count} times"
                checks.append(warn(ID, f"{message}: verl would read its rows that many times"))
        if split == "train" and are_sound:
            checks += _curriculum_order(config, files)
        for conflict in _type_conflicts(files) if are_sound else ():
            checks.append(fail(ID, conflict, "write the column with one type in all files"))
    messages = "; ".join(check.message for check in checks if check.status == "ok")
    return summary(ID, checks, messages or "no data files in the config")


def _curriculum_order(config: Config, files: Sequence[Path]) -> Iterator[Check]:
    """Check that the first file of a curriculum is that of verifiable rows, by what rows say."""
    if find_curriculum(config.get) is None or len(files) != 2:
        return
    first, second = (_domains(path) for path in files)
    if first[_OPEN] > first[_VERIFIABLE] and second[_VERIFIABLE] > second[_OPEN]:
        swapped = ",".join(map(str, reversed(files)))
        message = f"{files[0]}: the rows of the first file of a curriculum are {_OPEN}"
        also = f"those of {files[1].name} are {_VERIFIABLE}"
        yield fail(
            ID,
            f"{message}, and {also}: the phases mean the reverse",
            f"data.train_files=[{swapped}]",
        )


def _domains(path: Path) -> Counter[str]:
    """The rows of a file by their ``domain_type``."""
    extra = pq.read_schema(path).field("extra_info").type
    if not pa.types.is_struct(extra) or extra.get_field_index("domain_type") < 0:
        return Counter()
    table = pq.ParquetFile(path).read(columns=["extra_info.domain_type"])
    return Counter(str(row["extra_info"]["domain_type"]) for row in table.to_pylist())


def _check_file(config: Config, path: Path) -> Check:
    prepare = _prepare(config, path)
    if not path.is_file():
        similar = "" if path.exists() else _similar_file(path)
        problem = "is not a file" if path.exists() else f"does not exist{similar}"
        message = f"{config.path}: {_key(config, path)}={path} {problem}"
        is_mistyped = bool(similar) and path.is_relative_to(TINY_WORLD)
        return fail(ID, message, None if is_mistyped else prepare)
    if config.kind == SFT:
        return _check_conversations(config, path)
    if wildcard := _GLOB.search(str(path.absolute())):
        absolute = path.absolute()
        return fail(ID, f"{absolute}: verl would read {wildcard[0]!r} as a glob pattern")
    if path.suffix != ".parquet":
        message = f"{path}: the name must end in .parquet, because verl detects the format by it"
        return fail(ID, message, prepare)
    try:
        return _check_parquet(config, path)
    except (pa.ArrowException, OSError, UsageError) as error:
        first_line = str(error).splitlines()[0]
        return fail(ID, f"{path} cannot be read as parquet: {first_line}", prepare)


def _check_parquet(config: Config, path: Path) -> Check:
    file = pq.ParquetFile(path)
    problems = list(_schema_problems(path, file.schema_arrow))
    is_contrastive = bool(config.get(_CONTRASTIVE))
    facts = read_facts(path)
    if asks_judge(config) and facts is not None and facts.use_contrastive != is_contrastive:
        actual, configured = (str(flag).lower() for flag in (facts.use_contrastive, is_contrastive))
        mismatch = (
            f"{path} was prepared with use_contrastive={actual} but {config.path} has "
            f"{_CONTRASTIVE}={configured}; prompts are written when the file is prepared"
        )
        if not problems and path.is_relative_to(TINY_WORLD):
            return fail(ID, mismatch, f"{_CONTRASTIVE}={actual}")
        problems.append(mismatch)
    row_count = file.metadata.num_rows
    doubts = RowDoubts()
    if not problems and not row_count:
        problems = [f"{path} has no rows"]
    elif not problems and asks_judge(config):
        problems = list(_row_problems(path, file, doubts))
    elif not problems:
        doubts.untrue = _rows_without_truth(file)
    if problems:
        return fail(ID, "; ".join(problems), _prepare(config, path))
    if messages := list(doubts.messages(row_count)):
        return warn(ID, f"{path}: {'; '.join(messages)}", _prepare(config, path))
    without = ", without a ground truth" if doubts.untrue else ""
    return ok(ID, f"{path}: {format_count(row_count, 'row')}{without}")


def _rows_without_truth(file: pq.ParquetFile) -> list[int]:
    """The numbers of the rows whose ground truth is null or empty, by which no answer is right."""
    batches = file.iter_batches(columns=["reward_model.ground_truth"])
    rows = (row["reward_model"] for batch in batches for row in batch.to_pylist())
    truths = (row and row["ground_truth"] for row in rows)
    return [
        number
        for number, truth in enumerate(truths)
        if truth in (None, [], {}) or (isinstance(truth, str) and not truth.strip())
    ]


def _schema_problems(path: Path, schema: pa.Schema) -> Iterator[str]:
    for column in grpo_schema():
        name = column.name
        if name not in schema.names:
            close = nearest(name, schema.names)
            hint = f"did you mean '{close}'?" if close else f"it has {', '.join(schema.names)}"
            yield f"{path}: no column '{name}'; {hint}"
            continue
        type_ = schema.field(name).type
        if _nesting(type_) != _nesting(column.type):
            # A chat template iterates over text character by character, finds no roles, and renders
            # only the generation prompt. Nothing raises an error.
            effect = ": every prompt would be rendered empty" if name == "prompt" else ""
            yield f"{path}: column '{name}' is {type_} but must be {column.type}{effect}"
            continue
        fields = type_.value_type if name == "prompt" else type_
        required = _REQUIRED_FIELDS.get(name, ())
        missing = [f"'{field}'" for field in required if fields.get_field_index(field) < 0]
        if missing:
            yield f"{path}: column '{name}' is {type_} and has no field {' and no '.join(missing)}"


def _nesting(type_: pa.DataType) -> str:
    """Describe a type as far as verl distinguishes types: a list, a struct or a value."""
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return f"list of {_nesting(type_.value_type)}"
    return "struct" if pa.types.is_struct(type_) else "value"


def _row_problems(path: Path, file: pq.ParquetFile, doubts: RowDoubts) -> Iterator[str]:
    """Yield how many rows cannot be used, with the reason of the first. Fills ``doubts``."""
    unusable: list[tuple[int, str]] = []
    number = 0
    for batch in file.iter_batches(columns=list(_READ_COLUMNS)):
        for row in batch.to_pylist():
            null = next((name for name in _READ_COLUMNS if row[name] is None), None)
            problem = row_problem(row) if null is None else f"{null} is null"
            if problem is not None:
                unusable.append((number, problem))
            else:
                doubts.read(number, row)
            number += 1
    if unusable:
        (first, problem), *others = unusable
        also = f"; also {format_numbers('row', [row for row, _ in others])}" if others else ""
        yield f"{path}: {len(unusable)} of {number} rows are unusable; row {first}: {problem}{also}"


def _check_conversations(config: Config, path: Path) -> Check:
    prepare = _prepare(config, path)
    try:
        require_file(path)
        conversations = read_conversations(path)
    except UsageError as error:
        return fail(ID, str(error), prepare)
    if conversations.problem:
        return fail(ID, f"{path}: {conversations.problem}", prepare)
    if not conversations.rows:
        return fail(ID, f"{path} has no rows", prepare)
    warnings = [
        warn(ID, f"{path}: {message}", fix or prepare) for message, fix in conversations.warnings
    ]
    repeats = f", {conversations.repeats} of them repeats" if conversations.repeats else ""
    return summary(ID, warnings, f"{path}: {format_count(conversations.rows, 'row')}{repeats}")


def _key(config: Config, path: Path) -> str:
    """The key that names a data file."""
    for key in DATA_KEYS:
        if path in [Path(name).expanduser() for name in config.listed(key) if name]:
            return key
    return "data"


def _similar_file(path: Path) -> str:
    """Suggest the data file of the same folder with the most similar name."""
    stems = {
        other.stem: other
        for other in sorted(path.parent.glob("*"))
        if other.suffix in {path.suffix, *SUFFIXES}
    }
    close = nearest(path.stem, stems)
    return f"; did you mean {stems[close]}?" if close is not None else ""


def _prepare(config: Config, path: Path) -> str:
    """The command that writes the file, or a description of its format."""
    if path.is_relative_to(TINY_WORLD):
        return MAKE_TINY_WORLD
    key = _key(config, path)
    is_val = key.startswith("data.val")
    if config.kind == SFT:
        if is_val:
            return f"write it, or set {key}=null (prepare_sft makes no validation file)"
        return f"{_PREPARE_SFT} {path.parent}" if path.name == _PREPARED_SFT else _OWN_SFT
    if not asks_judge(config):
        return _OWN_DATA
    prefix = "" if config.get(_CONTRASTIVE) else "USE_CONTRASTIVE=0 "
    command = f"{prefix}{_PREPARE} {path.parent}"
    written = path.with_name("mixed_val.parquet" if is_val else "mixed_train.parquet")
    return command if path == written else f"{command}, then {key}={written}"


def _type_conflicts(files: Sequence[Path]) -> Iterator[str]:
    """Yield columns whose type differs from the one in the first file."""
    if len(files) < 2:
        return
    first, *others = ((path, pa.struct(list(pq.read_schema(path)))) for path in files)
    for path, schema in others:
        for column, here, there in _differing_types(schema, first[1], ""):
            message = f"column '{column}' is {here} but {there} in {first[0].name}"
            yield f"{path}: {message}; verl cannot join the files"


def _differing_types(
    here: pa.DataType, there: pa.DataType, name: str
) -> Iterator[tuple[str, pa.DataType, pa.DataType]]:
    if pa.types.is_null(here) or pa.types.is_null(there):
        return
    if pa.types.is_struct(here) and pa.types.is_struct(there):
        for child in here:
            if (index := there.get_field_index(child.name)) >= 0:
                inner = f"{name}.{child.name}" if name else child.name
                yield from _differing_types(child.type, there.field(index).type, inner)
    elif pa.types.is_list(here) and pa.types.is_list(there):
        yield from _differing_types(here.value_type, there.value_type, name)
    elif here != there:
        yield name, here, there


@dataclass
class RowDoubts:
    """Numbers of doubtful rows by the kind of doubt. Rows count from 0."""

    flat: list[int] = field(default_factory=list)
    contradicting: list[int] = field(default_factory=list)
    reused: list[int] = field(default_factory=list)
    untrue: list[int] = field(default_factory=list)
    _questions: dict[str, int] = field(default_factory=dict)

    def read(self, number: int, row: Row) -> None:
        """Add a usable row."""
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
        """Yield one line for each kind of doubt, of ``count`` rows."""
        kinds = [
            (self.flat, "the same gold score for all answers, so no ranking is rewarded"),
            (self.contradicting, "different gold scores for the same answer"),
            (self.reused, "the ID of another question, so their records cannot be distinguished"),
        ]
        if 0 < len(self.untrue) < count:  # Data without any need not have one.
            kinds.append((self.untrue, "an empty ground truth, which no answer equals"))
        for rows, doubt in kinds:
            if rows:
                yield f"{len(rows)} of {count} rows have {doubt} ({format_numbers('row', rows)})"


_SUM = re.compile(r"points must sum to exactly (\d+(?:\.\d+)?)", re.IGNORECASE)
_OTHER_FIELDS = (
    *("tools", "functions", "enable_thinking", "chat_template_kwargs", "images", "rejected"),
)
"""Fields of a line that other trainers read."""
_ROLES = ("system", "user", "assistant", "tool", "developer")
"""The roles that usual chat templates know: most render another one as it is, or not at all."""
_MAX_NUMBERS, _MAX_REASONS = 10, 4


@dataclass
class Conversations:
    """The content of an SFT file. Lines count from 1, the rows of parquet (``noun``) from 0.

    ``unusable``, ``unknown_roles`` and ``ignored_fields`` hold line numbers by reason, role and
    field. ``contradicting`` holds lines, with their sum of points, whose prompt asks for
    ``wanted_sum``.
    """

    noun: str = "line"
    rows: int = 0
    unusable: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    contradicting: list[tuple[int, float]] = field(default_factory=list)
    wanted_sum: float = 0.0
    unknown_roles: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    ignored_fields: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    repeats: int = 0
    _hashes: set[int] = field(default_factory=set)

    @property
    def problem(self) -> str | None:
        """The lines that cannot be used, by reason."""
        if not self.unusable:
            return None
        count = sum(map(len, self.unusable.values()))
        reasons = [
            f"{format_numbers(self.noun, lines)}: {reason}"
            for reason, lines in list(self.unusable.items())[:_MAX_REASONS]
        ]
        more = len(self.unusable) - len(reasons)
        rest = [f"and {more} more reasons"] if more else []
        return "; ".join([f"{count} of {self.rows} {self.noun}s are unusable", *reasons, *rest])

    @property
    def warnings(self) -> list[tuple[str, str | None]]:
        """What is doubtful, each with its fix; None if the fix depends on the file."""
        warnings: list[tuple[str, str | None]] = []
        if self.unknown_roles:
            roles = [
                f"'{role}' in {format_numbers(self.noun, lines)}"
                for role, lines in self.unknown_roles.items()
            ]
            more = len(roles) - _MAX_REASONS
            shown = [*roles[:_MAX_REASONS], *([f"and {more} more"] if more > 0 else [])]
            message = f"unknown roles: {'; '.join(shown)}; known: {', '.join(_ROLES)}"
            warnings.append((message, "rename the roles"))
        if self.ignored_fields:
            names = [
                f"{name} ({format_numbers(self.noun, lines)})"
                for name, lines in self.ignored_fields.items()
            ]
            fix = "remove the fields, or write their content as text"
            warnings.append((f"fields that SFT ignores: {', '.join(names)}", fix))
        if self.contradicting:
            sums = ", ".join(
                f"{self.noun} {line} {f'sums to {total:g}' if total else 'has no points'}"
                for line, total in self.contradicting[:3]
            )
            message = (
                f"{len(self.contradicting)} of {self.rows} answers contradict their prompt, which "
                f"asks for points that sum to exactly {self.wanted_sum:g}: {sums}"
            )
            warnings.append((message, None))
        return warnings

    def add(self, number: int, line: bytes) -> None:
        """Add a line of the file."""
        self.rows += 1
        digest = hash(line.strip())
        self.repeats += digest in self._hashes
        self._hashes.add(digest)
        record = jsonl.parse_line(line)
        try:
            messages = parse_conversation(record)
        except RecordError as error:
            self.unusable["not JSON" if record is None else str(error)].append(number)
            return
        assert record is not None
        for role in dict.fromkeys(message["role"] for message in messages):
            if role not in _ROLES:
                self.unknown_roles[role].append(number)
        # A parquet file has a field in all messages if one of them has it.
        given = find_messages(record) or []
        filled = (name for message in given for name in message if message[name] is not None)
        with_value = [name for name in _OTHER_FIELDS if record.get(name)]
        for name in (*with_value, *sorted({*filled} - MESSAGE_FIELDS)):
            self.ignored_fields[name].append(number)
        sums = (_SUM.search(message["content"]) for message in messages[:-1])
        if asked := next(filter(None, sums), None):
            wanted = float(asked[1])
            total = sum(item.points for item in parse_rubric(messages[-1]["content"]))
            if not math.isclose(total, wanted, abs_tol=1e-6):
                self.wanted_sum = wanted
                self.contradicting.append((number, total))


def read_conversations(path: Path) -> Conversations:
    """UsageError for a file that cannot be read."""
    conversations = Conversations("row" if path.suffix in (".parquet", ".json") else "line")
    for number, line in read_lines(path):
        conversations.add(number, line)
    return conversations


def format_numbers(noun: str, numbers: Sequence[int]) -> str:
    """``line 3``, or ``lines 3, 5, 8 and 12 more``."""
    if len(numbers) == 1:
        return f"{noun} {numbers[0]}"
    more = f" and {len(numbers) - _MAX_NUMBERS:,} more" if len(numbers) > _MAX_NUMBERS else ""
    return f"{noun}s {', '.join(map(str, numbers[:_MAX_NUMBERS]))}{more}"
