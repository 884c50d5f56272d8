"""The known formats, and which of them a path holds: its first and last bytes tell, not its name.

``python -m engine.logs.formats.detect docs/cockpit.md`` renews the table of formats there.
"""

from __future__ import annotations

import fnmatch
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from engine.base import files, plugins
from engine.base.errors import UsageError, guarded, unknown_name
from engine.base.tables import markdown_table, write_between_marks
from engine.logs.formats.consoles import (
    NemoRlFormat,
    OpenInstructFormat,
    OpenRlhfFormat,
    PairsFormat,
    PrimeRlFormat,
    SlimeFormat,
    TorchtuneFormat,
)
from engine.logs.formats.csv_table import CsvFormat
from engine.logs.formats.format import Format, Reader, Sample
from engine.logs.formats.hf import HfConsoleFormat, HfStateFormat
from engine.logs.formats.json_lines import (
    AnyJsonFormat,
    LlamaFactoryFormat,
    OwnLogFormat,
    SloFormat,
)
from engine.logs.formats.pattern import PatternFormat, is_pattern
from engine.logs.formats.plugin_format import PluginFormat
from engine.logs.formats.step_timing import StepTimingFormat
from engine.logs.formats.tensorboard import TensorBoardFormat
from engine.logs.formats.verl import VerlConsoleFormat, VerlJsonlFormat
from engine.logs.formats.wandb import WandbFormat

_END = 1024 * 1024
"""Bytes of either end that are read: verl prints some 100 KB before its first step."""
_FILES_TRIED = 400
_END_IN_FOLDER = 128 * 1024
_DEPTH = 3

FORMATS: tuple[Format, ...] = (
    WandbFormat(),
    HfStateFormat(),
    TensorBoardFormat(),
    VerlJsonlFormat(),
    LlamaFactoryFormat(),
    SloFormat(),
    OwnLogFormat(),
    VerlConsoleFormat(),
    SlimeFormat(),
    HfConsoleFormat(),
    OpenRlhfFormat(),
    TorchtuneFormat(),
    OpenInstructFormat(),
    PrimeRlFormat(),
    NemoRlFormat(),
    StepTimingFormat(),
    AnyJsonFormat(),
    CsvFormat(),
    PairsFormat(),
)
"""The built-in ones. The first that matches counts, unless it is a console. General ones come last:
they count where no trainer's own format matches."""

PATTERN_EXAMPLE = r"iter (?P<step>\d+): loss (?P<loss>\S+)"

PLUGINS = "grubrics.log_formats"
"""The group of entry points by which other packages add formats."""


@dataclass(frozen=True)
class Detected:
    """The file at ``path`` and its format; a folder is followed through the file that holds its
    run."""

    path: Path
    format: Format

    def open(self) -> Reader:
        return self.format.open(self.path)


class Formats(NamedTuple):
    """All formats in the order of detection, and one line for each plugin that is skipped."""

    all: tuple[Format, ...]
    problems: tuple[str, ...]
    file_names: re.Pattern[str]
    folder_names: re.Pattern[str]
    """Of what is, and of what shows, a run of one of them."""


@cache
def load_formats() -> Formats:
    """The built-in formats, and those of other packages under keys that are still free."""
    loaded = plugins.load(PLUGINS, Format)  # type: ignore[type-abstract]
    by_key = {log_format.key: log_format for log_format in FORMATS}
    problems = list(loaded.problems)
    for plugin in loaded.loaded:
        log_format = plugin.value
        problem = f"plugin {plugin.name} of {plugin.source} is skipped: "
        if not (hasattr(log_format, "key") and hasattr(log_format, "name")):
            problems.append(problem + "its format needs a key and a name")
        elif log_format.key in by_key:
            problems.append(problem + f"there is a format {log_format.key!r} already")
        elif (fault := _step_pattern_fault(log_format)) is not None:
            problems.append(problem + fault)
        else:
            by_key[log_format.key] = PluginFormat(log_format, plugin.source)
    known = tuple(by_key.values())
    file_names = _any_of(name for each in known for name in each.file_names)
    folder_names = _any_of(name for each in known for name in each.folder_names)
    return Formats(known, tuple(problems), file_names, folder_names)


def _any_of(names: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(fnmatch.translate, dict.fromkeys(names))))


def _step_pattern_fault(log_format: Format) -> str | None:
    """What is wrong with the step pattern; a console must have one, or errors look like its end."""
    pattern = log_format.step_pattern
    if log_format.is_console and not pattern:
        return "its step_pattern is missing; it shows the doctor that training continues"
    try:
        groups = re.compile(pattern).groups
        if not isinstance(pattern, bytes) or groups > 1:
            return f"its step_pattern is not a pattern of bytes with at most one group: {pattern!r}"
    except (re.error, TypeError) as error:
        return f"its step_pattern is invalid: {error}"
    return None


def formats() -> tuple[Format, ...]:
    return load_formats().all


def find_format(key: str) -> Format:
    """The format of that key; UsageError for an unknown one, with the nearest."""
    by_key = {row.key: row for row in formats()}
    if key not in by_key:
        raise unknown_name("format", key, list(by_key))
    return by_key[key]


def detect(path: Path, as_format: str | None = None) -> Detected:
    """The format of a file or of the run in a folder; UsageError when it cannot be determined.

    ``as_format`` is the key of a format, or a pattern with named groups.
    """
    if as_format is not None and is_pattern(as_format):
        if path.is_dir():
            raise UsageError(f"{path}: is a folder; a pattern is for the lines of one file")
        _sample(path, 0)
        return Detected(path, PatternFormat(as_format))
    if as_format is not None:
        find_format(as_format)
    if path.is_dir():
        return _detect_folder(path, as_format)
    return _detect_file(path, as_format, _END)


