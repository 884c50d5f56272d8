"""Files of published data sets become checked evaluation files."""

from __future__ import annotations

import json
from importlib import import_module
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import UsageError
from engine.base.parquet import pa, pq
from engine.data.benchmarks import BENCHMARKS, find_benchmark
from engine.data.contract import Row, read_facts, read_rows
from engine.data.prepare_task import Prepared, PrepareOptions, prepare_benchmark
from tests.engine.data.benchmark_records import RECORDS, write_records


def prepare(name: str, path: Path, **options: Any) -> tuple[Prepared, list[Row]]:
    """What was prepared, and the rows in the order of the IDs."""
    folder = path.parent / "out"
    options = {"columns": {}, **options}
    prepared = prepare_benchmark(find_benchmark(name), [path], PrepareOptions(folder, **options))
    rows = read_rows(folder / f"{name}.parquet")
    return prepared, sorted(rows, key=lambda row: str(row["extra_info"]["question_id"]))


def score(name: str, row: Row, response: str) -> dict[str, float]:
    task = BENCHMARKS[name].task
    compute_score = getattr(import_module(task.module), task.function)
    truth, extra = row["reward_model"]["ground_truth"], row["extra_info"]
    numbers: dict[str, float] = compute_score(row["data_source"], response, truth, extra)
    return numbers


PROMPTS = {
    "gsm8k": "A shelf has 3 boards with 350 nails each. 15 are bent. How many are not?\n\n"
    "Put your final answer in \\boxed{}.",
    "math": "Write $1 + x + \\frac{1}{2}$ as a single term.\n\nPut your final answer in \\boxed{}.",
    "squad_v2": "Lindow lies on the river Marn. The old bridge was built in 1612.\n\n"
    "What was built in 1612?\n\nAnswer with a few words between <answer> and </answer>. "
    'If the text does not answer the question, the answer is "unanswerable".',
    "hotpotqa": "Orla Venn: Orla Venn was a painter from Lindow. She died in 1903.\n\n"
    "Lindow: Lindow lies on the river Marn.\n\n"
    "Which river flows past the town of the painter Orla Venn?\n\n"
    "Answer with a few words between <answer> and </answer>.",
    "humaneval": 'def thrice(x: int) -> int:\n    """Return three times x."""\n\n'
    "Answer with a Python program in a ```python block.",
    "mbpp": "Write a function to find the second power of a number.\n\n"
    "It must pass: assert power_two(3) == NINE\n"
    "Answer with a Python program in a ```python block.",
}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_prompt_asks_for_the_answer_in_the_form_that_is_scored(
    tmp_path: Path, name: str
) -> None:
    _, rows = prepare(name, write_records(tmp_path, name))
    assert rows[0]["prompt"] == [{"role": "user", "content": PROMPTS[name]}]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_parquet_as_on_the_hub_gives_the_same_rows_as_json_lines(tmp_path: Path, name: str) -> None:
    _, rows = prepare(name, write_records(tmp_path, name))
    pq.write_table(pa.Table.from_pylist(RECORDS[name]), tmp_path / "hub.parquet")
    assert prepare(name, tmp_path / "hub.parquet")[1] == rows


TRUTHS = {
    "gsm8k": ["1,035"],
    "math": ["x+\\frac{3}{2}"],
    "squad_v2": ["The old bridge", "unanswerable"],
    "hotpotqa": ["the Marn"],
    "humaneval": ['def thrice(x: int) -> int:\n    """Return three times x."""\n    return 3 * x'],
    "mbpp": ["def power_two(n):\r\n  return n * n"],
}
IDS = {
    "squad_v2": ["5a01", "5a02"],
    "hotpotqa": ["5b01"],
    "humaneval": ["HumanEval/900"],
    "mbpp": ["9001"],
}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_row_has_the_truth_the_source_and_the_published_id(tmp_path: Path, name: str) -> None:
    _, rows = prepare(name, write_records(tmp_path, name))
    assert [row["reward_model"]["ground_truth"] for row in rows] == TRUTHS[name]
    assert {row["data_source"] for row in rows} == {name}
    ids = [row["extra_info"]["question_id"] for row in rows]
    assert ids == IDS.get(name, ids)
    assert len({*ids}) == len(RECORDS[name])


