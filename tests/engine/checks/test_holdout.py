"""What measures the model is not trained on, whatever the rows are called."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.checks.check import Check
from engine.data.contract import Row
from tests.engine.checks.project import Project, example, row

pytestmark = pytest.mark.long

VAL = "data/val.parquet"
HELD_OUT = range(100, 140)


def unnamed(number: int) -> Row:
    """A row without question id, as data prepared elsewhere has them."""
    result = row(number)
    result["extra_info"]["question_id"] = None
    return result


def named(number: int, name: str) -> Row:
    result = row(number)
    result["extra_info"]["question_id"] = name
    return result


def answer(project: Project, validation: Sequence[Row], training: Sequence[Row] = ()) -> Check:
    if training:
        project.write("data/train.parquet", training)
    project.write(VAL, validation, split="val")
    return project.checks()["holdout"]


def test_rows_that_differ_are_fine_with_and_without_ids(project: Project) -> None:
    for make in (row, unnamed):
        result = answer(project, [make(n) for n in HELD_OUT], [make(n) for n in range(12)])
        assert result.status == "ok"
        assert "12 training questions, no overlap with val.parquet" in result.message


def test_a_copy_of_the_training_file_without_ids_is_refused(project: Project) -> None:
    rows = [unnamed(number) for number in range(12)]
    result = answer(project, rows, rows)
    assert result.status == "fail"
    assert result.message.startswith(
        "12 of 12 validation questions are also in the training data: "
        "val.parquet row 0 is train.parquet row 0"
    )
    assert "and 7 more" in result.message


@pytest.mark.parametrize("name", [None, "another"])
def test_a_part_that_was_copied_in_another_order_is_found(
    name: str | None, project: Project
) -> None:
    rows = [unnamed(number) for number in HELD_OUT]
    rows[5:5] = [named(9, name) if name else unnamed(9), unnamed(2)]
    result = answer(project, rows)
    assert result.status == "fail"
    assert "2 of 42 validation questions" in result.message
    assert "row 5" in result.message and "train.parquet row 9" in result.message
    assert "row 6 is train.parquet row 2" in result.message


def test_case_and_white_space_make_no_new_question(project: Project) -> None:
    rows = [unnamed(number) for number in range(3)]
    for entry in rows:
        entry["extra_info"]["question"] = entry["extra_info"]["question"].upper()
        entry["prompt"][1]["content"] = entry["prompt"][1]["content"].upper() + "  \n"
    assert answer(project, rows).status == "fail"


@pytest.mark.parametrize(
    "written",
    [
        lambda text: unicodedata.normalize("NFD", text),
        lambda text: "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text),
        lambda text: text.replace(" ", "\u00a0"),
        lambda text: text.replace("a", "a\u200b"),
        lambda text: text.replace("'", "\u2019"),
    ],
    ids=["NFD", "fullwidth", "no-break space", "zero width", "quotes"],
)
def test_unicode_forms_make_no_new_question(
    written: Callable[[str], str], project: Project
) -> None:
    def accented(number: int, change: Callable[[str], str] = str) -> Row:
        result = unnamed(number)
        asked = change(f"Qu'a-t-il d\u00e9j\u00e0 fait, {result['prompt'][-1]['content']}?")
        result["prompt"][-1]["content"] = result["extra_info"]["question"] = asked
        return result

    training = [accented(number) for number in range(12)]
    result = answer(project, [accented(number, written) for number in range(12)], training)
    assert "12 of 12 validation questions are also in the training data" in result.message


def test_another_system_prompt_or_instruction_makes_no_new_question(project: Project) -> None:
    training = [unnamed(number) for number in range(12)]
    system, instruction = unnamed(3), unnamed(4)
    system["prompt"].insert(0, {"role": "system", "content": "Be brief."})
    system["extra_info"]["question"] = system["extra_info"]["question"][1:]
    instruction["prompt"][-1]["content"] += "\nThink step by step."
    result = answer(project, [system, instruction, unnamed(100)], training)
    assert "2 of 3 validation questions are also in the training data" in result.message


def test_a_user_message_that_all_rows_share_is_no_question(project: Project) -> None:
    def solve(number: int) -> Row:
        result = unnamed(number)
        task = {"role": "system", "content": result["prompt"][-1]["content"]}
        result["prompt"] = [task, {"role": "user", "content": "Solve the task above."}]
        return result

    result = answer(project, [solve(n) for n in HELD_OUT], [solve(n) for n in range(12)])
    assert "also trained on" not in result.message


def test_rows_that_repeat_a_question_are_counted_apart(project: Project) -> None:
    result = answer(project, [row(n) for n in HELD_OUT], [row(n) for n in range(12)] * 2)
    assert "12 training questions in 24 rows, no overlap" in result.message


def test_the_same_id_is_the_same_question_whatever_its_prompt_says(project: Project) -> None:
    rows = [named(number, f"q{number - 100}") for number in range(100, 103)]
    result = answer(project, rows)
    assert result.status == "fail"
    assert "val.parquet row 0 ('q0') is train.parquet row 0" in result.message


def test_few_questions_that_a_data_set_asks_twice_are_a_warning(project: Project) -> None:
    rows = [row(number) for number in HELD_OUT]
    rows[7] = named(3, "q999")
    assert answer(project, rows).status == "warn"
    rows[:7] = [named(number, f"p{number}") for number in range(7)]
    assert answer(project, rows).status == "fail"


def test_a_copied_sft_file_without_ids_is_refused(project: Project) -> None:
    examples = [example(number) for number in range(8)]
    for name, chosen in (("train", examples), ("val", reversed(examples))):
        lines = [json.dumps({"messages": each["messages"]}) for each in chosen]
        Path(f"data/sft/{name}.jsonl").write_text("\n".join(lines) + "\n")
    result = project.checks("sft", "data.val_file=data/sft/val.jsonl")["holdout"]
    assert result.status == "fail"
    assert (
        "8 of 8 validation questions are also in the training data: val.jsonl line 1 is "
        "train.jsonl line 8" in (result.message)
    )


def test_a_held_out_list_says_nothing_of_rows_without_ids(project: Project) -> None:
    Path("data/sft/holdout_ids.json").write_text('{"holdout_ids": ["s2"]}')
    lines = [json.dumps({"messages": example(number)["messages"]}) for number in range(8)]
    Path("data/sft/train.jsonl").write_text("\n".join(lines) + "\n")
    result = project.checks("sft")["holdout"]
    assert result.status == "skip"
    assert "no question IDs to compare with holdout_ids.json" in result.message


def test_ids_of_a_column_with_gaps_are_the_whole_numbers_that_they_were(project: Project) -> None:
    for path, ids in (("train", [1.0, None]), ("val", [1, 2])):
        rows = [row(number if path == "val" else number + 50) for number in (0, 1)]
        for each, name in zip(rows, ids, strict=True):
            each["extra_info"]["question_id"] = name
        pq.write_table(pa.Table.from_pylist(rows), project.root / f"data/{path}.parquet")
    result = project.checks()["holdout"]
    assert "val.parquet row 0 ('1') is train.parquet row 0" in result.message
