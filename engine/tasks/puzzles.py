"""Puzzles of reasoning-gym: made by seed and index, checked by the set's own scorer."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from engine.base.errors import UsageError, unknown_name
from engine.tasks.rubrics import without_thoughts
from engine.tasks.task import Column, Example, RecordError, Task, Values

_REASONS = {
    "its scorer runs answers as Python code": "binary_matrix countdown intermediate_integration "
    "n_queens polynomial_multiplication puzzle24 simple_integration spiral_matrix string_insertion",
    "the same seed gives other puzzles in another process": "codeio isomorphic_strings "
    "knight_swap list_functions ransom_note word_ladder",
    "its scorer gives its own answers no score": "boxnet graph_color propositional_logic "
    "rubiks_cube rush_hour",
    "its scorer gives wrong answers the full score": "complex_arithmetic game_of_life_halting",
    "its puzzles cannot be stored in a file": "arc_agi composite rearc",
}
REFUSED = {name: reason for reason, names in _REASONS.items() for name in names.split()}
"""Found with version 0.1.25: all sets were read, and were run with two hash seeds and with garbage
for answers."""

_BETWEEN_OPTIONS = re.compile(r",(?![^\[]*\])")
"""A comma that is not in a list, such as ``sizes=[3,4]``."""
_COUNT = 500
_INSTRUCTION = "Put your final answer between <answer> and </answer>."
_TAGGED = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_LONGEST = 10_000
_OWN = ("seed", "size")
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
    known = [field.name for field in fields(_factory().DATASETS[name][1]) if field.name not in _OWN]
    for option in options:
        if option not in known:
            raise unknown_name(f"option of {name}", option, known)
    return PuzzleSet(name, int(number or _COUNT), options)


def make_puzzles(chosen: PuzzleSet, seed: int) -> Iterator[dict[str, Any]]:
    """The puzzles in order of their indices. A greater count only adds some; no puzzle follows from
    another ``seed``. UsageError for values of options that the set refuses."""
    derived = derive_seed(chosen.name, seed)
    try:
        puzzles = _factory().create_dataset(
            chosen.name, size=chosen.count, seed=derived, **chosen.options
        )
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
    usable = [known for known in sorted(_factory().DATASETS) if known not in REFUSED]
    if name not in usable:
        raise unknown_name("set of puzzles", name, usable)


def _parse_option(text: str, pair: str) -> tuple[str, Any]:
    name, equals, value = pair.partition("=")
    if not equals:
        raise UsageError(f"{text}: write OPTION=VALUE after each comma, not {pair!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


@cache
def _scorer(name: str) -> Any:
    return _factory().create_dataset(name, size=1, seed=0)


@cache
def _factory() -> Any:
    # Takes two seconds, and is an extra.
    try:
        from reasoning_gym import factory
    except ImportError as error:
        raise UsageError(_INSTALL) from error
    return factory


def _make_records(source: str, seed: int) -> Iterator[dict[str, Any]]:
    chosen = parse_set(source)
    for index, entry in enumerate(make_puzzles(chosen, seed)):
        yield {"puzzle": chosen.name, "index": index, "entry": entry}


def _read(values: Values) -> Example:
    name, entry = values["puzzle"], values["entry"]
    question, answer = entry.get("question"), entry.get("answer")
    if not isinstance(question, str) or not isinstance(answer, str):
        raise RecordError(f"{name} has no question or no answer in text")
    stored = json.dumps(entry, ensure_ascii=False, default=str)
    if score_answer(name, answer, json.loads(stored)) != 1:
        raise RecordError(f"the scorer of {name} gives its own answer less than 1")
    content = f"{question}\n\n{_INSTRUCTION}"
    return Example(
        ({"role": "user", "content": content},), answer, {"puzzle": name, "entry": stored}
    )


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Mapping[str, Any] | None = None,
    *,
    partial_credit: float = 1.0,
) -> dict[str, float]:
    """1 for a right answer; otherwise ``partial_credit`` times what the set gives for it.

    Beside the score: ``right``, whether the set gives 1, and ``marked``, whether the answer stands
    in ``<answer>`` tags. UsageError, which is no score, for a set that is refused.
    """
    extra = extra_info or {}
    response = without_thoughts(solution_str)[-_LONGEST:]
    tagged = _TAGGED.findall(response)
    answer = (tagged[-1] if tagged else response).strip()
    # Python reads the digits of every script, so that sets take ٥ for 5.
    is_plain = all(char.isascii() for char in answer if char.isdecimal())
    score = score_answer(extra["puzzle"], answer, json.loads(extra["entry"])) if is_plain else 0.0
    right = float(score == 1)
    return {
        "score": right or partial_credit * score,
        "right": right,
        "marked": float(bool(tagged)),
    }


PUZZLES = Task(
    name="puzzles",
    summary="puzzles of reasoning-gym, made by seed: chain_sum:500, sudoku",
    scorer="engine.tasks.puzzles:compute_score",
    columns={"puzzle": Column(("puzzle",)), "entry": Column(("entry",))},
    read=_read,
    make_records=_make_records,
    extra=("puzzle", "entry"),
    right_answer=lambda truth, _: f"<answer>{truth}</answer>",
    is_rate=lambda arguments: arguments.get("partial_credit", 1.0) == 0,
)
