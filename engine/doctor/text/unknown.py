"""Classifies exceptions that no rule matches, by their type, frames and words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from engine.base.yaml_files import read_table
from engine.doctor.text.facts import CONDITIONS, conditions_in, facts_of
from engine.doctor.text.line import within
from engine.doctor.text.rules import RULES
from engine.doctor.text.tracebacks import TASK, Raised


@dataclass(frozen=True)
class Kind:
    """A kind of exception: the first one of which every given pattern matches applies."""

    id: str
    title: str
    cause: str
    confidence: float
    type: str = ""
    message: str = ""
    frames: str = ""
    innermost: str = ""
    code: str = ""
    where: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def fits(self, raised: Raised) -> bool:
        if self.where and not facts_of(raised.line, raised).fits(self.where):
            return False
        texts = (
            (self.type, raised.type),
            (self.message, raised.message),
            (self.frames, within("\n".join(raised.frames))),
            (self.innermost, within("\n".join(raised.frames[-3:]))),
            (self.code, raised.code),
        )
        return all(re.search(pattern, text) for pattern, text in texts if pattern)


@cache
def _kinds() -> tuple[Kind, ...]:
    entries: list[dict[str, Any]] = read_table(RULES / "unknown" / "exceptions.yaml")
    return tuple(
        Kind(**{k: v for k, v in entry.items() if k not in CONDITIONS}, where=conditions_in(entry))
        for entry in entries
    )


_WRAPPERS = re.compile(
    r"/click/|/typer/|/fire/|/absl/|runpy\.py|torch/distributed/(?:launcher|elastic|run\.py)"
    r"|accelerate/commands|/hydra/(?:main|_internal/utils)\.py|/ray/_private/(?:worker|client_mode_hook|auto_init_hook)\.py|/ray/_raylet|^ray:task"
    r"|concurrent/futures|/asyncio/|threading\.py|multiprocessing/process\.py|/tqdm/|contextlib\.py|/bin/[\w.-]+:<module>\Z"
)
"""Frames between the program and its launcher: alone they explain nothing."""
_SURE = 0.5
"""Kinds below this confidence yield to a vocabulary with a weight of ``_OUTWEIGHS``."""
_OUTWEIGHS = 4


def is_telling(raised: Raised) -> bool:
    """Whether the frames reach the code that failed, or the type alone explains the failure."""
    if not raised.frames or is_noise(raised):
        return False
    if not _WRAPPERS.search(raised.innermost):
        return True
    return bool(raised.type) and _first_kind(replace(raised, frames=(), code="")) is not None


def is_noise(raised: Raised) -> bool:
    kind = _first_kind(raised)
    return kind is not None and kind.id.startswith("healthy_noise")


def kind_of(raised: Raised) -> Kind | Vocabulary | None:
    """Classify by type and frames, or by the words of the message if these say little."""
    kind = _first_kind(raised)
    if kind is not None and kind.confidence >= _SURE:
        return kind
    return best_vocabulary(raised, _OUTWEIGHS if kind else ENOUGH) or kind


def _first_kind(raised: Raised) -> Kind | None:
    if raised.innermost == TASK:
        # The frames are those of the waiting driver; the task's own are not shown.
        raised = replace(raised, frames=())
    return next((kind for kind in _kinds() if kind.fits(raised)), None)


ENOUGH = 2
"""Minimum sum of weights for a class."""
_CONFIDENCE = 0.3
_LONGEST_MESSAGE = 1000
"""Characters of a message that are searched."""
_FRAMES = 3


@dataclass(frozen=True)
class Vocabulary:
    """The words of one class of exceptions: weights of patterns in the message, code and frames."""

    id: str
    title: str
    cause: str
    confidence: float = _CONFIDENCE
    message: dict[str, int] = field(default_factory=dict)
    code: dict[str, int] = field(default_factory=dict)
    innermost: dict[str, int] = field(default_factory=dict)

    def weigh(self, raised: Raised) -> int:
        """Return the sum of the weights of all patterns that match."""
        texts = (
            (self.message, raised.message[:_LONGEST_MESSAGE]),
            (self.code, raised.code),
            (self.innermost, within("\n".join(raised.frames[-_FRAMES:]))),
        )
        return sum(
            weight
            for patterns, text in texts
            for pattern, weight in patterns.items()
            if text and _compiled(pattern).search(text)
        )


def best_vocabulary(raised: Raised, enough: int = ENOUGH) -> Vocabulary | None:
    """Return the first class with the highest sum of weights, or None if it is below ``enough``."""
    best = max(_vocabularies(), key=lambda vocabulary: vocabulary.weigh(raised))
    return best if best.weigh(raised) >= enough else None


@cache
def _vocabularies() -> tuple[Vocabulary, ...]:
    entries: list[dict[str, Any]] = read_table(RULES / "unknown" / "words.yaml")
    return tuple(Vocabulary(**entry) for entry in entries)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)
