"""The training and validation files of a task, from records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import UsageError
from engine.base.files import content_hash
from engine.data.blocklist import BlockedCounts
from engine.data.contract import read_facts, read_rows
from engine.data.prepare_task import Prepared, PrepareOptions, prepare_task
from engine.tasks.questions import QUESTIONS
from engine.tasks.reading import READING


def write(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def sums(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [{"question": f"{a} + 1?", "answer": a + 1} for a in range(start, start + count)]


def prepare(
    data: Path, *validation: Path, out: str = "out", **options: Any
) -> tuple[Prepared, list[dict[str, Any]], list[dict[str, Any]]]:
    """What was prepared, and the rows of the two files."""
    folder = data.parent / out
    prepared = prepare_task(QUESTIONS, [data], validation, PrepareOptions(folder, **options))
    return prepared, read_rows(folder / "train.parquet"), read_rows(folder / "val.parquet")


def questions(rows: list[dict[str, Any]]) -> set[str]:
    return {row["extra_info"]["question"] for row in rows}


def test_a_row_has_the_columns_of_verl(tmp_path: Path) -> None:
    data = write(tmp_path / "a.jsonl", {"question": "2 + 3?", "answer": "It is #### 5"}, *sums(1))
    _, train, val = prepare(data, system="Be brief.")
    [row] = [row for row in (*train, *val) if row["prompt"][-1]["content"].startswith("2 + 3?")]
    assert row["data_source"] == "questions"
    assert row["reward_model"] == {"ground_truth": "5", "style": "rule"}
    assert row["extra_info"]["kind"] == "number"
    assert row["prompt"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "2 + 3?\n\nPut your final answer in \\boxed{}."},
    ]


def test_a_share_of_the_prompts_is_for_validation(tmp_path: Path) -> None:
    prepared, train, val = prepare(write(tmp_path / "a.jsonl", *sums(1000)), val_share=0.2)
    assert (prepared.train, prepared.validation) == (len(train), len(val))
    assert len(train) + len(val) == 1000
    assert 150 < len(val) < 250
    assert not questions(train) & questions(val)


def test_two_prompts_are_one_for_each_file(tmp_path: Path) -> None:
    prepared, _, _ = prepare(write(tmp_path / "a.jsonl", *sums(2)), val_share=1e-9)
    assert (prepared.train, prepared.validation) == (1, 1)


def test_the_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    data = write(tmp_path / "a.jsonl", *sums(50))
    prepare(data, out="one")
    prepare(data, out="two")
    for name in ("train.parquet", "val.parquet"):
        assert content_hash(tmp_path / "one" / name) == content_hash(tmp_path / "two" / name)


def test_more_records_move_no_prompt_to_the_other_file(tmp_path: Path) -> None:
    _, _, few = prepare(write(tmp_path / "a.jsonl", *sums(100)))
    _, _, many = prepare(write(tmp_path / "a.jsonl", *sums(300)))
    assert questions(few) < questions(many)


def test_another_seed_chooses_other_prompts(tmp_path: Path) -> None:
    data = write(tmp_path / "a.jsonl", *sums(300))
    assert questions(prepare(data, seed=1)[2]) != questions(prepare(data, seed=2)[2])


def test_a_repeated_prompt_is_written_once(tmp_path: Path) -> None:
    copies = [{"question": "0  + 1?", "answer": 1}, {"question": "1 + 1?", "answer": 2}]
    prepared, train, val = prepare(write(tmp_path / "a.jsonl", *sums(5), *copies))
    assert (prepared.repeats, len(train) + len(val)) == (2, 5)


def test_a_validation_file_keeps_its_prompts_out_of_training(tmp_path: Path) -> None:
    own = write(tmp_path / "val.jsonl", *sums(3))
    prepared, train, val = prepare(write(tmp_path / "a.jsonl", *sums(10)), own)
    assert (len(train), len(val), prepared.repeats) == (7, 3, 3)
    assert not questions(train) & questions(val)


def test_the_files_say_what_they_were_made_from(tmp_path: Path) -> None:
    data = write(tmp_path / "a.jsonl", *sums(5))
    prepare(data, seed=7)
    facts = read_facts(tmp_path / "out" / "val.parquet")
    assert facts is not None
    assert (facts.preset, facts.split, facts.seed) == ("questions", "val", 7)
    assert facts.sources == {str(data): content_hash(data)}


@pytest.mark.row("H23")
@pytest.mark.parametrize(
    ("record", "says"),
    [
        ({"question": " ", "answer": "1"}, r":2: the question is not text"),
        ({"question": "x?", "answer": None}, r":2: the answer is empty"),
        ({"question": "x?", "answer": float("inf")}, r":2: the answer is not text"),
        ({"question": "x?", "answer": "Z", "choices": ["a", "b"]}, "is none of the 2 choices"),
        ({"question": "x?", "answer": "a", "choices": ["a"]}, "a question has 2 to 26"),
        ({"question": "x?", "answer": "a", "kind": "numbr"}, "kind 'numbr' is not one of"),
        ({"frage": "x?", "answer": "a"}, "name it with --column question=COLUMN"),
    ],
)
def test_a_record_that_is_no_example_is_named_and_nothing_is_written(
    tmp_path: Path, record: dict[str, Any], says: str
) -> None:
    data = write(tmp_path / "a.jsonl", *sums(1), record, *sums(5, 10))
    with pytest.raises(UsageError, match=says):
        prepare(data)
    assert not (tmp_path / "out").exists()


def test_records_that_are_no_examples_can_be_left_out(tmp_path: Path) -> None:
    data = write(tmp_path / "a.jsonl", {"question": "x?", "answer": ""}, *sums(4))
    prepared, train, val = prepare(data, skip_unusable=True)
    assert (prepared.unusable, len(train) + len(val)) == (1, 4)
    assert prepared.problems == [f"{data}:1: the answer is empty"]


@pytest.mark.row("H23")
def test_files_without_records_to_train_on_are_refused(tmp_path: Path) -> None:
    own = write(tmp_path / "val.jsonl", *sums(3))
    with pytest.raises(UsageError, match="no record is left to train on"):
        prepare(write(tmp_path / "a.jsonl", *sums(2)), own)
    with pytest.raises(UsageError, match="validation files have no record"):
        prepare(own, write(tmp_path / "empty.jsonl"))


def test_an_instruction_and_its_context_are_one_question(tmp_path: Path) -> None:
    """As in Dolly, where many records share an instruction."""
    rows = [{"instruction": "Sum it.", "context": f"{n} + 1", "response": n + 1} for n in range(9)]
    prepared, train, val = prepare(write(tmp_path / "a.jsonl", *rows))
    assert (prepared.repeats, prepared.unused, len(train) + len(val)) == (0, [], 9)
    assert train[0]["prompt"][0]["content"].startswith("Sum it.\n\n")


def test_what_left_no_record_to_train_on_is_named(tmp_path: Path) -> None:
    rows = [{"question": "Sum?", "answer": "3", "numbers": f"{n}, 1"} for n in range(4)]
    says = "1 prompt for validation; left out 3 repeated prompts; columns not used: numbers"
    with pytest.raises(UsageError, match=f"no record is left to train on: {says}"):
        prepare(write(tmp_path / "a.jsonl", *rows))


def test_earlier_files_stay_where_the_new_ones_fail(tmp_path: Path) -> None:
    data = write(tmp_path / "a.jsonl", *sums(5))
    prepare(data)
    before = content_hash(tmp_path / "out" / "train.parquet")
    write(data, *sums(5, 20), {"question": "x?", "answer": ""})
    with pytest.raises(UsageError):
        prepare(data)
    assert content_hash(tmp_path / "out" / "train.parquet") == before
    assert len(list((tmp_path / "out").iterdir())) == 2


def test_a_full_disk_is_named_with_the_file_and_nothing_is_left(tmp_path: Path) -> None:
    data = write(tmp_path / "data.jsonl", *sums(20))
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / ".train.parquet.part").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device") as raised:
        prepare(data)
    assert raised.value.filename == str(folder / "train.parquet")
    assert not folder.exists()


def test_records_with_a_text_of_the_block_list_are_left_out(tmp_path: Path) -> None:
    blocklist = tmp_path / "list.txt"
    blocklist.write_text("CAPITAL\nrome\n")
    data = write(
        tmp_path / "a.jsonl",
        {"question": "The capital of Italy?", "answer": "Rome"},
        {"question": "The city of the Tiber?", "answer": "Rome"},
        {"question": "The capital of France?", "answer": "Paris"},
        *sums(50),
    )
    prepared, train, val = prepare(data, blocklist=blocklist)
    assert len(train) + len(val) == 50
    assert prepared.blocked is not None
    assert prepared.blocked.counts == BlockedCounts(3, {"CAPITAL": 2, "rome": 2})


def test_the_files_record_the_block_list_and_its_hits(tmp_path: Path) -> None:
    blocklist = tmp_path / "list.txt"
    blocklist.write_text("7 + 1?\nnowhere\n")
    prepare(write(tmp_path / "a.jsonl", *sums(50)), blocklist=blocklist)
    for name in ("train.parquet", "val.parquet"):
        facts = read_facts(tmp_path / "out" / name)
        assert facts is not None
        assert facts.blocked == {"7 + 1?": 5}
        assert facts.sources[str(blocklist)] == content_hash(blocklist)
    assert len(list((tmp_path / "out").iterdir())) == 2


def test_a_block_list_without_hits_changes_no_row(tmp_path: Path) -> None:
    blocklist = tmp_path / "list.txt"
    blocklist.write_text("nowhere\n")
    data = write(tmp_path / "a.jsonl", *sums(50))
    assert prepare(data, blocklist=blocklist)[1:] == prepare(data)[1:]


def test_the_block_list_covers_every_right_answer(tmp_path: Path) -> None:
    blocklist = tmp_path / "list.txt"
    blocklist.write_text("second\n")
    records = [{"question": f"{n}?", "answers": ["first", f"the Second {n}"]} for n in range(3)]
    others = [{"question": f"{n}!", "answers": ["first"]} for n in range(5)]
    data = write(tmp_path / "a.jsonl", *records, *others)
    options = PrepareOptions(tmp_path / "out", blocklist=blocklist)
    prepared = prepare_task(READING, [data], [], options)
    assert (prepared.train + prepared.validation, prepared.hits) == (5, {"second": 3})


def test_the_block_list_covers_records_for_validation_too(tmp_path: Path) -> None:
    blocklist = tmp_path / "list.txt"
    blocklist.write_text("2 + 1?\n")
    own = write(tmp_path / "val.jsonl", *sums(3))
    prepared, _, val = prepare(write(tmp_path / "a.jsonl", *sums(2, 5)), own, blocklist=blocklist)
    assert (len(val), prepared.repeats) == (2, 0)
