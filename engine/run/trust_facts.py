"""The commands, variables, code and addresses in the files of a run, to be shown before it is
trusted.

Everything in the files is read, even values that no version of the program uses: the user who
decides must see all of it.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from engine.base import files, jsonl
from engine.base.masking import mask_text, shown
from engine.run.manifest import Manifest, values_of
from engine.run.run import Run

Fact = tuple[str, str]
"""A label, and one line of text."""

_LARGEST_CONFIG = 1 << 20
_MOST_VALUES = 20_000
_LONGEST = 500
_MOST_OF_A_KIND = 12
_ADDRESS = re.compile(r"\b(?!pkg:|plugin:)[a-z][a-z0-9+.-]*://[^\s\"'<>]+", re.IGNORECASE)
_ADDRESS_KEY = re.compile(
    r"(?:^|[._-])(?:urls?|endpoints?|webhooks?|address(?:es)?|api_base|hosts?|servers?)$",
    re.IGNORECASE,
)
_PACKAGE = re.compile(r"\b(?:pkg|plugin)://[^\s\"'<>]+", re.IGNORECASE)
_CODE = re.compile(r"(?<![\w./~-])[\w./~-]+\.(?:py|so|sh)(?![\w/])")
_CODE_KEY = re.compile(
    r"(?:custom_\w+|_cls)\.path$|external_lib$|plugin|trust_remote_code$|_class$"
)
_COMMAND_KEY = re.compile(r"(?:^|[._])(?:command|cmd|entrypoint|argv)$")


def facts(run: Run, owner: str) -> Iterator[Fact]:
    """The lines that the user has to see."""
    manifest, values = run.read_manifest(), list(_values(run))
    yield "owner", owner
    commands = [*_commands(manifest), *_configured_commands(values)]
    yield from _limited("command", dict.fromkeys(commands))
    yield from _limited("folder", [manifest.cwd] if manifest.cwd else [])
    variables = [f"{name}={shown(name, value)}" for name, value in manifest.variables.items()]
    yield from _limited("variable", variables)
    copies = [str(path.relative_to(run.path)) for path in code_copies(run)]
    yield from _limited("code", dict.fromkeys([*copies, *_code(values, commands)]))
    yield from _limited("address", dict.fromkeys(_addresses(run, values, commands)))


def code_files(run: Run) -> list[Path]:
    """The existing files with code that the run contains or names."""
    manifest = run.read_manifest()
    named = {*_code(list(_values(run)), _commands(manifest))}
    folder = manifest.working_folder
    paths = [folder / Path(name).expanduser() for name in sorted(named) if jsonl.location(name)]
    return [path for path in (*code_copies(run), *paths) if path.is_file()]


def executed_words(words: Iterable[str]) -> Iterator[Path]:
    """The files that the words of a command execute: programs, and scripts, also in a text."""
    for word in words:
        for name in dict.fromkeys([word, *_CODE.findall(word)]):
            path = Path(name).expanduser() if jsonl.location(name) else None
            with suppress(OSError):
                is_code = path is not None and (_CODE.fullmatch(name) or os.access(path, os.X_OK))
                if path is not None and is_code and path.is_file():
                    yield path


def code_copies(run: Run) -> list[Path]:
    """The copies of a reward function that the run's attempts execute."""
    return sorted(islice(run.code.rglob("*.py"), _MOST_VALUES))


def _limited(label: str, texts: Iterable[str]) -> Iterator[Fact]:
    listed = [_line(text) for text in texts]
    for text in listed[:_MOST_OF_A_KIND]:
        yield label, text
    if len(listed) > _MOST_OF_A_KIND:
        yield label, f"and {len(listed) - _MOST_OF_A_KIND} more"


def _line(text: str) -> str:
    line = mask_text(jsonl.line(text) or "?")
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} …"


def _commands(manifest: Manifest) -> list[str]:
    return [shlex.join(attempt.argv) for attempt in manifest.attempts if attempt.argv]


def _configured_commands(values: list[tuple[str, object]]) -> Iterator[str]:
    for key, value in values:
        if _COMMAND_KEY.search(key) and value:
            words = value if isinstance(value, list) else [value]
            yield f"{key}: {shlex.join(str(word) for word in words)}"


def _code(values: list[tuple[str, object]], commands: list[str]) -> Iterator[str]:
    for key, value in values:
        if _CODE_KEY.search(key) and value:
            yield value if isinstance(value, str) else f"{key}={value}"
    for text in (*commands, *(str(value) for _, value in values)):
        yield from _CODE.findall(text)
        yield from _PACKAGE.findall(text)


def _addresses(run: Run, values: list[tuple[str, object]], commands: list[str]) -> Iterator[str]:
    for key, value in values:
        if _ADDRESS_KEY.search(key) and isinstance(value, str) and value:
            yield f"{key}: {value}"
    for job in sorted(run.path.glob("attempt_*/ray_job.json")):
        yield f"{job.parent.name}: {(jsonl.read_json(job) or {}).get('address')}"
    if ray := run.read_manifest().ray:
        yield f"Ray cluster: {ray}"
    for text in (*commands, *(str(value) for _, value in values)):
        yield from _ADDRESS.findall(text)


def _values(run: Run) -> Iterator[tuple[str, object]]:
    """Every value of manifest and config by its dotted key."""
    yield from values_of(run.read_config()).items()
    budget = [_MOST_VALUES]
    yield from _flat("", _config(run), budget)


def _config(run: Run) -> object:
    import yaml  # Needed only if the user is asked.

    try:
        text = files.read_regular(run.config_file, _LARGEST_CONFIG)
        return yaml.safe_load(text)
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return None


def _flat(key: str, value: object, budget: list[int]) -> Iterator[tuple[str, object]]:
    """Leaves by dotted key, within a budget: aliases can turn a small file into a huge tree."""
    budget[0] -= 1
    if budget[0] < 0 or key.count(".") > 30:
        return
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _flat(f"{key}.{name}" if key else str(name), item, budget)
    else:
        yield key, value
