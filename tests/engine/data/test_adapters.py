"""Each dataset's own layout becomes the same kind of example."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import UsageError
from engine.data.adapters import BUILT_IN, Example, all_adapters, get_adapter
from engine.data.adapters.verifiable import last_boxed, wrong_variants
from tests.plugins import InstallPlugin


def lines(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def load(name: str, tmp_path: Path, *records: dict[str, Any]) -> list[Example]:
    return get_adapter(name).load(lines(tmp_path / "data.jsonl", *records))


def rule(criterion: str | None, points: float) -> dict[str, Any]:
    return {"criterion": criterion, "points": points, "tags": []}


HEALTH: dict[str, Any] = {
    "prompt_id": "p1",
    "prompt": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}],
    "rubrics": [
        {"criterion": "Names the\ndose", "points": 7, "tags": ["level:example"]},
        {"criterion": "Invents", "points": -3, "tags": ["level:example"]},
        {"criterion": "Shared by many", "points": 5, "tags": ["level:cluster"]},
    ],
    "ideal_completions_data": {
        "ideal_completion": "ideal",
        "ideal_completions_ref_completions": ["ref", "one"],
    },
}


def test_healthbench_reads_conversation_and_example_level_rubric(tmp_path: Path) -> None:
    (example,) = load("healthbench", tmp_path, HEALTH)
    assert example.question == "user: Hi\n\nassistant: Yes?"
    assert example.golden_rubric == "Points: 7, Item: Names the dose\nPoints: -3, Item: Invents"


def test_healthbench_keeps_cluster_items_when_there_are_no_others(tmp_path: Path) -> None:
    (example,) = load("healthbench", tmp_path, {**HEALTH, "rubrics": HEALTH["rubrics"][2:]})
    assert example.golden_rubric == "Points: 5, Item: Shared by many"


def test_healthbench_answers_are_completions_then_ideals_without_repeats(tmp_path: Path) -> None:
    questions = lines(tmp_path / "questions.jsonl", HEALTH)
    completions = lines(
        tmp_path / "meta.jsonl",
        {"prompt_id": "p1", "completion": "one"},
        {"prompt_id": "p1", "completion": "one"},
        {"prompt_id": "p1", "completion": "two"},
    )
    (example,) = get_adapter("healthbench").load(questions, completions)
    assert example.answers == ("one", "two", "ideal", "ref")


def test_healthbench_questions_without_completions_are_left_to_sft(tmp_path: Path) -> None:
    questions = lines(tmp_path / "questions.jsonl", HEALTH)
    completions = lines(tmp_path / "meta.jsonl", {"prompt_id": "other", "completion": "one"})
    (example,) = get_adapter("healthbench").load(questions, completions)
    assert example.answers == ()


def test_frontierscience_takes_the_rubric_as_it_is(tmp_path: Path) -> None:
    (example,) = load(
        "frontierscience",
        tmp_path,
        {"problem": "Derive it", "answer": "Points: 10, Item: x", "subject": "physics"},
    )
    assert (example.question_id, example.golden_rubric) == ("0", "Points: 10, Item: x")
    assert "physics" in example.context


@pytest.mark.parametrize(("cop", "letter"), [(0, "A"), (1, "B"), (2, "C"), (3, "D")])
def test_medmcqa_counts_its_options_from_zero(cop: int, letter: str, tmp_path: Path) -> None:
    row = {"question": "?", "opa": "a", "opb": "b", "opc": "c", "opd": "d", "cop": cop}
    (example,) = load("medmcqa", tmp_path, row)
    right = example.answers[example.gold_scores.index(1.0)]
    assert right == f"{letter}. {letter.lower()}"
    assert example.ground_truth == letter.lower()


@pytest.mark.parametrize("cop", [4, -1, "2", None])
def test_medmcqa_refuses_an_option_that_does_not_exist(cop: object, tmp_path: Path) -> None:
    row = {"question": "?", "opa": "a", "opb": "b", "opc": "c", "opd": "d", "cop": cop}
    with pytest.raises(UsageError, match="must be 0, 1, 2 or 3"):
        load("medmcqa", tmp_path, row)


@pytest.mark.parametrize("as_text", [False, True])
def test_medqa_options_may_be_an_object_or_its_json(as_text: bool, tmp_path: Path) -> None:
    options = {"B": "second", "A": "first"}
    row = {
        "question": "?",
        "options": json.dumps(options) if as_text else options,
        "answer_idx": "B",
    }
    (example,) = load("medqa", tmp_path, row)
    assert example.answers == ("A. first", "B. second")
    assert example.gold_scores == (0.0, 1.0)


def test_gsm8k_takes_the_result_after_the_hashes(tmp_path: Path) -> None:
    (example,) = load("gsm8k", tmp_path, {"question": "2+2?", "answer": "2 and 2 is 4.\n#### 4"})
    assert example.ground_truth == "4"
    assert example.gold_scores.count(1.0) == 1 and len(example.answers) >= 3


def test_math_takes_the_last_boxed_result(tmp_path: Path) -> None:
    solution = r"First \boxed{1}, then \boxed{\frac{1}{2}}."
    row = {"problem": "?", "solution": solution, "level": "Level 5", "type": "Algebra"}
    (example,) = load("math", tmp_path, row)
    assert example.ground_truth == r"\frac{1}{2}"


@pytest.mark.parametrize("text", ["", "no box", r"\boxed{never closed"])
def test_no_boxed_result(text: str) -> None:
    assert last_boxed(text) == ""


def test_a_wrong_variant_leaves_the_reasoning_as_it_was() -> None:
    assert wrong_variants("4 + 4 = 8", "4")[0] == "4 + 4 = 8\nFinal answer: 5"


@pytest.mark.parametrize("name", [n for n in BUILT_IN if n not in ("healthbench", "tiny")])
def test_a_row_without_its_fields_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=rf"{name}: row 1 has no '\w+' \(it has other\)"):
        load(name, tmp_path, {"other": 1})


@pytest.mark.parametrize(
    ("name", "row", "complaint"),
    [
        ("healthbench", {**HEALTH, "prompt": "Hi"}, "row 1 is malformed"),
        ("healthbench", {**HEALTH, "rubrics": [{"criterion": "x"}]}, "row 1 has no 'points'"),
        ("medqa", {"question": "?", "options": "{torn", "answer_idx": "A"}, "row 1 is malformed"),
        ("healthbench", {**HEALTH, "prompt": []}, "row 1 is malformed: prompt is not a list"),
        ("healthbench", {**HEALTH, "prompt": [{"role": "user", "content": None}]}, "content is"),
        ("healthbench", {**HEALTH, "prompt": [{"role": "user", "content": ["x"]}]}, "content is"),
        ("healthbench", {**HEALTH, "prompt_id": None}, "row 1 is malformed: prompt_id is None"),
        ("healthbench", {**HEALTH, "rubrics": [rule("x", math.inf)]}, "points are inf"),
        ("healthbench", {**HEALTH, "rubrics": [rule("x", math.nan)]}, "points are nan"),
        ("healthbench", {**HEALTH, "rubrics": [rule(None, 5)]}, "criterion is None"),
        ("gsm8k", {"question": None, "answer": "4\n#### 4"}, "question is None"),
        ("math", {"problem": " ", "solution": r"\boxed{4}"}, "problem is ' '"),
        ("medqa", {"question": "?", "options": {"A": "x"}, "answer_idx": "E"}, "'E' is not an opt"),
        (
            "medqa",
            {"question": "?", "options": {"A": "x", "B": "y"}, "answer_idx": "A", "answer": "y"},
            "answer is 'y', but option A is 'x'",
        ),
    ],
)
def test_a_malformed_row_is_one_clear_line(
    name: str, row: dict[str, Any], complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=complaint):
        load(name, tmp_path, row)


@pytest.mark.parametrize("name", ["gsm8k", "math"])
def test_a_problem_without_a_final_result_trains_nothing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = ("It is four.", r"It is \boxed{4}." if name == "math" else "Four.\n#### 4")
    rows = [{"question": t, "problem": t, "answer": t, "solution": t} for t in texts]
    (example,) = load(name, tmp_path, *rows)
    assert example.question_id == f"{name}_1"
    note = f"note: {name}: 1 of 2 rows are left out, e.g. row 1: no final result"
    assert note in capsys.readouterr().err
    with pytest.raises(
        UsageError, match=r"none of 1 rows can be used, e\.g\. row 1: no final result"
    ):
        load(name, tmp_path, rows[0])


def test_options_of_one_text_are_all_right_and_missing_ones_no_answers(tmp_path: Path) -> None:
    row = {"question": "?", "opa": "x", "opb": "x ", "opc": None, "opd": "z", "cop": 0}
    (example,) = load("medmcqa", tmp_path, row)
    assert example.answers == ("A. x", "B. x ", "D. z")
    assert example.gold_scores == (1.0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"id": "p1", "completion": "x"}, "line 1 has no 'prompt_id' (it has completion, id)"),
        ({"prompt_id": "p1", "response": "x"}, "line 1 has no 'completion'"),
        ({"prompt_id": "p1", "completion": ["x"]}, "line 1: completion is ['x'], not text"),
    ],
)
def test_completions_under_other_names_are_no_missing_answers(
    row: dict[str, Any], complaint: str, tmp_path: Path
) -> None:
    questions = lines(tmp_path / "questions.jsonl", HEALTH)
    completions = lines(tmp_path / "meta.jsonl", row)
    with pytest.raises(UsageError, match=re.escape(complaint)):
        get_adapter("healthbench").load(questions, completions)


def test_rows_with_the_same_id_are_one_question_or_refused(tmp_path: Path) -> None:
    assert len(load("healthbench", tmp_path, HEALTH, HEALTH)) == 1
    other = {**HEALTH, "prompt": [{"role": "user", "content": "Bye"}]}
    with pytest.raises(UsageError, match="rows 1 and 3 are different questions with the id 'p1'"):
        load("healthbench", tmp_path, HEALTH, HEALTH, other)


@pytest.mark.parametrize("line", ["{torn", "[1]", "NaN", ""])
def test_lines_that_cannot_be_read_are_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text(f"{json.dumps(HEALTH)}\n{line}\n")
    if not line:
        assert len(get_adapter("healthbench").load(path)) == 1
        return
    with pytest.raises(UsageError, match="line 2 is not a JSON object"):
        get_adapter("healthbench").load(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"medqa: .*gone\.jsonl does not exist"):
        get_adapter("medqa").load(tmp_path / "gone.jsonl")


def test_an_unknown_dataset_gets_a_suggestion() -> None:
    with pytest.raises(UsageError, match="did you mean 'healthbench'"):
        get_adapter("helthbench")


SUMS = """
from engine.data.adapters import Adapter, Example
from engine.data.adapters.adapter import read_rows_with

