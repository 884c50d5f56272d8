"""Presets become training files: gold only, no held-out question, proportions kept."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
import yaml

from engine.base.errors import UsageError, guarded
from engine.base.files import content_hash
from engine.data.contract import read_facts, read_rows
from engine.data.holdout import write_holdout
from engine.data.prepare import main
from engine.data.presets import load_presets
from engine.tasks.rubrics import HIGH_LABEL
from tests.paths import ROOT


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory: 30 open questions (20 with gold), 40 choices (all with gold)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("USE_CONTRASTIVE", raising=False)
    rubrics = [{"criterion": "Names it", "points": 10, "tags": []}]
    with Path("open.jsonl").open("w") as questions, Path("open_cache.jsonl").open("w") as cache:
        for number in range(30):
            prompt = [{"role": "user", "content": f"Open question {number}?"}]
            row = {"prompt_id": f"o{number:02d}", "prompt": prompt, "rubrics": rubrics}
            questions.write(json.dumps(row) + "\n")
            gold = {"answers": ["well done", "badly"], "gold_scores": [0.9, 0.2]}
            if number < 20:
                cache.write(json.dumps({"question_id": row["prompt_id"], **gold}) + "\n")
    with Path("choice.jsonl").open("w") as choices:
        for number in range(40):
            options = {"A": "yes", "B": "no"}
            choice = {"question": f"Choice {number}?", "options": options, "answer_idx": "A"}
            choices.write(json.dumps(choice) + "\n")
    write_holdout(Path("holdout.json"), ["o00", "o01", "o02", "o03", "medqa_0"], 42, "all")
    Path("presets.yaml").write_text(yaml.safe_dump(PRESETS))
    return tmp_path


OPEN = {"weight": 1.0, "path": "open.jsonl", "cache": "open_cache.jsonl"}
CHOICE = {"weight": 1.0, "path": "choice.jsonl"}
PRESETS = {
    "active_preset": "open_only",
    "holdout": "holdout.json",
    "presets": {
        "open_only": {"description": "Open.", "datasets": {"healthbench": OPEN}},
        "both": {"datasets": {"healthbench": OPEN, "medqa": CHOICE}},
        "curriculum": {
            "type": "curriculum",
            "verifiable": {"medqa": CHOICE},
            "open": {"healthbench": OPEN},
            "phases": [[0.8, 0.2], [0.5, 0.5], [0.2, 0.8]],
        },
    },
}


BY_HAND = ["curriculum", "--verif", "medqa:1", "--open", "healthbench:1"]


def prepare(*arguments: str) -> int:
    shared = ["--presets", "presets.yaml", "--output_dir", "out", "--only-cached"]
    return guarded(lambda: main([arguments[0], *shared, *arguments[1:]]))


def composition(path: str) -> Counter[str]:
    return Counter(str(row["data_source"]) for row in read_rows(Path(path)))


def question_ids(path: Path) -> set[str]:
    return {str(row["extra_info"]["question_id"]) for row in read_rows(path)}


def test_only_cached_leaves_out_rows_without_gold_scores(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prepare("preset") == 0
    assert len(read_rows(Path("out/mixed_train.parquet"))) == 16
    printed = capsys.readouterr().out
    assert "Kept 20/30 rows (10 without precompute removed)" in printed
    assert "Wrote 16 rows -> out/mixed_train.parquet" in printed


def test_held_out_questions_are_in_the_validation_file_alone(world: Path) -> None:
    prepare("preset")
    train, val = Path("out/mixed_train.parquet"), Path("out/mixed_val.parquet")
    assert question_ids(val) == {"o00", "o01", "o02", "o03"}
    assert not question_ids(train) & question_ids(val)
    assert {row["extra_info"]["split"] for row in read_rows(val)} == {"val"}


def test_proportions_hold_after_rows_without_gold_are_gone(world: Path) -> None:
    prepare("preset", "--name", "both")
    assert composition("out/mixed_train.parquet") == {"healthbench": 16, "medqa": 16}


@pytest.mark.row("G21")
def test_every_curriculum_phase_has_its_proportions_and_gold_only(world: Path) -> None:
    assert prepare("preset", "--name", "curriculum", "--total_items", "20") == 0
    shares = [composition(f"out/mixed_curriculum_phase{n}.parquet") for n in (1, 2, 3)]
    assert [share["medqa"] for share in shares] == [16, 10, 4]
    for number in (1, 2, 3):
        path = Path(f"out/mixed_curriculum_phase{number}.parquet")
        assert all(row["extra_info"]["gold_scores"] for row in read_rows(path))
        assert not question_ids(path) & question_ids(Path("out/mixed_val.parquet"))


def test_a_curriculum_has_a_file_of_all_rows_of_each_group(world: Path) -> None:
    assert prepare("preset", "--name", "curriculum") == 0
    # 40 and 20 rows with gold scores, without 1 and 4 held-out questions.
    assert composition("out/mixed_curriculum_verifiable.parquet") == {"medqa": 39}
    assert composition("out/mixed_curriculum_open.parquet") == {"healthbench": 16}


def test_a_curriculum_can_be_given_on_the_command_line(world: Path) -> None:
    arguments = ["--verif", "medqa:1", "--open", "healthbench:1", "--phases", "1:1"]
    assert prepare("curriculum", *arguments) == 0
    assert composition("out/mixed_curriculum_phase1.parquet") == {"healthbench": 16, "medqa": 16}


def test_a_single_dataset(world: Path) -> None:
    arguments = ["--dataset", "medqa", "--path", "choice.jsonl", "--holdout", "holdout.json"]
    assert prepare("single", *arguments) == 0
    assert len(read_rows(Path("out/medqa_train.parquet"))) == 39


def test_use_contrastive_0_leaves_the_excerpts_out_and_is_recorded(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path("out/mixed_train.parquet")

    def shown() -> tuple[bool, bool]:
        prepare("preset")
        facts = read_facts(path)
        assert facts is not None
        prompts = [row["prompt"][1]["content"] for row in read_rows(path)]
        return facts.use_contrastive, any(HIGH_LABEL in prompt for prompt in prompts)

    assert shown() == (True, True)
    monkeypatch.setenv("USE_CONTRASTIVE", "0")
    assert shown() == (False, False)


def test_the_file_records_its_sources(world: Path) -> None:
    prepare("preset")
    facts = read_facts(Path("out/mixed_train.parquet"))
    assert facts is not None
    assert facts.composition == {"healthbench": 16}
    assert facts.sources["open_cache.jsonl"] == content_hash(Path("open_cache.jsonl"))
    assert set(facts.sources) == {"open.jsonl", "open_cache.jsonl", "holdout.json"}


def test_records_with_a_text_of_the_block_list_are_in_no_file(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("open_cache.jsonl").write_text(
        Path("open_cache.jsonl").read_text().replace("badly", "really badly", 1)
    )
    Path("list.txt").write_text("OPEN QUESTION 1\nreally\nnowhere\n")
    assert prepare("preset", "--blocklist", "list.txt") == 0
    printed = capsys.readouterr().out
    assert "left out 12 records with a text of list.txt: 'OPEN QUESTION 1' in 11" in printed
    assert "no record contains 'nowhere'" in printed
    train, val = (Path(f"out/mixed_{name}.parquet") for name in ("train", "val"))
    assert question_ids(train) == {f"o0{number}" for number in range(4, 10)}
    assert question_ids(val) == {"o02", "o03"}
    facts = read_facts(train)
    assert facts is not None
    assert facts.blocked == {"OPEN QUESTION 1": 11, "really": 1}
    assert facts.sources["list.txt"] == content_hash(Path("list.txt"))


def test_rows_with_constant_gold_are_left_out(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flat = {"question_id": "o25", "answers": ["a", "b"], "gold_scores": [0.5, 0.5]}
    with Path("open_cache.jsonl").open("a") as cache:
        cache.write(json.dumps(flat) + "\n")
    prepare("preset")
    assert "left out 1 row with constant gold scores" in capsys.readouterr().out
    assert "o25" not in question_ids(Path("out/mixed_train.parquet"))


@pytest.mark.parametrize("gold", ["[0.1, NaN]", "[0.1, 1e999]", f"[0.1, 1{'0' * 400}]", "[0.1]"])
def test_rows_whose_gold_cannot_rank_the_answers_are_left_out(gold: str, world: Path) -> None:
    with Path("open_cache.jsonl").open("a") as cache:
        cache.write(f'{{"question_id": "o25", "answers": ["a", "b"], "gold_scores": {gold}}}\n')
    assert prepare("preset") == 0
    assert "o25" not in question_ids(Path("out/mixed_train.parquet"))


def test_gold_of_another_question_under_the_same_id_trains_nothing(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gold = {"answers": ["A. yes", "B. no"], "gold_scores": [0.0, 1.0]}
    with Path("cache.jsonl").open("w") as cache:
        for number in range(40):
            cache.write(json.dumps({"question_id": f"medqa_{number}", **gold, "question": ""}))
            cache.write("\n")
    arguments = ("--dataset", "medqa", "--path", "choice.jsonl", "--cache", "cache.jsonl")
    assert prepare("single", *arguments) == 0
    rows = read_rows(Path("out/medqa_train.parquet"))
    assert {tuple(row["extra_info"]["gold_scores"]) for row in rows} == {(1.0, 0.0)}
    assert "40 of 40 questions have records with another text" in capsys.readouterr().err


def test_remaining_rows_without_gold_scores_are_counted(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        "single",
        "--dataset",
        "healthbench",
        "--path",
        "open.jsonl",
        "--output_dir",
        "out",
    ]
    assert guarded(lambda: main([*arguments, "--cache", "gone.jsonl"])) == 0
    output = capsys.readouterr().err
    assert (
        "note: healthbench: 30 of 30 rows have no gold scores in gone.jsonl, which does not"
        in output
    )
    assert "training refuses them" in output
    assert guarded(lambda: main([*arguments, "--cache", "open_cache.jsonl"])) == 0
    assert "healthbench: 10 of 30 rows have no gold scores in open_cache" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("records", "note"),
    [
        (["torn {", "[1]"], "2 records cannot be used: not a JSON object"),
        (
            [{"question_id": "o25", "gold_scores": [20, 90]}],
            "1 question has gold scores on a scale other",
        ),
        (
            [{"question_id": "o25", "gold_scores": [0.2, 0.9], "answers": ["a", "a"]}],
            "1 question has different scores for the same answer, e.g. 'o25'",
        ),
    ],
)
def test_unusable_records_of_a_cache_are_reported(
    records: list[str | dict[str, object]],
    note: str,
    world: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Path("open_cache.jsonl").open("a") as cache:
        for record in records:
            whole = {"answers": ["a", "b"], **record} if isinstance(record, dict) else record
            cache.write(f"{whole if isinstance(whole, str) else json.dumps(whole)}\n")
    assert prepare("preset") == 0
    assert f"note: open_cache.jsonl: {note}" in capsys.readouterr().err


def test_a_cache_of_other_questions_is_named(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = Path("open_cache.jsonl").read_text().replace('"o', '" o')
    Path("open_cache.jsonl").write_text(lines)
    assert prepare("preset") == 2
    output = capsys.readouterr().err
    assert "none of its 20 questions is in the data set, e.g. ' o00'" in output


def test_a_held_out_question_under_another_id_is_not_trained_on(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path("open.jsonl").read_text().replace("Open question 9?", "open  QUESTION\u00a00?")
    Path("open.jsonl").write_text(text)
    assert prepare("preset") == 0
    assert "o09" not in question_ids(Path("out/mixed_train.parquet"))
    assert "left out 1 row repeating a held-out question" in capsys.readouterr().out


@pytest.mark.parametrize("name", [None, ["o00"], True, 1.5])
def test_a_holdout_of_no_ids_is_refused(
    name: object, world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("holdout.json").write_text(json.dumps({"holdout_ids": ["o00", name]}))
    assert prepare("preset") == 2
    assert (
        f"holdout.json: {json.dumps(name)} in 'holdout_ids' is not an ID" in capsys.readouterr().err
    )


def test_a_holdout_of_another_data_set_is_named(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_holdout(Path("holdout.json"), ["zz"], 42, "all")
    assert prepare("preset") == 0
    note = "no validation file: the data sets contain no question of holdout.json"
    assert note in capsys.readouterr().err


def test_gold_scored_again_replaces_the_unusable(world: Path) -> None:
    with Path("open_cache.jsonl").open("a") as cache:
        for gold in ([0.1, None], [0.1, 0.9]):
            record = {"question_id": "o25", "answers": ["a", "b"], "gold_scores": gold}
            cache.write(json.dumps(record) + "\n")
    prepare("preset")
    assert "o25" in question_ids(Path("out/mixed_train.parquet"))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["preset", "--total_items", "0"], "--total_items 0 must be at least 1"),
        (["preset", "--val_items", "-1"], "--val_items -1 must be at least 1"),
        ([*BY_HAND, "--phases", "nan:1"], "'nan' in 'nan:1' must be finite"),
        ([*BY_HAND, "--phases", "1:inf"], "'inf' in '1:inf' must be finite"),
        ([*BY_HAND, "--phases", "1:1", "2:-1"], "'-1' in '2:-1' must be finite and at least 0"),
        ([*BY_HAND, "--phases", "1:1", "0:0"], "must sum to more than 0"),
        (["single", "--dataset", "medqa", "--holdout", "gone.json"], "holdout gone.json does not"),
    ],
)
def test_impossible_choices_are_one_line_and_write_nothing(
    arguments: list[str], complaint: str, world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = ["--path", "choice.jsonl"] if arguments[0] == "single" else []
    assert prepare(*arguments, *paths) == 2
    assert complaint in capsys.readouterr().err
    assert not Path("out").exists()


@pytest.mark.row("G21")
def test_repeated_rows_are_reported(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepare("preset", "--total_items", "100")
    note = (
        "mixed_train.parquet: 84 of 100 healthbench rows are repeats; healthbench has 16 questions"
    )
    assert note in capsys.readouterr().err
    prepare("preset", "--total_items", "16")
    assert "repeats" not in capsys.readouterr().err


def test_a_validation_file_of_an_earlier_call_is_removed_when_no_held_out_question_is_left(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare("preset")
    assert Path("out/mixed_val.parquet").is_file()
    write_holdout(Path("holdout.json"), ["o27"], 42, "all")
    assert prepare("preset") == 0
    assert not Path("out/mixed_val.parquet").exists()
    output = capsys.readouterr().err
    assert "no validation file: no question of holdout.json has usable rows" in output
    assert "removed out/mixed_val.parquet" in output


def test_a_named_holdout_that_is_missing_says_how_to_make_it(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("holdout.json").unlink()
    assert prepare("preset") == 2
    error = capsys.readouterr().err
    assert "holdout holdout.json does not exist" in error
    assert "python -P -m engine.data.prepare_sft" in error
    assert not Path("out").exists()


def test_no_gold_at_all_is_an_error_and_writes_nothing(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("open_cache.jsonl").unlink()
    assert prepare("preset") == 2
    assert "No rows with precomputed data found" in capsys.readouterr().err
    assert not Path("out").exists()


def test_an_unknown_preset_gets_a_suggestion(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prepare("preset", "--name", "curriculm") == 2
    assert "did you mean 'curriculum'" in capsys.readouterr().err


def test_the_list_marks_the_active_preset(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert prepare("preset", "--list") == 0
    assert "open_only  <-- active" in capsys.readouterr().out


@pytest.mark.row("G59")
def test_the_list_has_sources_shares_and_cached_questions(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("choice.jsonl").unlink()
    assert prepare("preset", "--list") == 0
    lines = capsys.readouterr().out.splitlines()
    cached = "from open.jsonl; 20 questions with gold scores in open_cache.jsonl"
    assert f"  healthbench 100% {cached}" in lines
    both = lines[lines.index("both") :]
    assert f"  healthbench 50% {cached}" in both
    assert "  medqa 50% from choice.jsonl (missing); no cache" in both
    assert "  phases, verifiable/open: 80%/20%, 50%/50%, 20%/80%" in lines


def test_the_shipped_presets_are_the_four_documented_ones() -> None:
    presets = load_presets(ROOT / "configs/training_presets.yaml")
    assert list(presets.presets) == ["open_only", "verifiable_only", "curriculum", "full_mix"]
    assert presets.active_preset == "open_only"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("presets: [", "presets.yaml, line 1: "),
        ("active_preset: a\npresets: {a: {datasets: {medqa: {wieght: 1}}}}", "wieght"),
        ("active_preset: a\npresets: {a: {}}", "needs 'datasets'"),
        ("active_preset: a\npresets: {a: {datasets: {medqa: {weight: .nan}}}}", "finite number"),
        ("active_preset: b\npresets: {a: {datasets: {medqa: {}}}}", "preset 'b' does not exist"),
        ("active_preset: a\npresets: {a: {datasets: {medqu: {}}}}", "did you mean 'medqa'"),
    ],
)
def test_a_broken_presets_file_is_one_clear_line(text: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "presets.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        load_presets(path)
    assert complaint in str(caught.value) and "\n" not in str(caught.value)
