"""Find the call of verl's trainer in a shell script, and the keys that it gets."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

from engine.base import files
from engine.base.errors import UsageError, nearest, shorten
from engine.base.masking import is_secret, mask_words
from engine.config.load import parse_override
from engine.translate.shell_script import SOURCES, Command, Export, Script, follow, holds_secret
from engine.translate.shell_state import Argument, Unknown
from engine.translate.shell_words import ShellError
from engine.translate.translation import Row, left_out

LARGEST = 1 << 20
"""Bytes of a script; those of verl have a few thousand."""

Trainer = Literal["ppo", "sft", "fsdp_sft"]
_TRAINERS: dict[str, Trainer] = {
    "main_ppo": "ppo",
    "main_ppo_sync": "ppo",
    "main_dapo": "ppo",
    "sft_trainer": "sft",
    "sft_trainer_ray": "sft",
    "fsdp_sft_trainer": "fsdp_sft",
}
"""By the last word of the module: verl's own, and those of its recipes."""
_MODULE = re.compile(r"(?:[\w.]*\.|(?:[\w./-]*/)?)(main_\w+|\w*sft_trainer\w*)(?:\.py)?")
_OF_VERL = re.compile(r"verl\.trainer\.(\w+)|(?:.*/)?verl/trainer/(\w+)\.py")
_STARTS_TRAINER = re.compile(rf"\b(?:{'|'.join(_TRAINERS)})\b")
_ENVIRONMENT = ("HOME", "USER")
_KEY = re.compile(r"(\+\+|\+|~)?([\w./@-]+)(?:=(.*))?", re.DOTALL)
_DOTTED = re.compile(r"(?:\+{1,2}|~)?\w+\.[\w.]+=")
_NUMBER = re.compile(
    r"[-+]?(?:(?:0|[1-9]\d*)(?:_\d+)*(?:\.[\d_]*)?|\.\d[\d_]*)(?:e[-+]?\d+)?|[-+]?\.?(?:inf|nan)",
    re.IGNORECASE | re.ASCII,
)
_MAPPING_COLON = re.compile(r"([{,]\s*['\"]?[\w./-]+['\"]?):(?=\S)")

_VARIABLE = re.compile(r"(?:export |.+\.env_vars\.)(\w+)")
_OF_GPU = re.compile(
    r"(?:VLLM|SGL|SGLANG|NCCL|TRITON|CUDA|HIP|ROCR|FLASH\w*|PYTORCH_(?:CUDA|HIP|NO_CUDA)|TORCH_(?:NCCL|CUDA))_"
)
"""Names of variables of rollout engines and of libraries for GPUs."""

_QUIET = re.compile(r"(?:.*/)?(?:python[\d.]*|nohup|exec|time|command|stdbuf|unbuffer|setsid)")
"""Programs that change nothing of what a config says."""
_TORCHRUN = ("torchrun", "accelerate", "deepspeed")
_MODULES = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch")
"""The same as modules of Python."""
_PROGRAMS = ("env", "srun", "sbatch", "mpirun", "ray", *_TORCHRUN)
_NOTES = {
    "env": "variables of the launch are those of your shell and of .env",
    "srun": "to train on Slurm: docs/slurm.md",
    "sbatch": "to train on Slurm: docs/slurm.md",
    "mpirun": "the trainer starts its own processes",
    "ray": "to train on its cluster: grubrics-tui launch NAME --ray ADDRESS (docs/cluster.md)",
    **dict.fromkeys(_TORCHRUN, "the trainer starts its own processes"),
}
_ALIASES = {
    "num_processes": "nproc_per_node",
    "num_machines": "nnodes",
    "num_gpus": "nproc_per_node",
}
"""Options of accelerate and deepspeed, by those of torchrun."""
_VALUED = ("-u", "--unset", "-C", "--chdir")
"""Options of ``env`` that are followed by a value."""
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.ASCII | re.DOTALL)

GROUP = "it chooses a part of verl's config files, not a value"


@dataclass(frozen=True)
class Override:
    """A word of the trainer's command: ``+key=value``."""

    line: int | None
    key: str
    value: Any


@dataclass(frozen=True)
class TrainerCall:
    """``launcher`` has options of torchrun by their names; ``rows`` are what was left out."""

    trainer: Trainer
    line: int
    overrides: tuple[Override, ...]
    launcher: dict[str, str]
    exports: tuple[Export, ...]
    rows: tuple[Row, ...]


