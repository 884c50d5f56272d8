"""verl's dump joined with the reward records."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.base.parquet import pa, pq
from engine.base.typed import to_json
from engine.run.conversation import Call, Conversation, Turn
from engine.run.history.reward_records import RewardRecords
from engine.run.history.rollout_query import Filter, numbers_of
from engine.run.history.rollouts import Rollout, RolloutStore, StepRollouts, require_step
from engine.run.run import Run
from tests.engine.run.history.rollout_files import (
    PARTS,
    record,
    row,
    write_dump,
    write_manifest,
    write_records,
    write_step,
)

Groups = dict[str, list[float | None]]

scores = st.one_of(st.none(), st.floats(-2, 2).map(lambda value: round(value, 3)))
names = st.text("ab_-0", min_size=1, max_size=6)
steps_of_groups = st.dictionaries(
    names, st.lists(scores, min_size=1, max_size=5), min_size=1, max_size=4
)


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    return tmp_path / "run" / "attempt_1"


def load(attempt: Path, step: int = 1) -> StepRollouts:
    return RolloutStore(attempt.parent).load("train", step)


def answers(read: StepRollouts, group: str) -> dict[int, Rollout]:
    result = next(one for one in read.groups if one.id == group)
    return {answer.number: answer for answer in result.rollouts}


@given(steps_of_groups)
def test_joins_never_mix_groups_and_lose_no_rollout(
    tmp_path_factory: pytest.TempPathFactory, groups: Groups
) -> None:
    attempt = tmp_path_factory.mktemp("run") / "attempt_1"
    write_step(attempt, 1, groups)
    read = load(attempt)
    assert {group.id for group in read.groups} == set(groups)
    for group in read.groups:
        assert [answer.score for answer in group.rollouts] == groups[group.id]
        assert group.question_id == f"question of {group.id}"
        for answer in group.rollouts:
            assert answer.text() == f"answer {answer.number} of {group.id}"


@given(steps_of_groups)
def test_advantages_sum_to_zero_in_every_group_that_was_dumped(
    tmp_path_factory: pytest.TempPathFactory, groups: Groups
) -> None:
    attempt = tmp_path_factory.mktemp("run") / "attempt_1"
    write_step(attempt, 1, groups)
    for group in load(attempt).groups:
        given_out = [
            rollout.advantage for rollout in group.rollouts if rollout.advantage is not None
        ]
        if len(given_out) > 1:
            assert math.fsum(given_out) == pytest.approx(0, abs=1e-6)
            assert group.is_flat == (not any(given_out))


def test_parts_judge_and_gold_come_from_the_record_of_the_same_rollout(attempt: Path) -> None:
    write_dump(attempt, 1, [row("g", 0, 0.8), row("g", 1, 0.2)])
    other = {**PARTS, "alignment": -0.3}
    write_records(attempt, [record("g", 1, 0.2, 1, parts=other), record("g", 0, 0.8, 1)])
    result = answers(load(attempt), "g")
    assert result[0].parts == PARTS
    assert result[1].parts == other
    assert result[0].judge == (0.9, 0.1)
    assert result[0].gold == (1.0, 0.0)


def test_the_score_that_verl_trained_on_counts(attempt: Path) -> None:
    write_dump(attempt, 1, [row("g", 0, 0.8000001)])
    write_records(attempt, [record("g", 0, 0.8, 1)])
    assert answers(load(attempt), "g")[0].score == 0.8000001


def test_a_failed_answer_is_shown_with_its_error_and_without_an_advantage(attempt: Path) -> None:
    write_step(attempt, 1, {"g": [0.5, None, 0.1]})
    failed = answers(load(attempt), "g")[1]
    assert failed.failed
    assert failed.error is not None
    assert failed.error.kind == "timeout"
    assert failed.advantage is None
    assert failed.text() == "answer 1 of g"


def test_a_group_that_failed_as_a_whole_is_still_there(attempt: Path) -> None:
    write_step(attempt, 1, {"g": [0.5, 0.1], "lost": [None, None]})
    assert [group.id for group in load(attempt).groups] == ["g", "lost"]


def test_an_answer_that_was_left_out_of_the_step_has_no_advantage(attempt: Path) -> None:
    write_dump(attempt, 1, [row("g", 0, 0.5), row("g", 1, 0.1)])
    write_records(attempt, [record("g", n, 0.5, 1) for n in range(3)])
    left_out = answers(load(attempt), "g")[2]
    assert (left_out.trained, left_out.score, left_out.advantage) == (False, 0.5, None)
    assert load(attempt).groups[0].mean == pytest.approx(0.3)


def test_padding_is_not_data(attempt: Path) -> None:
    write_dump(attempt, 1, [row("g", 0, 0.5), row("padf00", 0, 0.0)])
    assert [group.id for group in load(attempt).groups] == ["g"]


def test_of_several_outputs_the_last_one_is_scored(attempt: Path) -> None:
    write_dump(attempt, 1, [row("g", 0, 0.0, output=1), row("g", 0, 9.0)])
    answer = answers(load(attempt), "g")[0]
    assert answer.score == 0.0
    assert answer.text() == "answer 0 of g\n\nanswer 0 of g"


def test_a_step_that_is_only_recorded_can_be_read_already(attempt: Path) -> None:
    write_records(attempt, [record("g", 0, 0.5, 1), record("g", 1, None, 1)])
    read = load(attempt)
    assert not read.dumped
    assert read.groups[0].prompt() == ""
    assert [answer.advantage for answer in read.groups[0].rollouts] == [None, None]


def test_a_record_from_a_few_steps_before_is_found(attempt: Path) -> None:
    write_dump(attempt, 3, [row("g", 0, 0.5)])
    write_records(attempt, [record("g", 0, 0.5, 2)])
    assert answers(load(attempt, 3), "g")[0].parts == PARTS


def test_records_of_another_step_are_not_shown_in_this_one(attempt: Path) -> None:
    write_dump(attempt, 1, [row("g", 0, 0.5)])
    write_records(attempt, [record("g", 0, 0.5, 1), record("next", 0, 0.5, 1)])
    assert [group.id for group in load(attempt).groups] == ["g"]


def test_of_a_redone_step_the_later_attempt_counts(tmp_path: Path) -> None:
    run = tmp_path / "run"
    for number, score in ((1, 0.1), (2, 0.2), (10, 0.3)):
        write_step(run / f"attempt_{number}", 5, {"g": [score]})
    write_step(run / "attempt_1", 6, {"g": [0.9]})
    store = RolloutStore(run)
    assert store.steps("train") == (5, 6)
    assert store.load("train", 5).attempt == 10
    assert store.load("train", 5).groups[0].mean == 0.3
    assert store.load("train", 6).attempt == 1


def test_validation_has_its_own_steps_and_no_advantages(attempt: Path) -> None:
    write_dump(attempt, 4, [row("v", 0, 0.5, **PARTS), row("v", 1, 0.1)], to="validation")
    store = RolloutStore(attempt.parent)
    assert (store.steps("train"), store.steps("val")) == ((), (4,))
    group = store.load("val", 4).groups[0]
    assert [answer.advantage for answer in group.rollouts] == [None, None]
    assert group.rollouts[0].parts == PARTS


def test_an_external_folder_of_dumps_is_read_by_its_scores(tmp_path: Path) -> None:
    write_dump(tmp_path, 1, [row("g", 0, 0.5), row("g", 1, 0.1)])
    for folder in (tmp_path, tmp_path / "rollouts"):
        group = RolloutStore(folder).load("train", 1).groups[0]
        assert group.mean == pytest.approx(0.3)
        assert group.rollouts[0].judge == ()


def test_rows_without_uid_are_grouped_by_their_prompt(tmp_path: Path) -> None:
    rows = [
        {"input": prompt, "output": "x", "score": score}
        for prompt, score in (("a", 1.0), ("b", 2.0), ("a", 3.0))
    ]
    write_dump(tmp_path, 1, rows)
    read = RolloutStore(tmp_path).load("train", 1)
    assert [group.scores for group in read.groups] == [(1.0, 3.0), (2.0,)]


def test_a_prompt_is_followed_across_steps_and_attempts(tmp_path: Path) -> None:
    run = tmp_path / "run"
    asked: dict[str, Any] = {"input": 'Say "ä"\n'}
    for number, step, score in ((1, 1, 0.1), (1, 2, 0.2), (2, 2, 0.6)):
        rows = [row(f"g{step}", n, score + n, **asked) for n in range(2)]
        write_dump(run / f"attempt_{number}", step, [*rows, row("other", 0, 9.0)])
    store = RolloutStore(run)
    prompt = store.load("train", 2).groups[0].prompt()
    result = [visit for _, visits in store.visits(prompt, "train") for visit in visits]
    assert [(visit.step, visit.group, visit.scores) for visit in result] == [
        (1, "g1", (0.1, 1.1)),
        (2, "g2", (0.6, 1.6)),
    ]
    assert result[1].best == 1.6


def test_following_stops_when_it_is_cancelled(attempt: Path) -> None:
    write_step(attempt, 1, {"g": [0.5]})
    assert list(RolloutStore(attempt.parent).visits("prompt of g", "train", lambda: True)) == []


def test_only_torn_and_unknown_lines_are_skipped(attempt: Path) -> None:
    write_step(attempt, 1, {"g": [0.5, 0.1]})
    for path in (attempt / "reward.jsonl", attempt / "rollouts" / "1.jsonl"):
        good = path.read_bytes()
        path.write_bytes(b"\xff\xfe\n[1]\n" + good + b'{"input": "torn')
    assert [answer.score for answer in load(attempt).groups[0].rollouts] == [0.5, 0.1]


@given(st.binary(max_size=200))
def test_any_bytes_are_read(tmp_path_factory: pytest.TempPathFactory, noise: bytes) -> None:
    attempt = tmp_path_factory.mktemp("run") / "attempt_1"
    write_step(attempt, 1, {"g": [0.5]})
    for path in (attempt / "reward.jsonl", attempt / "rollouts" / "1.jsonl"):
        path.write_bytes(noise + b"\n" + path.read_bytes())
    assert any(group.id == "g" for group in load(attempt).groups)


def test_fields_of_a_wrong_kind_are_missing_ones(attempt: Path) -> None:
    write_dump(attempt, 1, [{"input": 3, "output": None, "score": "high", "uid": ["g"]}])
    write_records(attempt, [record("g", 0, 0.5, 1, parts=[1], judge_scores="x", error=3)])
    assert all(answer.score is None for answer in load(attempt).groups[0].rollouts)


def test_the_index_of_a_growing_file_reads_only_what_is_new(attempt: Path) -> None:
    write_records(attempt, [record("g", 0, 0.5, 1)])
    records = RewardRecords(attempt / "reward.jsonl")
    records.poll()
    write_records(attempt, [record("g", 1, 0.6, 1), record("h", 0, 0.7, 2)])
    records.poll()
    assert records.steps("train") == {1, 2}
    assert set(records.at("train", 1)) == {("g", 0), ("g", 1)}


def test_a_rewritten_file_is_read_again(attempt: Path) -> None:
    write_records(attempt, [record("g", n, 0.5, 1) for n in range(3)])
    records = RewardRecords(attempt / "reward.jsonl")
    records.poll()
    line = json.dumps({**record("new", 0, 0.5, 7), "later": True, "v": "x"})
    (attempt / "reward.jsonl").write_text(line + "\n")
    records.poll()
    assert records.steps("train") == {7}


def test_the_weights_of_the_reward_come_from_the_manifest(tmp_path: Path) -> None:
    assert RolloutStore(tmp_path / "none").weights is None
    write_manifest(
        tmp_path,
        reward_config__lambda_len=0.1,
        reward_config__lambda_info=0.3,
        reward_config__lambda_defense=0.2,
    )
    assert RolloutStore(tmp_path).weights == {
        "alignment": 1.0,
        "length_penalty": -0.1,
        "info_value": 0.3,
        "defense_penalty": -0.2,
    }


def test_a_step_that_is_not_there_is_answered_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="step 9 has no rollouts; the nearest is 5"):
        require_step((1, 5), 9, tmp_path)
    with pytest.raises(UsageError, match="no rollouts"):
        require_step((), None, tmp_path)
    assert require_step((1, 5), None, tmp_path) == 5


def test_supervised_training_has_no_rollouts_and_says_so(tmp_path: Path) -> None:
    jsonl.write_json(tmp_path / "manifest.json", {"v": 1, "kind": "sft"})
    with pytest.raises(UsageError, match="no rollouts: SFT"):
        require_step((), None, tmp_path)


def test_an_own_function_s_numbers_and_the_right_answer_are_shown(attempt: Path) -> None:
    own = record("a", 0, 1.0, 1) | {"answer": "#### 4", "parts": {"acc": 1.0}, "ground_truth": "4"}
    del own["rubric"]
    write_records(attempt, [own])
    left_out = answers(load(attempt), "a")[0]
    assert (left_out.parts, left_out.text(), left_out.ground_truth()) == (
        {"acc": 1.0}, "#### 4", "4",
    )  # fmt: skip
    write_dump(attempt, 1, [row("a", 0, 1.0) | {"gts": "four"}])
    dumped = answers(load(attempt), "a")[0]
    assert (dumped.parts, dumped.ground_truth()) == ({"acc": 1.0}, "four")


def test_a_judged_rollout_has_the_numbers_of_its_calls_beside_the_components(attempt: Path) -> None:
    turns, calls = (Turn("call", 5, trained=True),), (Call(1, "price", "{}", "failed"),)
    talk = to_json(Conversation(turns=turns, calls=calls, end="answer"))
    write_records(attempt, [record("a", 0, 1.0, 1, conversation=talk)])
    counts = {"turns": 1.0, "calls": 1.0, "calls_failed": 1.0}
    assert answers(load(attempt), "a")[0].parts == {**PARTS, **counts}


def test_the_numbers_that_an_external_reward_returned_are_fields(tmp_path: Path) -> None:
    for n, right in enumerate((True, False)):
        made = row("g", n, float(right), acc=right, pred="72", format_reward=0.5, request_id=7)
        write_dump(tmp_path, 1, [made], to=".")
    [group] = RolloutStore(tmp_path).load("train", 1).groups
    assert [rollout.parts for rollout in group.rollouts] == [
        {"acc": 1.0, "format_reward": 0.5},
        {"acc": 0.0, "format_reward": 0.5},
    ]
    only = Filter.parse("acc<1", numbers_of([group]))
    assert [rollout.number for rollout in group.rollouts if only.keeps(rollout, group)] == [1]


def write_completions(folder: Path, step: int) -> None:
    """What TRL logs: one reward function gave the last response no reward."""
    columns = {
        "step": [str(step)] * 4,
        "prompt": ["2 + 2?", "2 + 2?", "3 + 3?", "3 + 3?"],
        "completion": ["4", "5", "6", "7"],
        "is_right": [1.0, 0.0, 1.0, None],
        "is_short": [0.5] * 4,
        "advantage": [0.7, -0.7, 0.9, -0.9],
    }
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder / f"completions_{step:05}.parquet")


@pytest.mark.parametrize("named", ["completions", "."])
def test_completions_that_trl_logged_are_rollouts(tmp_path: Path, named: str) -> None:
    for step in (5, 10):
        write_completions(tmp_path / "completions", step)
    store = RolloutStore(tmp_path / named)
    assert store.steps("train") == (5, 10)
    read = store.load("train", 10)
    first, second = read.groups
    assert (first.prompt(), first.mean, second.prompt()) == ("2 + 2?", 1.0, "3 + 3?")
    answer, bare = second.rollouts
    assert (answer.text(), answer.score, answer.advantage) == ("6", 1.5, 0.9)
    assert (answer.parts, bare.parts) == ({"is_right": 1.0, "is_short": 0.5}, {"is_short": 0.5})
    assert "logged" in read.formula and "5" in list(store.texts("train", 5))
    assert [[visit.mean for visit in visits] for _, visits in store.visits("3 + 3?", "train")] == [
        [1.0],
        [1.0],
    ]


@pytest.mark.parametrize("argv", [["--output_dir", "out"], ["--output_dir=out"]])
def test_a_run_of_trl_has_the_completions_of_its_output_folder(
    tmp_path: Path, argv: list[str]
) -> None:
    write_completions(tmp_path / "out/completions", 5)
    write_completions(tmp_path / "out/completions", 2)
    os.utime(tmp_path / "out/completions/completions_00002.parquet", (50.0, 50.0))
    run = Run(tmp_path / "run")
    manifest = {"v": 1, "kind": "command", "cwd": str(tmp_path), "created": 100.0}
    attempts = [{"number": 1, "started": 100.0}]
    run.attempt(1).path.mkdir(parents=True)
    jsonl.write_json(
        run.manifest_file, {**manifest, "argv": ["train.py", *argv], "attempts": attempts}
    )
    assert RolloutStore(run.path).steps("train") == (5,)


def test_a_completions_file_that_is_being_written_has_no_rows(tmp_path: Path) -> None:
    (tmp_path / "completions_00005.parquet").write_bytes(b"PAR1")
    assert RolloutStore(tmp_path).load("train", 5).groups == ()
