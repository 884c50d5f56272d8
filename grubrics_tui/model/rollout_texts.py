"""The texts of one group, which stay in the files until they are looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.history.word_diff import Piece

Place = tuple[str, int, str]
"""Split, step and group."""

Pair = tuple[int, int]
"""Two answers of a group by their rollout: one, and what it is compared with."""


@dataclass(frozen=True)
class GroupTexts:
    """Prompt, answers and right answer (``truth``) of the group at ``place``; ``diffs`` as far as
    they were asked for."""

    place: Place = ("", 0, "")
    prompt: str = ""
    texts: Mapping[int, str] = field(default_factory=dict)
    truth: str = ""
    diffs: Mapping[Pair, tuple[Piece, ...]] = field(default_factory=dict)
