"""Exceptions by the words they use: nouns and phrases that speak for a class, with weights."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from engine.doctor.text.paths import within
from engine.doctor.text.rules import RULES, read_yaml
from engine.doctor.text.tracebacks import Raised

ENOUGH = 2
"""The least sum of weights that names a class."""
_CONFIDENCE = 0.3
_WIDEST = 1000
"""Characters of a message that are looked at."""
_FRAMES = 3


@dataclass(frozen=True)
class Vocabulary:
    """What an exception of one class may say: patterns with their weights, by where they stand."""

    id: str
    title: str
    cause: str
    confidence: float = _CONFIDENCE
    message: dict[str, int] = field(default_factory=dict)
    code: dict[str, int] = field(default_factory=dict)
    innermost: dict[str, int] = field(default_factory=dict)

    def weigh(self, raised: Raised) -> int:
        """The sum of the weights of all patterns that are found."""
        texts = (
            (self.message, raised.message[:_WIDEST]),
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
    """The class with the highest sum of weights, the first of equals; None below ``enough``."""
    best = max(_vocabularies(), key=lambda vocabulary: vocabulary.weigh(raised))
    return best if best.weigh(raised) >= enough else None


@cache
def _vocabularies() -> tuple[Vocabulary, ...]:
    entries: list[dict[str, Any]] = read_yaml(RULES / "unknown" / "words.yaml")
    return tuple(Vocabulary(**entry) for entry in entries)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)
