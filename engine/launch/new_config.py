"""Write a first config for a data file: SFT for conversations, GRPO for questions of any form.

With a named task or reward function, a file that is not in GRPO's format is prepared. Without one,
a parquet file with answers and gold scores gets the rubric reward and a judge, and any other one a
score of verl's own where that pays for the answers that the prompts ask for. Otherwise it gets a
reward function in ``rewards/``, which compares the final answer of a response with the ground truth
until its author changes it.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from engine.base import files
from engine.base.errors import UsageError, with_advice
from engine.base.masking import mask_url
from engine.base.parquet import pa, pq
from engine.base.records import SUFFIXES, Record, require_file, require_utf8
from engine.base.yaml_files import read_yaml
from engine.checks.estimate.model_shape import context_of
from engine.config import hub
from engine.config.config_files import CONFIG_DIR
from engine.config.places import MAKE_TINY_WORLD, TINY_WORLD, is_hub_name, local_folder
from engine.data.contract import read_facts
from engine.data.conversations import (
    FORMS,
    first_record,
    holds_conversations,
    join_instruction,
)
from engine.data.hub_data import HubChoice, find_inputs
from engine.data.hub_source import HubSource
from engine.data.own_records import OwnRecords
from engine.data.prepare_task import (
    TRAIN,
    Prepared,
    PrepareOptions,
    Report,
    parse_columns,
    prepare_task,
    report_nothing,
)
from engine.reward.answers import read_audit_rows
from engine.reward.audit import AuditOptions, run_audit
from engine.reward.own.files import find_function
from engine.reward.own.function import TASK, RewardFunction
from engine.run.checkpoints.model_folder import missing_parts
from engine.run.host.environment import gpus
from engine.tasks.registry import find_format, find_task, fitting_tasks
from engine.tasks.rows import ROWS

DEFAULT_MODEL = "Qwen/Qwen2.5-0.5B-Instruct"
_QUESTIONS = "questions"
"""The task of ``prepare`` without ``--task``."""
_NAMED_COLUMNS = 8
_VERL_SCORE = "pkg://engine.train.verl_score"
_TRIED_ROWS = 32
_SEQUENCE = 1024
"""Tokens of a conversation, or of a prompt and its response."""
_GRPO_COLUMNS = ("prompt", "data_source", "reward_model", "extra_info")


@dataclass(frozen=True)
class Words:
    """How errors name what is given: the options of ``init``, or the fields of a form.

    ``task`` is what to do to have ``{data}`` scored by ``{task}``; ``options`` are those of the
    command, so that the errors about data can name them.
    """

    name: str = "--name"
    scoring: str = "--task or --reward"
    task: str = "grubrics-tui init {data} --task {task}"
    options: tuple[str, ...] = ("--column",)

    def score(self, data: Path, task: str = _QUESTIONS) -> str:
        return self.task.format(data=shlex.quote(str(data)), task=task)


_WORDS = Words()
_REJECTED = "SFT trains on the column chosen; rejected is not used, because there is no DPO here"
_PLAIN_PROMPTS = (
    "the prompts are the records' own: unlike those of a task, they do not say how to write the "
    "answer"
)


@dataclass(frozen=True)
class NewConfig:
    """What was written, for the file ``data``. ``reward`` is None where a judge scores or nothing
    is scored.

    ``missing``: the validation file that the config names and that does not exist yet.
    ``prepared``: what was written beside ``data``; None for a file that could be used as it was.
    ``notes``: what is to be known about the prompts that were prepared, and about the model.
    """

    name: str
    path: Path
    data: Path
    reward: Path | None = None
    missing: Path | None = None
    prepared: Prepared | None = None
    notes: tuple[str, ...] = ()


def write_config(
    data: Path,
    name: str | None = None,
    model: str | None = None,
    *,
    task: str | None = None,
    reward: str | None = None,
    tools: Path | None = None,
    columns: Sequence[str] = (),
    report: Report = report_nothing,
    words: Words = _WORDS,
) -> NewConfig:
    """Write ``configs/NAME.yaml`` for ``data``; ``name`` is by default the file's stem, or of
    ``train.parquet`` its folder's name.

    The ``task``, or the ``reward`` as ``FILE`` or ``FILE:FUNCTION``, scores the answers. For these,
    records of another form than GRPO's are prepared in ``data/NAME/``; ``data`` is then whatever
    ``prepare`` takes, ``columns`` are ``NAME=COLUMN``, and ``report`` gets its progress. The model
    may call the functions of ``tools``. UsageError if the data cannot be trained on, if there is no
    such function, or if a config of that name exists; then nothing is written.
    """
    is_scored = task is not None or reward is not None
    is_on_hub = HubSource.parse(str(data)) is not None
    # ``prepare`` also reads records in no file: of the hub, or made by the task or a function.
    if not data.is_file() and not (
        is_scored
        and (
            is_on_hub
            or OwnRecords.parse(str(data)) is not None
            or (task is not None and find_format(task).make_records is not None)
        )
    ):
        if is_scored:
            require_file(data)
        advice = f"; for a data set of the hub: {words.score(data)}" if is_on_hub else ""
        raise UsageError(
            f"{data} is not a file; give a .jsonl or .parquet file, or with {words.scoring} also "
            f"{', '.join(sorted({*SUFFIXES} - {'.jsonl', '.parquet'}))}{advice}"
        )
    if columns and not is_scored:
        raise UsageError(
            f"--column {columns[0]}: goes with {words.scoring}; for SFT, rename the columns "
            f"of {data} to prompt and response"
        )
    name = _config_name(data, name, words)
    template, scoring, written, is_ready, notes = "grpo", "", None, True, list[str]()
    if is_scored:
        scoring, is_ready = _named_scoring(task, reward), _is_for_grpo(data)
    else:
        record = _first_record(data)
        if holds_conversations(record):
            template = "sft"
            if "rejected" in record:
                notes.append(_REJECTED)
        elif not {"prompt", "reward_model"} <= record.keys():
            raise UsageError(_unknown_records(data, record, words))
        elif (is_ready := _is_for_grpo(data)) and _has_gold(data):
            facts = read_facts(data)
            contrastive = "true" if facts is None or facts.use_contrastive else "false"
            scoring = _texts()["judged"].format(contrastive=contrastive)
    if tools is not None:
        _check_tools(tools, template)
    path = CONFIG_DIR / f"{name}.yaml"
    if path.exists():
        raise UsageError(f"{path} exists; choose another {words.name}")
    prepared = None
    if not is_ready:
        data, prepared = _prepare(data, name, task, columns, report, words)
    elif columns:
        raise UsageError(f"--column {columns[0]}: {data} is not prepared, so no column is chosen")
    if template == "grpo" and not scoring:
        if sources := _scored_by_verl(data):
            scoring = _texts()["scored"].format(path=_VERL_SCORE)
            notes.append(f"verl's own score of {sources} is used, which these rows name")
        else:
            written = Path("rewards", f"{name}.py")
            scoring = _texts()["scored"].format(path=_quote(written))
    on_gpu, validation = bool(gpus()), _find_validation(data)
    model = model or DEFAULT_MODEL
    sequence = min(_SEQUENCE, context_of(model, os.environ) or _SEQUENCE)
    prompt = max(1, sequence // 2)
    bound = f" # the model's context is {sequence} tokens" if sequence < _SEQUENCE else ""
    # Many files are named for their split alone: the folder says whose it is.
    folder = f"{_plain(data.absolute().parent)}/" if _SPLIT.match(data.name) else ""
    config = _texts()[template].format(
        data=_quote(data),
        comment=folder + _plain(data),
        name=name,
        model=_quote(model),
        device="cuda" if on_gpu else "cpu",
        bf16="true" if on_gpu else "false",
        engine="vllm" if on_gpu else "hf",
        lora_rank=16 if on_gpu else 0,
        sft_rate="2.0e-4" if on_gpu else "2.0e-5",
        validation=_quote(validation),
        reward=scoring,
        tools="" if tools is None else _texts()["tools"].format(tools=_quote(tools)),
        sequence=f"{sequence}{bound}",
        prompt=f"{prompt}{bound}",
        response=f"{max(1, sequence - prompt)}{bound}",
    )
    if written is not None and not written.exists():
        _write(written, _texts()["reward_function"].replace("{data}", _plain(data)))
    _write(path, config)
    missing = validation if template == "grpo" and not validation.is_file() else None
    if prepared is not None and reward is not None:
        notes.append(_PLAIN_PROMPTS)
    if local_folder(model, os.environ) is None:
        notes.append(f"the model {model} is not on this disk; check says whether the hub has it")
    return NewConfig(name, path, data, written, missing, prepared, tuple(notes))


def describe_data(data: Path) -> str:
    """One line: what a config for the data trains, and what it needs to score answers.

    UsageError if there is no such file, or if it cannot be read.
    """
    if OwnRecords.parse(str(data)) is not None:
        return "records of a function: GRPO; name a task, or the file of your reward function"
    if not data.exists() and HubSource.parse(str(data)) is not None:
        return "a data set of the hub: GRPO; name a task, or the file of your reward function"
    require_file(data)
    record = first_record(data)
    columns = list(record) or (_schema(data).names if data.suffix == ".parquet" else [])
    if holds_conversations(dict.fromkeys(columns) | record):
        return "conversations: SFT, which scores no answers"
    if not {"prompt", "reward_model"} <= {*columns}:
        fits = fitting_tasks(record)
        advice = f", such as {fits[0]}" if fits else ""
        named = ", ".join(columns[:_NAMED_COLUMNS]) or "no columns"
        return f"records with {named}: GRPO; name a task{advice}, or the file of your reward"
    if _is_for_grpo(data) and _has_gold(data):
        return "rows with gold scores: GRPO; without a task or reward, a judge scores"
    return "rows for GRPO; without a task or reward, a function to adapt is written"


def describe_model(model: str, env: Mapping[str, str]) -> str:
    """One line: where a model comes from, and what to do if it cannot be loaded.

    ``model`` is empty for the default. The hub is asked for one that is not on the disk.
    """
    name = model or DEFAULT_MODEL
    folder = local_folder(name, env)
    if folder is not None:
        missing = missing_parts(folder)
        return f"{name} has no {' and no '.join(missing)}" if missing else f"{name} is on this disk"
    if not is_hub_name(name):
        return f"{name} does not exist; {_ANOTHER_MODEL}"
    if (variable := hub.is_offline(env)) is not None:
        return f"{name} is not on this disk, and {variable} disables downloads; {_ANOTHER_MODEL}"
    answer = hub.ask(name, env)
    if answer.state == "there":
        return f"{name} will be downloaded from {mask_url(hub.endpoint(env))}"
    if answer.state == "empty":
        return f"{name} has no config.json on the hub; {_ANOTHER_MODEL}"
    problem, advice = hub.explain(answer, name, "model", env)
    return f"{name} {problem}; {_ANOTHER_MODEL if answer.state == 'unreachable' else advice}"


_ANOTHER_MODEL = (
    f"type the folder of a model, such as that of {MAKE_TINY_WORLD}: {TINY_WORLD}/model"
)


def _prepare(
    data: Path, name: str, task: str | None, columns: Sequence[str], report: Report, words: Words
) -> tuple[Path, Prepared]:
    """Write the files of the task, or for an own reward function, to ``data/NAME``."""
    folder = Path("data", name)
    if folder == TINY_WORLD:
        raise UsageError(f"{folder} is the folder of the demo; choose another {words.name}")
    train = folder / TRAIN
    if train.exists():
        raise UsageError(
            f"{train} exists; give it instead of {data}, or choose another {words.name}"
        )
    chosen = find_format(ROWS.name if task is None else task)
    try:
        inputs = find_inputs([data], HubChoice(), os.environ)
        chosen_columns = parse_columns(columns, chosen)
        options = PrepareOptions(folder, chosen_columns, names=inputs.names)
        return train, prepare_task(chosen, inputs.paths, [], options, report)
    except UsageError as error:
        raise _with_command(error, data, chosen.name, words) from error


def _with_command(error: UsageError, data: Path, task: str, words: Words) -> UsageError:
    """The error, with the command that has the options which it names."""
    named = set(re.findall(r"(?<!\S)--[a-z-]+", str(error))) - {*words.options}
    if not named:
        return error
    columns = re.findall(r"--column \w+=COLUMN", str(error)) if "--column" in named else []
    command = shlex.join(["grubrics-tui", "prepare", str(data), "--task", task])
    command = " ".join([command, *columns])
    return UsageError(with_advice(error, f"The command for {min(named)}: {command}"))


def _check_tools(tools: Path, template: str) -> None:
    """UsageError for a file that declares no tools, and for SFT, which calls none."""
    if template == "sft":
        raise UsageError("--tools: SFT calls no tools; give it conversations that have the calls")
    try:
        text = files.read_regular(tools).decode(errors="replace")
    except OSError as error:
        raise UsageError(f"--tools {tools}: {error.strerror or error}") from error
    if "function_tool" not in text:
        raise UsageError(f"--tools {tools}: no function has @function_tool (docs/tools.md)")


def _config_name(data: Path, name: str | None, words: Words) -> str:
    if name is None:
        # ``prepare`` writes data/NAME/train.parquet.
        stem = data.absolute().parent.name if data.name == "train.parquet" else data.stem
        return re.sub(r"[^\w-]+", "-", stem, flags=re.ASCII).strip("-") or "config"
    if not re.fullmatch(r"[\w.-]+", name, re.ASCII):
        raise UsageError(f"{words.name} {name!r}: use letters, digits, '.', '_' and '-'")
    return name


def _named_scoring(task: str | None, reward: str | None) -> str:
    """The config's section for a named task or reward function."""
    if task is not None and reward is not None:
        raise UsageError("--task and --reward both score the answers; give one of them")
    if task is not None:
        return _texts()["scored"].format(path=f"{TASK}{find_task(task).name}")
    assert reward is not None
    file, _, function = reward.rpartition(":")
    if not file or not function.isidentifier():
        file, function = reward, ""
    function = find_function(Path(file), function or None)
    named = "" if function == RewardFunction.name else f"\n    name: {function}"
    return _texts()["scored"].format(path=_quote(file)) + named


