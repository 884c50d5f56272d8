"""The facts of a failure: whose code raised, which process spoke, what the program was doing.

Rules decide by these facts, and by words only between failures of equal facts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache
from pathlib import Path

from msgspec import convert

from engine.base.errors import unknown_name
from engine.base.yaml_files import read_table
from engine.doctor.text.line import Line
from engine.doctor.text.tracebacks import TASK, Raised


class Part(StrEnum):
    """The part of a run to which a frame, a process or an address belongs."""

    REWARD = "reward"
    """Code that scores responses: the user's, or a scorer that a trainer brings along."""
    ENVIRONMENT = "environment"
    """The user's tools and environments."""
    DATA = "data"
    """Code that reads and prepares rows: the user's, a trainer's or a library's."""
    SCRIPT = "script"
    """Other code of the user, above all the launch script."""
    TRAINER = "trainer"
    ENGINE = "engine"
    """The engine that samples responses, or its server."""
    ROLLOUT = "rollout"
    """The trainer's code that talks to the engine."""
    JUDGE = "judge"
    HUB = "hub"
    TRACKER = "tracker"
    RAY = "ray"
    RANKS = "ranks"
    """Communication between ranks."""
    TOKENIZER = "tokenizer"
    ADAPTER = "adapter"
    SCHEDULER = "scheduler"


class Phase(StrEnum):
    """What the program was doing, by the functions that were running."""

    ARGUMENTS = "arguments"
    ENGINE_START = "engine start"
    WEIGHT_SYNC = "weight sync"
    REWARD_MODEL = "reward model"
    REWARD = "reward"
    VALUES = "values"
    """The critic's forward pass."""
    CRITIC = "critic"
    REFERENCE = "reference"
    LOG_PROBS = "log probs"
    ACTOR = "actor"
    ROLLOUT = "rollout"
    SAVE = "save"
    LOAD = "load"
    VALIDATION = "validation"


@dataclass(frozen=True, slots=True)
class Facts:
    """``part`` is whose code raised, or else which process or server the line is about.

    ``phase`` is that of the innermost frame whose function names one, ``speaker`` the process that
    wrote the line.
    """

    part: Part | None = None
    phase: Phase | None = None
    speaker: Part | None = None

    def fits(self, conditions: Mapping[str, frozenset[str]]) -> bool:
        """Whether each condition, such as ``not_parts``, holds. An unknown fact is ``unknown``."""
        values = {
            "parts": self.part or _UNKNOWN,
            "phases": self.phase or _UNKNOWN,
            "speakers": self.speaker or _UNKNOWN,
        }
        return all(
            (values[name.removeprefix("not_")] in allowed) is not name.startswith("not_")
            for name, allowed in conditions.items()
        )


CONDITIONS = ("parts", "not_parts", "phases", "not_phases", "speakers")
_UNKNOWN = "unknown"


def conditions_in(entry: Mapping[str, object]) -> dict[str, frozenset[str]]:
    """Return the conditions of a rule. ValueError for an unknown part or phase."""
    conditions = {key: convert(entry[key], frozenset[str]) for key in CONDITIONS if key in entry}
    for key, values in conditions.items():
        known = [_UNKNOWN, *(Phase if key.endswith("phases") else Part)]
        for value in values:
            if value not in known:
                raise ValueError(str(unknown_name(key, value, known)))
    return conditions


@cache
def _tables() -> dict[str, object]:
    tables: dict[str, object] = read_table(Path(__file__).with_name("facts.yaml"))
    return tables


@cache
def _packages() -> dict[str, Part]:
    entries = convert(_tables()["packages"], dict[str, str]).items()
    return {name: Part(part) for part, names in entries for name in names.split()}


