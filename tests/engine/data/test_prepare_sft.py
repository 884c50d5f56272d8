"""SFT data and the one holdout."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.data.holdout import read_holdout
from engine.data.prepare_sft import Points, SftOptions, main, prepare_sft
from engine.tasks.rubrics import parse_rubric


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Twenty questions with completions and five without."""
    questions, completions = tmp_path / "oss_eval.jsonl", tmp_path / "meta_eval.jsonl"
    rubrics = [{"criterion": "Names it", "points": 10, "tags": []}]
    with questions.open("w") as handle:
        for number in range(25):
            prompt = [{"role": "user", "content": f"Question {number}?"}]
            row = {"prompt_id": f"q{number:02d}", "prompt": prompt, "rubrics": rubrics}
            handle.write(json.dumps(row) + "\n")
    with completions.open("w") as handle:
        for number in range(20):
            handle.write(json.dumps({"prompt_id": f"q{number:02d}", "completion": "x"}) + "\n")
    return questions, completions


def prepared(files: tuple[Path, Path], out: Path, **options: Any) -> tuple[set[str], set[str]]:
    options["holdout_size"] = options.pop("holdout", 4)
    prepare_sft(SftOptions("healthbench", *files, output_dir=out, **options))
    train = {str(record["prompt_id"]) for record in jsonl.read(out / "train.jsonl")}
    return train, set(read_holdout(out / "holdout_ids.json"))


@pytest.mark.parametrize(("subset", "rows"), [("all", 21), ("no_answers", 5), ("with_answers", 16)])
def test_subsets_never_touch_the_holdout(
    subset: str, rows: int, files: tuple[Path, Path], tmp_path: Path
) -> None:
    train, holdout = prepared(files, tmp_path / "sft", subset=subset)
    assert (len(train), len(holdout)) == (rows, 4)
    assert not train & holdout


def test_every_subset_has_the_same_holdout(files: tuple[Path, Path], tmp_path: Path) -> None:
    subsets = ("all", "no_answers", "with_answers")
    drawn = [prepared(files, tmp_path / name, subset=name)[1] for name in subsets]
    assert drawn[0] == drawn[1] == drawn[2]