@cache
def _texts() -> dict[str, str]:
    return dict(read_yaml(Path(__file__).with_suffix(".yaml")))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_atomic(path, text)


def _quote(value: object) -> str:
    """The value as text of YAML. UsageError for what OmegaConf would replace."""
    text = str(value)
    if "${" in text:
        raise UsageError(f"{text!r} contains '${{', which a config would replace; rename it")
    return text if re.fullmatch(r"[\w./-]+", text, re.ASCII) else json.dumps(text)


def _plain(data: Path) -> str:
    """The file's name for a comment or docstring, without characters that could end it."""
    return re.sub(r"[^\w.-]", "_", data.name)


_SPLIT = re.compile(r"(?:train|training)(?![a-z])", re.IGNORECASE)


def _first_record(data: Path) -> Record:
    """The first record, or the columns of a table without rows. UsageError for what is none."""
    if data.suffix.lower() not in SUFFIXES:
        raise UsageError(f"{data}: the name must end in {', '.join(SUFFIXES)}")
    record = first_record(data)
    if not record and data.suffix == ".parquet":
        return dict.fromkeys(_schema(data).names)
    if not record:
        require_utf8(data)
        raise UsageError(f"{data}: line 1 is not a JSON object")
    return record


def _unknown_records(data: Path, record: Record, words: Words) -> str:
    """What the records have, what each kind of training reads, and the command that helps."""
    has = ", ".join(sorted(record)[:_NAMED_COLUMNS]) or "nothing"
    advice = f"For GRPO, name what scores the answers: {words.scoring}"
    if fits := fitting_tasks(join_instruction(record)):
        advice = f"For GRPO on questions and answers: {words.score(data, fits[0])}"
    return f"{data}: the first record has {has}; SFT reads {FORMS} (docs/data.md). {advice}"