@cache
def _table(name: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
    entries = convert(_tables()[name], dict[str, list[str]]).items()
    joined = ((value, "|".join(texts).replace("LAUNCHERS", _LAUNCHERS)) for value, texts in entries)
    return tuple((value, re.compile(pattern, re.IGNORECASE)) for value, pattern in joined)


_LAUNCHERS = r"main|train\w*|run\w*|launch|finetune\w*|start|serve|sft|[gpd]po"
_OWN_PARTS = (Part.TRAINER, None)
"""Parts within which names of files and functions tell more: a trainer, and the user's code."""
_FOR_USERS = ("examples", "example", "recipe", "recipes", "scripts", "tests", "my")
"""Folders of a trainer's source tree in which people put their own code."""
_INSTALLED = ("site-packages", "dist-packages")
_STANDARD = re.compile(r"/lib(?:64)?/python\d|<frozen |^<string>$|/torchinductor_")
_SCHEDULER = re.compile(r"(?:srun|sbatch|salloc|slurmstepd|scancel|qsub|bsub|torchx): ")


def facts_of(line: Line, raised: Raised | None = None) -> Facts:
    """Return the facts of a line, and of the exception that it names."""
    frames = tuple(frame for frame in raised.frames if frame != TASK) if raised else ()
    part: Part | None = _blame(frames)
    if part not in _NAMED_ANYWHERE and raised and "." in raised.type:
        package = _packages().get(raised.type.partition(".")[0])
        part = package if package in _NAMED_ANYWHERE else part
    phases = [phase for frame in reversed(frames) if (phase := phase_of(frame))]
    # The reference is computed by the code of the actor.
    is_reference = phases[:1] == [Phase.LOG_PROBS] and Phase.REFERENCE in phases
    if phases[:2] == [Phase.LOG_PROBS, Phase.ACTOR]:  # the forward pass of the loss
        phases = phases[1:]
    phase = Phase.REFERENCE if is_reference else next(iter(phases), None)
    speaker = _find_part("speakers", line.source)
    if part in (Part.TRAINER, Part.SCRIPT, None):
        if part is Part.TRAINER and phase in (Phase.ROLLOUT, Phase.WEIGHT_SYNC):
            part = Part.ROLLOUT
        part = _find_part("addresses", line.text) or speaker or part
    if part is None and _SCHEDULER.match(line.text):
        part = Part.SCHEDULER
    return Facts(part, phase, speaker)


_NAMED_ANYWHERE = (Part.JUDGE, Part.HUB, Part.TRACKER, Part.ENGINE)
"""Services: an exception from within their client is theirs, whoever called it."""


def _blame(frames: Sequence[str]) -> Part | None:
    """Return the part of the innermost frame that has one.

    What a reward function or an environment calls belongs to it, except a service.
    """
    pairs = list(zip(("", *frames), frames, strict=False))
    inward = [part for caller, frame in reversed(pairs) if (part := _part_below(caller, frame))]
    innermost = inward[0] if inward else None
    if innermost in _NAMED_ANYWHERE:
        return innermost
    until = inward.index(Part.TRAINER, 1) if Part.TRAINER in inward[1:] else len(inward)
    users = (part for part in inward[:until] if part in (Part.REWARD, Part.ENVIRONMENT))
    return next(users, innermost)


def _part_below(caller: str, frame: str) -> Part | None:
    """Return the part of a frame. User code is a reward function if the trainer calls it as one."""
    part = part_of(frame)
    is_called_to_score = caller and part_of(caller) is Part.TRAINER
    if part is Part.SCRIPT and is_called_to_score and phase_of(caller) is Phase.REWARD:
        return Part.REWARD
    return part


@lru_cache(maxsize=4096)
def part_of(frame: str) -> Part | None:
    """Return the part of a run to which ``file:function`` belongs; None for general libraries."""
    if (named := _find_part("named", frame)) is not None:
        return named
    folders = frame.rpartition(":")[0].removesuffix(".py").split("/")
    installed = next((name for name in _INSTALLED if name in folders), None)
    if installed is None and _STANDARD.search(frame):
        return None
    if installed is not None:
        package = folders[folders.index(installed) + 1]
        part = _packages().get("genai" if package == "google" else package)
        named = (part in _OWN_PARTS and _find_part("of_trainers", frame)) or part
        return named if part or named in (Part.TOKENIZER, Part.DATA) else None
    part = _part_of_checkout(folders)
    table = "of_trainers" if part is Part.TRAINER else "of_users"
    named = _find_part(table, frame) if part in _OWN_PARTS else None
    return named or part or Part.SCRIPT


def _part_of_checkout(folders: Sequence[str]) -> Part | None:
    """Return the part of the package whose source tree holds the file; None for user code.

    A trainer's tree may have folders named like other packages, and the user's files at its root.
    """
    parts = [_packages().get(name) for name in folders[:-1]]
    if Part.TRAINER not in parts:
        return next((part for part in reversed(parts) if part), None)
    below = folders[len(parts) - parts[::-1].index(Part.TRAINER) :]
    return Part.TRAINER if len(below) > 1 and below[0] not in _FOR_USERS else None


@lru_cache(maxsize=4096)
def phase_of(frame: str) -> Phase | None:
    value = _find("phases", frame)
    return Phase(value) if value else None


def _find_part(table: str, text: str) -> Part | None:
    value = _find(table, text)
    return Part(value) if value else None


def _find(table: str, text: str) -> str:
    return next((value for value, pattern in _table(table) if pattern.search(text)), "")