@pytest.mark.row("A16")
@pytest.mark.waits
@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_right_answer_to_every_row_gets_the_full_score(tmp_path: Path, name: str) -> None:
    task = BENCHMARKS[name].task
    for row in prepare(name, write_records(tmp_path, name))[1]:
        truth, extra = row["reward_model"]["ground_truth"], row["extra_info"]
        assert score(name, row, task.right_answer(truth, extra))["score"] == 1


SCORES: list[tuple[str, str, dict[str, float]]] = [
    ("gsm8k", "3 * 350 - 15 = 1035, so the answer is \\boxed{1035}", {"score": 1, "marked": 1}),
    ("gsm8k", "1035 - 15 is \\boxed{1020}", {"score": 0, "marked": 1}),
    ("gsm8k", "I do not know", {"score": 0, "marked": 0}),
    ("math", "\\boxed{x + \\dfrac32}", {"score": 1, "marked": 1}),
    ("math", "\\boxed{0}", {"score": 0, "marked": 1}),
    ("squad_v2", "<answer>An old Bridge!</answer>", {"score": 1, "exact_match": 1, "f1": 1}),
    ("squad_v2", "<answer>bridge</answer>", {"score": 1, "exact_match": 1, "f1": 1}),
    ("squad_v2", "<answer>the stone bridge</answer>", {"score": 0, "exact_match": 0, "f1": 2 / 3}),
    ("squad_v2", "<answer>unanswerable</answer>", {"score": 0, "exact_match": 0, "f1": 0}),
    ("hotpotqa", "It lies on it: <answer>Marn</answer>", {"score": 1, "f1": 1}),
    ("hotpotqa", "<answer>the river Marn</answer>", {"score": 0, "f1": 2 / 3}),
    ("humaneval", "```python\ndef thrice(x):\n    return x + x + x\n```", {"score": 1}),
    ("humaneval", "```python\ndef thrice(x):\n    return x + 4\n```", {"score": 0, "passed": 0}),
    ("mbpp", "```python\nfrom math import pow as power_two_\n```", {"score": 0, "errors": 1}),
    ("mbpp", "```python\npower_two = lambda n: n ** 2\n```", {"score": 1, "passed": 1}),
    ("mbpp", "```python\ndef power_two(n):\n    return 3 * n\n```", {"score": 0, "passed": 0.5}),
]


@pytest.mark.row("A16")
@pytest.mark.waits
@pytest.mark.parametrize(("name", "response", "expected"), SCORES)
def test_right_and_wrong_answers_have_these_numbers(
    tmp_path: Path, name: str, response: str, expected: dict[str, float]
) -> None:
    _, rows = prepare(name, write_records(tmp_path, name))
    numbers = score(name, rows[0], response)
    assert {key: numbers[key] for key in expected} == pytest.approx(expected)


def test_a_question_without_an_answer_is_right_if_the_response_says_so(tmp_path: Path) -> None:
    _, [_, row] = prepare("squad_v2", write_records(tmp_path, "squad_v2"))
    assert score("squad_v2", row, "<answer>Unanswerable.</answer>")["score"] == 1
    assert score("squad_v2", row, "<answer>Orla Venn</answer>")["score"] == 0


def test_the_file_says_which_benchmark_it_is_and_what_scores_it(tmp_path: Path) -> None:
    path = write_records(tmp_path, "mbpp")
    prepare("mbpp", path, seed=42)
    facts = read_facts(tmp_path / "out" / "mbpp.parquet")
    assert facts is not None
    assert (facts.benchmark, facts.preset, facts.split, facts.seed) == ("mbpp", "code", "test", 42)
    assert [*facts.sources] == [str(path)]


