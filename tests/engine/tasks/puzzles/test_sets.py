"""Which puzzles there are, that their seed decides them, and who scores them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.data.prepare_task import PrepareOptions, prepare_task
from engine.tasks.puzzles import (
    PUZZLES,
    REFUSED,
    PuzzleSet,
    compute_score,
    make_puzzles,
    parse_set,
)
from engine.tasks.task import Example
from tests.paths import ROOT

factory = pytest.importorskip(
    "reasoning_gym.factory", reason="reasoning-gym is not installed (extra puzzles)"
)
pytestmark = pytest.mark.long


def examples(source: str, seed: int = 1) -> list[Example]:
    assert PUZZLES.make_records is not None
    return [PUZZLES.read(record) for record in PUZZLES.make_records(source, seed)]


[ROW] = examples("chain_sum:1")


def score(response: str, row: Example = ROW, **options: Any) -> dict[str, float]:
    return compute_score("puzzles", response, row.truth, row.extra, **options)


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("gcd", PuzzleSet("gcd", 500, {})),
        ("gcd:7", PuzzleSet("gcd", 7, {})),
        ("gcd:7,max_value=20", PuzzleSet("gcd", 7, {"max_value": 20})),
        (
            "spell_backward,data_file=w.txt",
            PuzzleSet("spell_backward", 500, {"data_file": "w.txt"}),
        ),
    ],
)
def test_a_set_is_named_with_its_count_and_options(text: str, chosen: PuzzleSet) -> None:
    assert parse_set(text) == chosen


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("chainsum", "'chainsum'.*did you mean 'chain_sum'"),
        ("gcd:0", "a count above 0"),
        ("gcd:x", "a count above 0"),
        ("gcd,max_valu=3", "'max_valu'.*'max_value'"),
        ("gcd,max_value", "write OPTION=VALUE"),
        ("gcd,seed=3", "option of gcd 'seed'"),
        *((name, f"puzzles of {name} are refused: ") for name in REFUSED),
    ],
)
def test_what_cannot_be_trained_on_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        parse_set(text)


def test_values_that_a_set_refuses_are_an_error_of_usage() -> None:
    with pytest.raises(UsageError, match="gcd: max_numbers must be"):
        list(make_puzzles(parse_set("gcd:1,min_numbers=9"), 1))


def test_values_that_make_a_set_raise_are_named() -> None:
    with pytest.raises(UsageError, match=r"aiw with task_types=\['siblings'\].*: AttributeError"):
        examples('aiw:3,task_types=["siblings"],task_type_weights=[1.0]')


def test_a_list_is_one_value() -> None:
    chosen = parse_set('aiw:3,task_types=["siblings","friends"],max_entities=4')
    assert chosen.options == {"task_types": ["siblings", "friends"], "max_entities": 4}


def test_refused_are_only_sets_that_exist() -> None:
    assert set(REFUSED) <= set(factory.DATASETS)


def test_the_documentation_names_every_refused_set() -> None:
    page = (ROOT / "docs" / "puzzles.md").read_text(encoding="utf-8")
    assert [name for name in REFUSED if f"`{name}`" not in page] == []


PRINT = """
import json
from engine.tasks.puzzles import make_puzzles, parse_set
print(json.dumps([p for name in ("chain_sum", "sokoban:2", "letter_counting")
                  for p in list(make_puzzles(parse_set(name), 3))[:2]]))
"""


def test_seed_and_index_decide_a_puzzle_in_every_process() -> None:
    def make(hash_seed: str) -> bytes:
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.check_output([sys.executable, "-c", PRINT], cwd=ROOT, env=env)

    assert make("1") == make("2")


def test_a_greater_count_changes_no_puzzle() -> None:
    few, many = (list(make_puzzles(parse_set(f"gcd:{count}"), 1)) for count in (3, 9))
    assert many[:3] == few


def test_seeds_beside_each_other_share_no_puzzles() -> None:
    one, two = ({example.truth for example in examples("chain_sum:40", seed)} for seed in (1, 2))
    assert len(one & two) < 5


@pytest.mark.parametrize("name", ["chain_sum", "basic_arithmetic", "sokoban", "caesar_cipher"])
def test_right_answers_score_1(name: str) -> None:
    for row in examples(f"{name}:2"):
        response = PUZZLES.right_answer(row.truth, row.extra)
        assert score(response, row) == {"score": 1, "right": 1, "marked": 1}


@pytest.mark.parametrize(
    "response",
    [
        "",
        "0",
        "True",
        "zzz",
        "NaN",
        "inf",
        "9" * 100_000,
        "[" * 1000,
        "\x1b[31m",
        "\\boxed{}",
        "٥٦",
    ],
    ids=lambda response: repr(response[:8]),
)
@pytest.mark.parametrize("name", ["chain_sum", "prime_factorization", "sokoban", "time_intervals"])
def test_hostile_answers_are_not_right(name: str, response: str) -> None:
    [row] = examples(f"{name}:1", seed=5)
    assert score(response, row)["right"] == 0


def test_digits_of_another_script_are_wrong() -> None:
    [row] = examples("count_bits:1")
    assert row.truth.isdecimal()
    digits = row.truth.translate({ord("0") + n: chr(0x660 + n) for n in range(10)})
    assert score(f"<answer>{digits}</answer>", row)["score"] == 0


@given(st.text(max_size=100))
def test_no_answer_raises(response: str) -> None:
    assert 0 <= score(f"<answer>{response}</answer>")["score"] <= 1


def test_what_a_set_gives_for_wrong_answers_can_be_taken_away() -> None:
    response = f"It is {ROW.truth}, I think"
    assert 0 < score(response)["score"] < 1
    assert score(response, partial_credit=0) == {"score": 0, "right": 0, "marked": 0}


def test_a_stored_puzzle_of_a_refused_set_gets_no_score() -> None:
    extra = {**ROW.extra, "puzzle": "countdown"}
    with pytest.raises(UsageError, match="refused"):
        compute_score("puzzles", "__import__('os')", "1", extra)


def test_prepare_writes_the_same_files_again(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        options = PrepareOptions(tmp_path / folder, seed=3)
        prepare_task(PUZZLES, [Path("gcd:20"), Path("lcm:20")], [], options)
    for name in ("train.parquet", "val.parquet"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