def read_script(path: Path, arguments: Sequence[str], line: int | None = None) -> TrainerCall:
    """Read the script's call of a trainer, or of several the one in ``line``.

    ``arguments`` are those of the script itself: ``$1``, ``$@``. UsageError if it has no such call
    or several, or if no shell can read it.
    """
    try:
        text = files.read_regular(path, LARGEST).decode()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text: {error}") from error
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    environment["PWD"] = str(Path.cwd())
    try:
        script = follow(text, arguments, environment)
    except ShellError as error:
        raise UsageError(f"{path}: {error}") from error
    return _call(script, _find(path, script, line))


def _find(path: Path, script: Script, line: int | None) -> Command:
    calls = [command for command in script.commands if _find_trainer(command)]
    if line is not None:
        calls = [call for call in calls if call.line == line] or calls
    if len(calls) == 1 and line in (None, calls[0].line):
        return calls[0]
    if calls:
        lines = ", ".join(str(call.line) for call in calls)
        where = "a trainer in line" if len(calls) == 1 else "trainers in lines"
        raise UsageError(f"{path} starts {where} {lines}; choose it with --line")
    words = (argument.text for command in script.commands for argument in command.arguments)
    modules = [match[1] or match[2] for word in words if (match := _OF_VERL.fullmatch(word))]
    known = ", ".join(f"verl.trainer.{name}" for name in ("main_ppo", "sft_trainer"))
    if modules:
        close = nearest(modules[0], _TRAINERS)
        hint = f"; did you mean '{close}'?" if close else f"; known: {known}"
        raise UsageError(f"{path}: '{modules[0]}' is not a trainer that can be translated{hint}")
    for command in script.commands:
        for argument in command.arguments:
            if _STARTS_TRAINER.search(argument.text):
                raise UsageError(
                    f"{path}: line {command.line} starts the trainer in a text that import cannot "
                    "read. Save that command as a script, and import it"
                )
    runs = (
        f"; line {command.line} runs {argument.text}: import that script"
        for command in script.commands
        for argument in command.arguments
        if argument.problem is None and argument.text.endswith((".sh", ".slurm", ".sbatch"))
    )
    raise UsageError(
        f"{path} starts no trainer of verl, such as python3 -m {known}{next(runs, '')}"
    )


def _find_trainer(command: Command) -> tuple[int, Trainer] | None:
    """Where the command names a trainer, after ``-m`` or as a file, and which one."""
    for index, argument in enumerate(command.arguments[1:], start=1):
        is_program = command.arguments[index - 1].text == "-m" or argument.text.endswith(".py")
        match = _MODULE.fullmatch(argument.text) if is_program else None
        if match and match[1] in _TRAINERS:
            return index, _TRAINERS[match[1]]
    return None


def _call(script: Script, command: Command) -> TrainerCall:
    found = _find_trainer(command)
    assert found is not None
    index, trainer = found
    before = [_without_secret(word, script) for word in command.arguments[:index]]
    launchers = _read_launchers(before, command.line)
    named = [(each.name, each.value) for each in launchers.exports]
    own = {value for name, value in named if isinstance(value, str) and is_secret(name, value)}
    script = replace(script, secrets=script.secrets | own)
    words = [_without_secret(word, script) for word in command.arguments[index + 1 :]]
    overrides, rows = _overrides(words)
    others = [_other_command(other, script) for other in script.commands if other is not command]
    return TrainerCall(
        trainer,
        command.line,
        tuple(overrides),
        launchers.options,
        (*script.exports, *command.exports, *launchers.exports),
        (*rows, *launchers.rows, *(row for row in others if row)),
    )


@dataclass(frozen=True)
class _Launchers:
    """The words before the trainer's module: ``env``, ``srun``, ``ray job submit``, ``torchrun``.

    ``exports``: variables that they set. ``options``: those of torchrun, by their names. ``rows``
    say why the rest is not read.
    """

    exports: tuple[Export, ...]
    rows: tuple[Row, ...]
    options: dict[str, str]