def many(path: Path, count: int) -> Path:
    lines = ({"question": f"{n} + 1?", "answer": f"#### {n + 1}"} for n in range(count))
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def first_questions(folder: Path, count: int, seed: int) -> list[str]:
    options = PrepareOptions(folder / "out", seed=seed)
    prepare_benchmark(find_benchmark("gsm8k"), [folder / "many.jsonl"], options)
    rows = read_rows(folder / "out" / "gsm8k.parquet")
    return [row["extra_info"]["question"] for row in rows[:count]]


def test_the_seed_draws_the_order(tmp_path: Path) -> None:
    many(tmp_path / "many.jsonl", 200)
    drawn = first_questions(tmp_path, 20, seed=42)
    assert drawn == first_questions(tmp_path, 20, seed=42)
    assert {*drawn} != {*first_questions(tmp_path, 20, seed=1)}
    assert drawn != sorted(drawn, key=lambda question: int(question.split()[0]))


def test_a_prompt_that_repeats_is_written_once(tmp_path: Path) -> None:
    path = many(tmp_path / "many.jsonl", 3)
    path.write_text(path.read_text() * 2)
    prepared, rows = prepare("gsm8k", path)
    assert (prepared.validation, prepared.repeats, len(rows)) == (3, 3, 3)


@pytest.mark.parametrize(("name", "other"), permutations(BENCHMARKS, 2))
def test_a_file_of_another_benchmark_is_refused_with_its_name(
    tmp_path: Path, name: str, other: str
) -> None:
    with pytest.raises(UsageError, match=rf"{other}.jsonl:1: .*looks like {other}: --benchmark"):
        prepare(name, write_records(tmp_path, other))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_first_missing_column_is_named(tmp_path: Path, name: str) -> None:
    *_, last = BENCHMARKS[name].columns
    record = {key: value for key, value in RECORDS[name][0].items() if key != last}
    (tmp_path / "cut.jsonl").write_text(json.dumps(record))
    with pytest.raises(UsageError, match=rf"cut.jsonl:1: no column '{last}', which \S+/\S+ has"):
        prepare(name, tmp_path / "cut.jsonl")


@pytest.mark.parametrize(
    ("name", "changed", "says"),
    [
        ("gsm8k", {"answer": "1035"}, "no number after ####"),
        ("gsm8k", {"answer": "#### many"}, "no number after ####"),
        ("gsm8k", {"answer": None}, "the answer is empty"),
        ("math", {"solution": "It is $x$."}, r"no \\boxed"),
        ("math", {"solution": None}, r"no \\boxed"),
        ("squad_v2", {"answers": "bridge", "id": None}, "the ID is neither"),
        ("squad_v2", {"question": " "}, "the question is not text"),
        ("hotpotqa", {"answer": ""}, "the answer is empty"),
        ("hotpotqa", {"context": [["Lindow", ["It is a town."]]]}, "no list of titles"),
        ("hotpotqa", {"context": {"title": ["a"], "sentences": []}}, "no list of titles"),
        ("humaneval", {"test": "def check(candidate: pass"}, "the tests are not Python"),
        ("mbpp", {"test_list": []}, "0 tests"),
    ],
)
def test_a_record_that_cannot_be_scored_is_named(
    tmp_path: Path, name: str, changed: dict[str, Any], says: str
) -> None:
    record = {**RECORDS[name][0], **changed}
    (tmp_path / "bad.jsonl").write_text(json.dumps(record))
    with pytest.raises(UsageError, match=rf"bad.jsonl:1: .*{says}.*--skip-unusable"):
        prepare(name, tmp_path / "bad.jsonl")
    with pytest.raises(UsageError, match="no record is left to evaluate on"):
        prepare(name, tmp_path / "bad.jsonl", skip_unusable=True)
    assert not (tmp_path / "out").exists()


def test_a_benchmark_that_does_not_exist_is_named_with_the_nearest() -> None:
    with pytest.raises(
        UsageError, match="benchmark 'squad' does not exist; did you mean 'squad_v2"
    ):
        find_benchmark("squad")