def test_a_rerun_writes_the_same_bytes(files: tuple[Path, Path], tmp_path: Path) -> None:
    prepared(files, tmp_path / "one")
    prepared(files, tmp_path / "two")
    for name in ("train.jsonl", "holdout_ids.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_row_is_a_conversation_that_ends_with_the_gold_rubric(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    prepared(files, tmp_path / "sft")
    record = next(jsonl.read(tmp_path / "sft" / "train.jsonl"))
    assert [message["role"] for message in record["messages"]] == ["system", "user", "assistant"]
    assert record["messages"][2]["content"] == "Points: 10, Item: Names it"


@pytest.fixture
def uneven(tmp_path: Path) -> Path:
    """Questions whose points sum to 17 with a fault of -6, and to less than 0."""
    path = tmp_path / "uneven.jsonl"
    sets = [("Names it", 10), ("Warns", 8), ("Asks", 5), ("Misleads", -6)], [("Misleads", -6)]
    with path.open("w") as handle:
        for number, criteria in enumerate(sets):
            rubrics = [{"criterion": text, "points": points} for text, points in criteria]
            prompt = [{"role": "user", "content": f"Question {number}?"}]
            row = {"prompt_id": f"u{number}", "prompt": prompt, "rubrics": rubrics}
            handle.write(json.dumps(row) + "\n")
    return path


def targets(folder: Path) -> list[str]:
    return [record["messages"][-1]["content"] for record in jsonl.read(folder / "train.jsonl")]


@pytest.mark.row("G12")
def test_points_are_scaled_to_the_sum_that_the_prompt_asks_for(
    uneven: Path, tmp_path: Path
) -> None:
    options = SftOptions(oss_eval=uneven, holdout_size=0, output_dir=tmp_path / "sft")
    output = "\n".join(prepare_sft(options).remarks)
    (target,) = targets(tmp_path / "sft")
    points = [item.points for item in parse_rubric(target)]
    assert points == [5.9, 4.7, 2.9, -3.5]
    assert sum(points) == pytest.approx(10.0, abs=1e-9)
    assert "Scaled the points of 1 rubric" in output
    assert "Left out 1 rubric whose points sum to 0 or less" in output


@pytest.mark.parametrize("points", ["scaled", "as_given"])
def test_a_question_without_a_rubric_teaches_nothing(
    points: Points, uneven: Path, tmp_path: Path
) -> None:
    bare = {"prompt_id": "bare", "prompt": [{"role": "user", "content": "Bare?"}], "rubrics": []}
    with uneven.open("a") as handle:
        handle.write(json.dumps(bare) + "\n")
    sft = tmp_path / "sft"
    options = SftOptions(oss_eval=uneven, holdout_size=0, points=points, output_dir=sft)
    assert "Left out 1 question without a rubric" in prepare_sft(options).remarks
    assert all(targets(sft))


def test_a_held_out_question_under_another_id_is_not_taught(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    files[0].write_text(re.sub(r"Question \d+", "Question 1", files[0].read_text()))
    problem = "'all' has no questions .*Left out 21 questions repeating a held-out one"
    with pytest.raises(UsageError, match=problem):
        prepared(files, tmp_path / "sft", subset="all")


def test_points_as_given_are_not_scaled(uneven: Path, tmp_path: Path) -> None:
    arguments = ["--oss_eval_path", str(uneven), "--output_dir", str(tmp_path / "sft")]
    assert main([*arguments, "--holdout_size", "0", "--points", "as_given"]) == 0
    assert len(targets(tmp_path / "sft")) == 2


def test_too_few_answered_questions_mean_no_holdout_and_a_warning(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train, holdout = prepared(files, tmp_path / "sft", holdout=21, subset="all")
    assert (len(train), len(holdout)) == (25, 0)
    assert "none is held out" in capsys.readouterr().err


def test_without_completions_every_question_is_for_sft(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = (files[0], tmp_path / "gone.jsonl")
    train, _ = prepared(gone, tmp_path / "sft")
    assert len(train) == 25
    assert "gone.jsonl does not exist" in capsys.readouterr().err


def test_an_empty_subset_writes_nothing(files: tuple[Path, Path], tmp_path: Path) -> None:
    lone = tmp_path / "lone.jsonl"
    lone.write_text(files[0].read_text().splitlines()[0] + "\n")
    with pytest.raises(UsageError, match="'no_answers' has no questions"):
        prepare_sft(SftOptions("healthbench", lone, files[1], output_dir=tmp_path / "sft"))
    assert not (tmp_path / "sft").exists()


def test_a_negative_holdout_size_is_refused(files: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--holdout_size -1 must be at least 0"):
        prepared(files, tmp_path / "sft", holdout=-1)
    assert not (tmp_path / "sft").exists()


def test_stats_write_nothing(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "sft"
    paths = ["--oss_eval_path", str(files[0]), "--meta_eval_path", str(files[1])]
    assert main([*paths, "--output_dir", str(out), "--holdout_size", "4", "--stats"]) == 0
    assert "with answers: 20, without: 5" in capsys.readouterr().out
    assert not out.exists()


def test_a_question_with_a_text_of_the_block_list_is_neither_held_out_nor_taught(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocklist, out = tmp_path / "list.txt", tmp_path / "sft"
    blocklist.write_text("QUESTION 2\nnowhere\n")
    words = f"--oss_eval_path {files[0]} --meta_eval_path {files[1]} --output_dir {out}"
    choice = f"--subset all --holdout_size 18 --blocklist {blocklist}"
    assert main([*words.split(), *choice.split()]) == 0
    train = {str(record["prompt_id"]) for record in jsonl.read(out / "train.jsonl")}
    holdout = read_holdout(out / "holdout_ids.json")
    assert not {"q02", *(f"q{number}" for number in range(20, 25))} & (train | holdout)
    assert (len(train), len(holdout)) == (1, 18)
    printed = capsys.readouterr().out
    assert f"[sft] Left out 6 records with a text of {blocklist}: 'QUESTION 2' in 6" in printed
    record = json.loads((out / "holdout_ids.json").read_text())
    assert record["blocked"] == {"records": 6, "hits": {"QUESTION 2": 6}}