def _read_launchers(arguments: Sequence[Argument], line: int) -> _Launchers:
    """Read the words up to the trainer's module, which begin in ``line``."""
    exports: list[Export] = []
    rows: list[Row] = []
    options: dict[str, str] = {}
    for name, words in _split(arguments):
        known = [_export(word) for word in words if name == "env" and _ASSIGNED.match(word.text)]
        if name == "srun" and (value := _options(words).get("export")) is not None:
            # ``--export=ALL,NAME=value``. A value that holds a comma cannot be written so.
            parts = (Argument(value.line, text, value.problem) for text in value.text.split(","))
            known = [_export(part) for part in parts if _ASSIGNED.match(part.text)]
        exports += known
        if name == "ray":
            of_ray, others = _of_ray(words, line)
            exports += of_ray
            rows += others
        if name in _TORCHRUN:
            for option, value in _options(words).items():
                options[_ALIASES.get(option, option)] = "" if value.problem else value.text
        if not _QUIET.fullmatch(name) and not (name == "env" and len(known) == len(words) - 1):
            note = _NOTES.get(name, "a program before the trainer, which import does not run")
            rows.append(left_out(_shown(name, words), line, note))
    return _Launchers(tuple(exports), tuple(rows), options)


def _split(arguments: Sequence[Argument]) -> Iterator[tuple[str, list[Argument]]]:
    """Each program with its own words, its name first."""
    group: list[Argument] = []
    name = ""
    for argument in arguments:
        program = argument.text.rpartition("/")[2]
        begins = not group or program in _PROGRAMS or bool(_QUIET.fullmatch(argument.text))
        if name == "env" and not argument.text.startswith("-"):
            is_value = group[-1].text in _VALUED or bool(_ASSIGNED.match(argument.text))
            begins = begins or not is_value
        if begins and group:
            yield name, group
            group = []
        if begins:
            name = program
        group.append(argument)
        if argument.text in _MODULES:
            name = "torchrun"
    if group:
        yield name, group


def _shown(name: str, words: Sequence[Argument]) -> str:
    """The words without values that may be secrets."""
    if name == "env":
        words = [word for word in words if not _ASSIGNED.match(word.text)]
    if name == "ray":
        return "ray job submit"
    texts = [name, *(word.text for word in words[1:] if word.text not in ("--", "-m"))]
    return " ".join(mask_words([text for text in texts if not text.startswith("--export")]))


def _export(word: Argument) -> Export:
    match = _ASSIGNED.fullmatch(word.text)
    assert match is not None
    return Export(word.line, match[1], match[2] if word.problem is None else Unknown(word.problem))


def _of_ray(words: Sequence[Argument], line: int) -> tuple[list[Export], list[Row]]:
    """The variables of ``--runtime-env-json``; the rest of it is for the cluster."""
    options = _options(words)
    if "runtime_env" in options:
        why = "the file is not read; variables that the run needs are for .env"
        return [], [left_out("ray job submit --runtime-env", line, why)]
    given = options.get("runtime_env_json")
    if given is None:
        return [], []
    source = "ray job submit --runtime-env-json"
    try:
        environment = json.loads(given.text) if given.problem is None else None
    except (ValueError, RecursionError):
        environment = None
    variables = environment.pop("env_vars", {}) if isinstance(environment, dict) else None
    if not isinstance(environment, dict) or not isinstance(variables, dict):
        return [], [left_out(source, line, given.problem or "it is not a JSON object of Ray")]
    exports = [Export(line, str(name), str(value)) for name, value in variables.items()]
    others = ", ".join(map(str, environment))
    why = f"{others}: for the cluster (docs/cluster.md)"
    return exports, [left_out(source, line, why)] if others else []


def _options(words: Sequence[Argument]) -> dict[str, Argument]:
    """The values of ``--name=value`` and ``--name value``; empty for an option without one."""
    options: dict[str, Argument] = {}
    for word, following in zip_longest(words, words[1:]):
        if not word.text.startswith("--") or word.text == "--":
            continue
        name, equals, text = word.text[2:].partition("=")
        is_next = not equals and following is not None and not following.text.startswith("-")
        value = following if is_next else Argument(word.line, text, word.problem)
        options[name.replace("-", "_")] = value
    return options


def _overrides(arguments: Sequence[Argument]) -> tuple[list[Override], list[Row]]:
    """What is set, and rows for the rest. A key whose last value is not known has none."""
    overrides: list[Override] = []
    rows: list[Row] = []
    skipped = False
    for index, argument in enumerate(arguments):
        if skipped:
            skipped = False
            continue
        read = _override(argument)
        if isinstance(read, Override):
            overrides.append(read)
            continue
        rows.append(read)
        if argument.problem:
            overrides = [each for each in overrides if each.key != read.source]
        following = arguments[index + 1].text if index + 1 < len(arguments) else "="
        skipped = argument.text.startswith("--") and "=" not in argument.text + following
    return overrides, rows


