"""The sets of reasoning-gym that can be trained on, and their puzzles by seed and index."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from engine.base.errors import UsageError, unknown_name

_RUNS_ANSWERS = "its scorer runs answers as Python code"
_VARIES = "the same seed gives other puzzles in another process"
_REFUSES_RIGHT = "its scorer gives its own answers no score"
_PAYS_ANY = "its scorer gives wrong answers the full score"
_NEEDS_MORE = "its puzzles cannot be stored in a file"

REFUSED: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "binary_matrix",
            "countdown",
            "intermediate_integration",
            "n_queens",
            "polynomial_multiplication",
            "puzzle24",
            "simple_integration",
            "spiral_matrix",
            "string_insertion",
        ),
        _RUNS_ANSWERS,
    ),
    **dict.fromkeys(
        (
            "codeio",
            "isomorphic_strings",
            "knight_swap",
            "list_functions",
            "ransom_note",
            "word_ladder",
        ),
        _VARIES,
    ),
    **dict.fromkeys(
        ("boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"),
        _REFUSES_RIGHT,
    ),
    **dict.fromkeys(("complex_arithmetic", "game_of_life_halting"), _PAYS_ANY),
    **dict.fromkeys(("arc_agi", "composite", "rearc"), _NEEDS_MORE),
}
"""Found with version 0.1.25: all sets were read, and were run with two hash seeds and with garbage
for answers."""

_BETWEEN_OPTIONS = re.compile(r",(?![^\[]*\])")
"""A comma that is not in a list, such as ``sizes=[3,4]``."""
_COUNT = 500
_INSTALL = "puzzles need reasoning-gym: pip install 'grubrics-tui[puzzles]'"


@dataclass(frozen=True)
class PuzzleSet:
    """Puzzles to make: those of the indices below ``count``. ``options`` are the set's own."""

    name: str
    count: int
    options: Mapping[str, Any]


def parse_set(text: str) -> PuzzleSet:
    """Of ``NAME``, ``NAME:COUNT`` or ``NAME:COUNT,OPTION=VALUE,...``. UsageError for other text,
    for an unknown set or option and for a refused set."""
    head, *pairs = _BETWEEN_OPTIONS.split(text)
    name, _, number = head.partition(":")
    if number and not (number.isdecimal() and int(number) > 0):
        raise UsageError(f"{text}: write NAME:COUNT, with a count above 0")
    require_usable(name)
    options = dict(_parse_option(text, pair) for pair in pairs)
    known = [field.name for field in fields(_config_class(name)) if field.name not in _OWN]
    for option in options:
        if option not in known:
            raise unknown_name(f"option of {name}", option, known)
    return PuzzleSet(name, int(number or _COUNT), options)


def make_puzzles(chosen: PuzzleSet, seed: int) -> Iterator[dict[str, Any]]:
    """The puzzles in order of their indices. A greater count only adds some; no puzzle follows from
    another ``seed``. UsageError for values of options that the set refuses."""
    derived = derive_seed(chosen.name, seed)
    try:
        puzzles = _create(chosen.name, size=chosen.count, seed=derived, **chosen.options)
        for index in range(chosen.count):
            yield puzzles[index]
    except (AssertionError, TypeError, ValueError) as error:
        raise UsageError(f"{chosen.name}: {error}") from error
    except Exception as error:
        # Values that the set does not check make it raise anything, also at a later puzzle.
        given = ", ".join(f"{name}={value}" for name, value in chosen.options.items())
        problem = f"{type(error).__name__}: {error}"
        raise UsageError(f"{chosen.name} with {given or 'its defaults'}: {problem}") from error


def derive_seed(name: str, seed: int) -> int:
    """A seed below 2**32. Most sets add the index to their seed, so that seeds beside each other
    would share nearly all of their puzzles."""
    return int.from_bytes(hashlib.sha256(f"{name} {seed}".encode()).digest()[:4], "big")


def score_answer(name: str, answer: str, puzzle: Mapping[str, Any]) -> float:
    """The set's own score of an answer, between 0 and 1. 0 for an answer that makes it raise."""
    require_usable(name)
    scorer = _scorer(name)
    try:
        score = float(scorer.score_answer(answer, dict(puzzle)))
    except Exception:
        # Right answers were scored when the puzzle was written: this is about the answer.
        return 0.0
    return min(max(score, 0.0), 1.0) if score == score else 0.0


def require_usable(name: str) -> None:
    """UsageError for a set that is unknown or refused, or if reasoning-gym is not installed."""
    if name in REFUSED:
        raise UsageError(f"puzzles of {name} are refused: {REFUSED[name]}")
    usable = [known for known in _known() if known not in REFUSED]
    if name not in usable:
        raise unknown_name("set of puzzles", name, usable)


_OWN = ("seed", "size")


def _parse_option(text: str, pair: str) -> tuple[str, Any]:
    name, equals, value = pair.partition("=")
    if not equals:
        raise UsageError(f"{text}: write OPTION=VALUE after each comma, not {pair!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _known() -> list[str]:
    return sorted(_factory().DATASETS)


def _config_class(name: str) -> Any:
    return _factory().DATASETS[name][1]


def _create(name: str, **options: Any) -> Any:
    return _factory().create_dataset(name, **options)


@cache
def _scorer(name: str) -> Any:
    return _create(name, size=1, seed=0)


@cache
def _factory() -> Any:
    # Takes two seconds, and is an extra.
    try:
        from reasoning_gym import factory
    except ImportError as error:
        raise UsageError(_INSTALL) from error
    return factory
