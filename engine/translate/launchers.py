"""Read the words before the trainer's module: ``env``, ``srun``, ``ray job submit``, ``torchrun``.

What they set is read: variables, and the number of processes. The rest has a row that says why not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from engine.base.masking import mask_words
from engine.translate.shell_script import Export
from engine.translate.shell_state import Argument, Unknown
from engine.translate.translation import Row, left_out

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


@dataclass(frozen=True)
class Launchers:
    """``exports``: variables that they set. ``options``: those of torchrun, by their names."""

    exports: tuple[Export, ...]
    rows: tuple[Row, ...]
    options: dict[str, str]


def read_launchers(arguments: Sequence[Argument], line: int) -> Launchers:
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
    return Launchers(tuple(exports), tuple(rows), options)


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
