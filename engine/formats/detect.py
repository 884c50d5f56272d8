"""Telling what a path holds, by its first and last bytes rather than by its name."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from engine.base import files
from engine.base.errors import UsageError, unknown_name
from engine.formats import (
    hf_console,
    hf_state,
    llama_factory,
    own,
    slo,
    step_timing,
    verl_console,
    verl_jsonl,
    wandb_run,
)
from engine.formats.lines import LineReader
from engine.formats.source import Reader, Sample

_END = 1024 * 1024
"""Bytes of either end that are looked at: verl prints some 100 KB before its first step."""
_FILES_TRIED = 400
_END_IN_FOLDER = 128 * 1024
_DEPTH = 3


@dataclass(frozen=True)
class Format:
    """``name`` is how a person calls it, ``key`` what ``--as`` takes."""

    key: str
    name: str
    is_it: Callable[[Sample], bool]
    open: Callable[[Path], Reader]
    is_console: bool = False


FORMATS = (
    Format("wandb", "offline W&B run", wandb_run.is_it, wandb_run.WandbRun),
    Format("hf-state", "trainer_state.json of HF's Trainer", hf_state.is_it, hf_state.HfState),
    Format(
        "verl-jsonl",
        "verl file logger",
        verl_jsonl.is_it,
        lambda path: LineReader(path, verl_jsonl.VerlJsonl),
    ),
    Format(
        "llama-factory",
        "trainer_log.jsonl of LLaMA-Factory",
        llama_factory.is_it,
        lambda path: LineReader(path, llama_factory.LlamaFactoryLog),
    ),
    Format(
        "slo",
        "agent_stable_slo train_log.jsonl",
        slo.is_it,
        lambda path: LineReader(path, partial(slo.SloLog, path)),
    ),
    Format(
        "own",
        "train_log.jsonl of grubrics-tui",
        own.is_it,
        lambda path: LineReader(path, own.OwnLog),
    ),
    Format(
        "verl",
        "verl console log",
        verl_console.is_it,
        lambda path: LineReader(path, verl_console.VerlConsole, is_console=True),
        is_console=True,
    ),
    Format(
        "hf",
        "console of HF's Trainer or TRL",
        hf_console.is_it,
        lambda path: LineReader(path, hf_console.HfConsole, is_console=True),
        is_console=True,
    ),
    Format(
        "step-timing",
        "STEP_TIMING lines of GRubrics",
        step_timing.is_it,
        lambda path: LineReader(path, step_timing.StepTiming, is_console=True),
        is_console=True,
    ),
)


@dataclass(frozen=True)
class Found:
    """What ``path`` holds; a folder is followed through the file that was found in it."""

    path: Path
    format: Format

    def open(self) -> Reader:
        return self.format.open(self.path)


def detect(path: Path, as_format: str | None = None) -> Found:
    """What a file or a folder holds; UsageError when that cannot be told."""
    if as_format is not None and as_format not in {one.key for one in FORMATS}:
        raise unknown_name("format", as_format, [one.key for one in FORMATS])
    if path.is_dir():
        return _detect_folder(path, as_format)
    return _detect_file(path, as_format, _END)


def _detect_file(path: Path, as_format: str | None, end: int) -> Found:
    sample = _sample(path, end)
    chosen = _formats_of(sample) if as_format is None else [_format(as_format)]
    if len(chosen) == 1:
        return Found(path, chosen[0])
    if not chosen:
        raise UsageError(f"{path}: {_nothing(sample)}")
    keys = ", ".join(f"--as {one.key} ({one.name})" for one in chosen)
    raise UsageError(f"{path}: may be one of several formats; choose {keys}")


def _format(key: str) -> Format:
    return next(one for one in FORMATS if one.key == key)


def _formats_of(sample: Sample) -> list[Format]:
    """One for a file that says what it is; none when nothing fits, several when more do."""
    first = next((one for one in FORMATS if not one.is_console and one.is_it(sample)), None)
    if first is not None:
        return [first]
    found = [one for one in FORMATS if one.is_console and one.is_it(sample)]
    if found and found[0].key == "verl":
        # Its reader takes the judge's lines too, and rollouts may print anything.
        return [one for one in found if one.key != "step-timing"]
    if not found and verl_console.may_become(sample):
        return [_format("verl")]
    return found


def _nothing(sample: Sample) -> str:
    if not sample.head:
        return "is empty: nothing tells yet what it will be"
    return f"nothing known in it; looked for {', '.join(one.name for one in FORMATS)}"


def _sample(path: Path, end: int) -> Sample:
    """Both ends of a file. Raises OSError, or UsageError for a pipe or a device."""
    if path.exists() and not path.is_file():
        raise UsageError(f"{path}: not a regular file")
    descriptor = files.open_descriptor(path)
    try:
        status = os.fstat(descriptor)
        head = os.pread(descriptor, end, 0)
        rest = status.st_size - len(head)
        tail = os.pread(descriptor, end, max(len(head), status.st_size - end)) if rest else b""
    finally:
        os.close(descriptor)
    return Sample(path, head, tail)


def _detect_folder(folder: Path, as_format: str | None) -> Found:
    """The one file of a known format in a folder; a Trainer's checkpoints count as one."""
    if hf_state.newest_state(folder) is not None and as_format in (None, "hf-state"):
        return Found(folder, _format("hf-state"))
    found = [
        one
        for path in _candidates(folder)
        if (one := _quietly(path)) is not None and as_format in (None, one.format.key)
    ]
    # The number files tell all that the console of the same run does, and more exactly.
    exact = [one for one in found if not one.format.is_console] or found
    if len(exact) == 1:
        return exact[0]
    if not exact:
        looked_for = ", ".join(one.name for one in FORMATS)
        raise UsageError(f"{folder}: no file of a known format in it; looked for {looked_for}")
    names = ", ".join(str(one.path) for one in exact[:6])
    more = f" and {len(exact) - 6} more" if len(exact) > 6 else ""
    raise UsageError(f"{folder}: holds several runs; name one of {names}{more}")


def _quietly(path: Path) -> Found | None:
    try:
        return _detect_file(path, None, _END_IN_FOLDER)
    except (OSError, UsageError):
        return None


def _candidates(folder: Path) -> list[Path]:
    """Files that may hold steps, not deep and not many; links to folders are not followed."""
    found: list[Path] = []
    for place, folders, names in os.walk(folder):
        depth = len(Path(place).relative_to(folder).parts)
        folders[:] = sorted(name for name in folders if not name.startswith(".") and depth < _DEPTH)
        telling = (name for name in sorted(names) if _may_hold_steps(name))
        found.extend(Path(place) / name for name in telling)
        if len(found) > _FILES_TRIED:
            break
    return found[:_FILES_TRIED]


def _may_hold_steps(name: str) -> bool:
    ends = name.endswith((".wandb", ".jsonl", ".log", ".out", ".txt"))
    return ends and not name.startswith(("debug", "eval"))
