"""The tiny world: made from a seed, through the same path as real data."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base import jsonl
from engine.data.analyze import analyze_cache
from engine.data.contract import read_facts, read_rows, row_problem
from engine.data.tiny_world import (
    ASPECTS,
    CHATTER,
    CONDITIONS,
    GENERIC_CRITERIA,
    TinyPaths,
    build_tiny_world,
)
from engine.reward.judge.offline import content_words, satisfaction
from engine.tasks.rubrics import format_rubric, parse_rubric

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> TinyPaths:
    return built(tmp_path_factory.mktemp("data") / "tiny")


def built(folder: Path, seed: int = 0) -> TinyPaths:
    paths = TinyPaths.below(folder)
    build_tiny_world(paths, seed)
    return paths


def question_ids(path: Path) -> set[str]:
    return {str(row["extra_info"]["question_id"]) for row in read_rows(path)}


def test_training_and_validation_files_are_usable_and_disjoint(world: TinyPaths) -> None:
    train, val = world.processed / "train.parquet", world.processed / "val.parquet"
    assert len(read_rows(train)) >= 300
    assert len(read_rows(val)) == 64
    assert [row_problem(row) for row in read_rows(train) + read_rows(val) if row_problem(row)] == []
    assert not question_ids(train) & question_ids(val)


def test_sft_shares_no_question_with_grpo(world: TinyPaths) -> None:
    sft = {str(record["prompt_id"]) for record in jsonl.read(world.sft / "train.jsonl")}
    for name in ("train", "val"):
        assert not sft & question_ids(world.processed / f"{name}.parquet")


def test_sft_teaches_rubrics_that_sum_to_ten(world: TinyPaths) -> None:
    for record in jsonl.read(world.sft / "train.jsonl"):
        rubric = record["messages"][2]["content"]
        assert format_rubric(parse_rubric(rubric)) == rubric
        assert sum(item.points for item in parse_rubric(rubric)) == 10.0


def test_every_question_has_six_answers_of_graded_quality(world: TinyPaths) -> None:
    for row in read_rows(world.processed / "train.parquet"):
        gold = row["extra_info"]["gold_scores"]
        assert sorted(gold) == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])


def test_all_gold_scores_are_useful(world: TinyPaths) -> None:
    assert analyze_cache(world.cache).signal_useful_pct == 100.0


def test_each_telling_sentence_satisfies_its_own_criterion_and_no_other() -> None:
    points = [point for aspect in ASPECTS for point in aspect.points]
    for asked in points:
        for said in points:
            expected = 1.0 if said is asked else 0.0
            assert satisfaction(asked.criterion, content_words(said.sentence)) == expected


def test_chatter_satisfies_nothing() -> None:
    criteria = [point.criterion for aspect in ASPECTS for point in aspect.points]
    for condition in CONDITIONS:
        words = content_words(" ".join(CHATTER).replace("{}", condition))
        met = [c for c in (*criteria, *GENERIC_CRITERIA) if satisfaction(c, words) > 0]
        assert met == []


def test_the_files_say_that_prompts_have_no_excerpts(world: TinyPaths) -> None:
    facts = read_facts(world.processed / "train.parquet")
    assert facts is not None and facts.use_contrastive is False


def test_the_same_seed_makes_the_same_questions(world: TinyPaths, tmp_path: Path) -> None:
    again, other = built(tmp_path / "tiny"), built(tmp_path / "other", seed=1)
    assert again.questions.read_bytes() == world.questions.read_bytes()
    assert other.questions.read_bytes() != world.questions.read_bytes()


def test_a_second_call_changes_nothing(world: TinyPaths) -> None:
    before = world.cache.stat().st_mtime_ns
    assert "up to date" in build_tiny_world(world)[0]
    assert world.cache.stat().st_mtime_ns == before


def test_a_damaged_file_is_made_again(tmp_path: Path) -> None:
    paths = built(tmp_path / "tiny")
    sound = paths.questions.read_bytes()
    paths.questions.write_bytes(sound[:1000])
    build_tiny_world(paths)
    assert paths.questions.read_bytes() == sound