def _detect_file(path: Path, as_format: str | None, end: int) -> Detected:
    sample = _sample(path, end)
    candidates = _formats_of(sample) if as_format is None else [find_format(as_format)]
    if len(candidates) == 1:
        return Detected(path, candidates[0])
    if not candidates:
        reason = f"it has no known format; {_known()}" if sample.head else "is empty"
        raise UsageError("; ".join((f"{path}: {reason}", *load_formats().problems)))
    keys = ", ".join(f"--as {log_format.key} ({log_format.name})" for log_format in candidates)
    raise UsageError(f"{path}: matches several formats; choose one: {keys}")


def detect_block(path: Path, block: bytes) -> Format | None:
    """The format of a file that a part of it shows; None when that part shows none.

    Of several, the first counts: nobody can be asked in the middle of a run.
    """
    return next(iter(_formats_of(Sample(path, block))), None)


def format_names(as_format: str | None = None) -> str:
    """The names of all formats, or of ``as_format`` alone, separated by commas."""
    return ", ".join(row.name for row in formats() if as_format in (None, row.key))


def trainers() -> list[str]:
    """Return the programs of others whose logs the built-in formats read, in alphabetical order."""
    others = (log_format for log_format in FORMATS if not log_format.is_own)
    return sorted({name for row in others for name in row.trainers}, key=str.casefold)


def find_likely_logs(folder: Path) -> list[Path]:
    """Return what is named like a log directly in a folder; nothing is opened."""
    known = load_formats()
    names = known.file_names, known.folder_names
    return [path for path in folder.iterdir() if any(each.match(path.name) for each in names)]


def _known() -> str:
    return f"looked for {format_names()}. Name its numbers yourself: --metrics '{PATTERN_EXAMPLE}'"


def _formats_of(sample: Sample) -> list[Format]:
    """The formats of a file. A format that is no console identifies its file alone.

    A general format counts only where no other matches.
    """
    known = [row for row in formats() if not row.is_general]
    consoles = [row for row in known if row.is_console]
    if exact := next((row for row in known if not row.is_console and row.matches(sample)), None):
        return [exact]
    if matching := [row for row in consoles if row.matches(sample)]:
        covered = {key for row in matching for key in row.covers}
        return [row for row in matching if row.key not in covered]
    general = (row for row in formats() if row.is_general and row.matches(sample))
    beginning = (row for row in consoles if row.may_become(sample))
    return list(islice(chain(general, beginning), 1))


def _sample(path: Path, end: int) -> Sample:
    """Both ends of a file. Raises OSError, or UsageError for a pipe or a device."""
    if path.exists() and not path.is_file():
        raise UsageError(f"{path}: not a regular file")
    descriptor = files.open_descriptor(path)
    try:
        status = os.fstat(descriptor)
        head = os.pread(descriptor, end, 0)
        tail_start = max(len(head), status.st_size - end)
        tail = os.pread(descriptor, end, tail_start) if tail_start < status.st_size else b""
    finally:
        os.close(descriptor)
    return Sample(path, head, tail)


def _detect_folder(folder: Path, as_format: str | None) -> Detected:
    """The one file of a known format in a folder, or the folder itself."""
    for log_format in formats():
        if as_format in (None, log_format.key) and log_format.matches_folder(folder):
            return Detected(folder, log_format)
    logs = [
        log
        for path in _candidates(folder)
        if (log := _detect_quietly(path)) is not None and as_format in (None, log.format.key)
    ]
    # A file of numbers holds all that the console of the same run does, and more exactly. One of
    # a general format may hold something else: the rollouts of a step, for instance.
    known = [log for log in logs if not log.format.is_general]
    exact = [log for log in known or logs if not log.format.is_console] or known or logs
    if len(exact) == 1:
        return exact[0]
    if not exact:
        raise UsageError(f"{folder}: no file of a known format; looked for {format_names()}")
    names = ", ".join(str(log.path) for log in exact[:6])
    more = f" and {len(exact) - 6} more" if len(exact) > 6 else ""
    raise UsageError(f"{folder}: contains several runs; name one of {names}{more}")


def _detect_quietly(path: Path) -> Detected | None:
    try:
        return _detect_file(path, None, _END_IN_FOLDER)
    except (OSError, UsageError):
        return None


def _candidates(folder: Path) -> list[Path]:
    """Files that may hold steps, not deep and not many; links to folders are not followed."""
    paths: list[Path] = []
    for parent, folders, names in os.walk(folder):
        depth = len(Path(parent).relative_to(folder).parts)
        folders[:] = sorted(name for name in folders if not name.startswith(".") and depth < _DEPTH)
        paths.extend(Path(parent) / name for name in sorted(names) if _may_hold_steps(name))
        if len(paths) > _FILES_TRIED:
            break
    return paths[:_FILES_TRIED]


def _may_hold_steps(name: str) -> bool:
    is_named_so = load_formats().file_names.match(name) is not None
    return is_named_so and not name.startswith(("debug", "eval"))


def format_table() -> str:
    """Return a row for each built-in format, in the order of detection."""
    rows = [(f"{row.name} (`{row.key}`)", row.reads) for row in FORMATS]
    return markdown_table(("format (`--as`)", "what is read"), rows)


def main() -> int:
    write_between_marks(Path(sys.argv[1]), "log formats", format_table())
    return 0


if __name__ == "__main__":
    sys.exit(guarded(main))