def _override(argument: Argument) -> Override | Row:
    """Read a word of Hydra; a row for what has no value that can be known."""
    line = argument.line or None
    match = _KEY.fullmatch(argument.text)
    if argument.text.startswith("-"):
        name = argument.text.partition("=")[0]
        return left_out(name, line, "it chooses a config file of verl, whose values are not read")
    if match is None:
        return left_out(argument.text, line, argument.problem or "it is not key=value")
    sign, key, raw = match[1] or "", match[2], match[3]
    if argument.problem:
        return left_out(key, line, argument.problem)
    if sign == "~":
        return left_out(f"~{key}", line, "a key cannot be removed; set another value, or null")
    if raw is None:
        return left_out(key, line, "it is not key=value")
    if "/" in key or "@" in key or key.startswith("hydra."):
        return left_out(key, line, GROUP)
    try:
        return Override(line, key, _value(key, raw))
    except UsageError as error:
        return left_out(key, line, str(error))


def _value(key: str, raw: str) -> Any:
    """The value as Hydra reads it: as YAML, where ``key=`` is an empty text, and ``{a:1}`` a
    mapping."""
    if not raw:
        return ""
    text = _MAPPING_COLON.sub(r"\1: ", raw) if raw.startswith(("{", "[{")) else raw
    value = parse_override(f"{key}={text}")[1]
    # YAML reads more words as flags and numbers than Hydra: on, 010, 0x10, 1:30.
    is_flag = isinstance(value, bool) and raw.lower() not in ("true", "false")
    is_number = isinstance(value, int | float) and not _NUMBER.fullmatch(raw)
    return raw if is_flag or (is_number and not isinstance(value, bool)) else value


def _without_secret(argument: Argument, script: Script) -> Argument:
    """The word, or only its key if it has the value of a secret variable of the script."""
    key, _, value = argument.text.partition("=")
    if not any(holds_secret(text, script.secrets) for text in (argument.text, value)):
        return argument
    is_key = not holds_secret(key, script.secrets)
    return Argument(
        argument.line, f"{key}=…" if is_key and value else "…", "a secret: set it in .env"
    )


def _other_command(command: Command, script: Script) -> Row | None:
    """A row for a program that the script also runs."""
    words = [_without_secret(argument, script).text for argument in command.arguments]
    if words[0] in ("tee", "sleep", "date", "ulimit", "nvidia-smi", "time"):
        return None
    shown = shorten(" ".join(mask_words(words)), 80)
    if _DOTTED.match(words[0]):
        why = "the trainer's command has ended before this line (a comment, or no backslash)"
        return left_out(words[0].partition("=")[0], command.line, why)
    if words[0] in SOURCES:
        why = "it is not read: variables that it sets are unknown, or have their default here"
        return left_out(shown, command.line, why)
    if words[0] == "cd":
        return left_out(shown, command.line, "paths of a config begin in the folder of the launch")
    return left_out(shown, command.line, "a program that import does not run")


def without_gpu_variables(rows: Iterable[Row]) -> Iterator[Row]:
    """The rows without variables that a CPU has no use for, however the script sets them."""
    for row in rows:
        variable = _VARIABLE.fullmatch(row.source)
        if variable and _OF_GPU.match(variable[1]):
            yield left_out(row.source, row.line, "for a CPU: only programs on a GPU read it")
        else:
            yield row


def export_rows(exports: Sequence[Export], passed: re.Pattern[str] | None) -> Iterator[Row]:
    """Rows for exported variables. Those whose names ``passed`` matches reach Ray's processes."""
    for export in exports:
        name, value = f"export {export.name}", export.value
        if isinstance(value, Unknown):
            if "secret" in value.reason:
                yield left_out(name, export.line, f"a secret: set {export.name} in .env")
            elif not export.is_used:
                yield left_out(name, export.line, f"{value.reason}; set it in .env")
        elif is_secret(export.name, value):
            yield left_out(name, export.line, f"a secret: set {export.name} in .env")
        elif export.is_used:
            continue  # Its value is in the keys.
        elif export.name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
            why = f"set it at the launch: {export.name}={value} grubrics-tui launch"
            yield left_out(name, export.line, why)
        elif passed is not None and passed.match(export.name):
            key = f"ray_kwargs.ray_init.runtime_env.env_vars.{export.name}"
            yield Row(name, export.line, {key: value})
        else:
            yield left_out(name, export.line, f"set it in .env: {export.name}={value}")