def _is_for_grpo(data: Path) -> bool:
    """Whether the file is in GRPO's format, so that it is used as it is. Records of any other form
    are prepared."""
    if data.suffix != ".parquet":
        return False
    schema = _schema(data)
    if not all(column in schema.names for column in _GRPO_COLUMNS):
        return False
    prompt, model = (schema.field(name).type for name in ("prompt", "reward_model"))
    is_list = pa.types.is_list(prompt) or pa.types.is_large_list(prompt)
    return bool(is_list and pa.types.is_struct(model))


def _has_gold(data: Path) -> bool:
    extra_info = _schema(data).field("extra_info").type
    return bool(pa.types.is_struct(extra_info)) and extra_info.get_field_index("gold_scores") >= 0


def _scored_by_verl(data: Path) -> str:
    """The data sources of the rows if verl has scores for them that pay for right answers as the
    prompts ask for them; empty if not, and without verl."""
    try:
        rows = read_audit_rows(data, _TRIED_ROWS)
        function = RewardFunction(_VERL_SCORE)
        result = asyncio.run(run_audit(function, rows, AuditOptions(hostile_rows=1)))
    except UsageError:
        return ""
    if result.right.failures or result.style is None or result.unpaid is not None:
        return ""
    return ", ".join(dict.fromkeys(str(row.values.get("data_source")) for row in rows))


def _schema(data: Path) -> pa.Schema:
    try:
        return pq.read_schema(data)
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"{data}: {error}") from error


def _find_validation(data: Path) -> Path:
    """The file beside ``data`` that is named for validation, else where one is to be made."""
    names = [data.name.replace("train", word) for word in ("val", "valid", "test", "dev")]
    beside = [data.with_name(name) for name in names if name != data.name]
    made = beside[0] if beside else data.with_stem(f"{data.stem}-val")
    return next((path for path in beside if path.is_file()), made)