def example(row, index):
    return Example(question_id=f"sum_{index}", question=row["sum"], context="")

SUMS = Adapter(
    name="sums", summary="sums", domain_type="verifiable", hub=None, read=read_rows_with(example)
)
"""
ENTRY = "[grubrics.data_adapters]\nours = sums_data:SUMS\n"


def test_a_data_set_of_another_package_is_read_like_the_others(
    install_plugin: InstallPlugin, tmp_path: Path
) -> None:
    install_plugin("sums_data", SUMS, ENTRY)
    (example,) = load("sums", tmp_path, {"sum": "1 + 1"})
    assert (example.question_id, example.question) == ("sum_0", "1 + 1")
    with pytest.raises(UsageError, match="sums: row 1 has no 'sum'"):
        load("sums", tmp_path, {"other": 1})


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (SUMS.replace("hub=None, ", ""), "hub"),
        (SUMS.replace('name="sums"', 'name="math"'), "'math' is taken"),
        (SUMS.replace("SUMS = Adapter(", "SUMS = dict("), "expected Adapter, got dict"),
    ],
)
def test_a_broken_plugin_is_named_and_skipped(
    install_plugin: InstallPlugin, code: str, why: str
) -> None:
    install_plugin("sums_data", code, ENTRY)
    adapters, (problem,) = all_adapters()
    assert adapters == BUILT_IN
    assert "plugin ours of sums_data 1.2 is skipped" in problem and why in problem
    with pytest.raises(UsageError, match="skipped"):
        get_adapter("sums")
