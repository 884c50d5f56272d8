"""A step's recorded rollouts scored again say whether the reward is at fault."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from engine.base import files, jsonl
from engine.base.errors import UsageError
from engine.config.frozen import pinned_config
from engine.data.contract import read_rows
from engine.launch.launcher import manifest, plan
from engine.launch.rescore import Replay, recorded, replay
from engine.reward.formula import RewardSettings
from engine.reward.judge.offline import OfflineKeywordJudge
from engine.reward.scoring import RewardItem, score_rollout
from engine.run.run import Run
from engine.run.trust import vouch
from tests.engine.checks.project import Project, make_project

pytestmark = pytest.mark.long

RUBRIC = "Points: 10, Item: Mentions answer."
FAILED = {"reward": None, "parts": None, "error": {"kind": "timeout", "message": "too slow"}}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    return make_project(tmp_path)


async def scored(project: Project, question: str, step: int = 1, **other: Any) -> dict[str, Any]:
    """What a run records of one rollout, made with the reward itself."""
    rows = read_rows(project.root / "data/train.parquet")
    row = next(one for one in rows if one["extra_info"]["question_id"] == question)
    item = RewardItem.from_extra_info(row["extra_info"])
    result = await score_rollout(RUBRIC, item, OfflineKeywordJudge(), RewardSettings())
    place = {"v": 1, "t": 1.0, "split": "train", "step": step, "group": question, "rollout": 0}
    return {**result.to_json(), **place, **other}


def launched(project: Project, *records: dict[str, Any], overrides: tuple[str, ...] = ()) -> Run:
    run = Run(project.root / "runs" / "unhealthy")
    run.attempt(1).path.mkdir(parents=True)
    contents = manifest(plan(project.config("grpo", *overrides), "other", project.root / "runs"))
    run.write_manifest(contents)
    files.write_atomic(run.config_file, pinned_config(contents.config))
    vouch(run)
    for record in records:
        jsonl.append(run.attempt(1).reward, record)
    return run


def again(run: Run, step: int | None = None) -> Replay:
    return replay(recorded(run, step), {})


class TestOutcomes:
    @pytest.fixture
    async def sound(self, project: Project) -> list[dict[str, Any]]:
        return [await scored(project, "q1"), await scored(project, "q2")]

    def test_the_same_rewards_clear_the_reward(self, project: Project, sound: list[Any]) -> None:
        result = again(launched(project, *sound))
        assert result.outcome == "same" and result.is_clean
        assert result.text.startswith("all 2 rewards equal the recorded ones")

    def test_a_reward_that_failed_and_now_succeeds_has_passed(
        self, project: Project, sound: list[Any]
    ) -> None:
        result = again(launched(project, {**sound[0], **FAILED}, sound[1]))
        assert result.outcome == "works now" and result.is_clean
        assert "1 of 2 failed in the run and work now" in result.text
        assert result.rollouts[0].failed_then == "timeout"

    def test_a_judge_that_answers_otherwise_is_named(
        self, project: Project, sound: list[Any]
    ) -> None:
        other = {"reward": 9.0, "judge_scores": [0.25] * len(sound[0]["judge_scores"])}
        result = again(launched(project, {**sound[0], **other}))
        assert not result.is_clean
        assert "1 of 1 rewards differ, by judge scores (1)" in result.text

    def test_gold_that_was_changed_since_is_named(self, project: Project, sound: list[Any]) -> None:
        gold = [0.5] * len(sound[0]["gold_scores"])
        result = again(launched(project, {**sound[0], "reward": 9.0, "gold_scores": gold}))
        assert [rollout.moved for rollout in result.rollouts] == ["gold"]

    def test_a_changed_formula_is_named(self, project: Project, sound: list[Any]) -> None:
        result = again(launched(project, {**sound[0], "reward": 9.0}))
        assert [rollout.moved for rollout in result.rollouts] == ["formula"]


class TestOwnFunction:
    """A reward function of the config's own is called as the run called it."""

    @pytest.fixture
    def run(self, project: Project) -> Run:
        (project.root / "own.py").write_text(
            "def score(data_source, solution_str, ground_truth, extra_info):\n"
            "    if 'bad' in solution_str:\n"
            "        raise KeyError('unit')\n"
            "    return {'score': len(solution_str) + 0.5}\n"
        )
        keys = "reward.custom_reward_function"
        own = (f"{keys}.path=own.py", f"{keys}.name=score")
        base = {"v": 1, "t": 1.0, "split": "train", "question_id": "q1", "gold_scores": []}
        failed = {"reward": None, "error": {"kind": "other", "message": "KeyError: 'unit'"}}
        return launched(
            project,
            {**base, "step": 1, "group": "a", "rollout": 0, "rubric": "good", "reward": 4.5},
            {**base, "step": 2, "group": "a", "rollout": 0, "rubric": "good", "reward": 4.5},
            {**base, "step": 2, "group": "a", "rollout": 1, "rubric": "bad", **failed},
            overrides=own,
        )

    def test_it_fails_again_on_the_step_that_failed_first(self, run: Run) -> None:
        plan = recorded(run)
        assert (plan.step, plan.judge) == (2, None)
        result = replay(plan, {})
        assert (result.outcome, result.is_clean) == ("fails again", False)
        assert [rollout.outcome for rollout in result.rollouts] == ["same", "fails again"]
        assert result.rollouts[1].failed == "other: KeyError: 'unit' (own.py:3)"

    def test_another_step_can_be_requested(self, run: Run) -> None:
        assert recorded(run, step=1).edited == ()
        assert again(run, step=1).outcome == "same"

    def test_a_function_that_was_changed_is_named(self, run: Run) -> None:
        Path("own.py").write_text("def score(**given):\n    return 1.0\n")
        assert again(run, step=1).rollouts[0].moved == "reward function"
        assert recorded(run, step=1).edited == ("own.py",)

    def test_a_missing_reward_function_is_one_line(self, run: Run) -> None:
        Path("own.py").write_text("other = 1\n")
        with pytest.raises(UsageError, match="has no function 'score'"):
            again(run)
        Path("own.py").write_text("import no_such_package\n")
        with pytest.raises(UsageError, match=r"own\.py:1: ModuleNotFoundError"):
            again(run)
        Path("own.py").unlink()
        with pytest.raises(UsageError, match=r"own\.py does not exist"):
            again(run)


async def test_rollouts_whose_question_is_gone_are_left_out(project: Project) -> None:
    gone = {**await scored(project, "q1"), "question_id": "nobody", "group": "n"}
    plan = recorded(launched(project, await scored(project, "q1"), gone))
    assert (len(plan.rollouts), plan.gone) == (1, 1)


async def test_a_step_without_remaining_questions_cannot_be_rescored(project: Project) -> None:
    gone = {**await scored(project, "q1"), "question_id": "nobody"}
    with pytest.raises(UsageError, match=r"contains none of the questions of step 1"):
        recorded(launched(project, gone))


async def test_a_step_without_records_is_refused_with_the_nearest(project: Project) -> None:
    run = launched(project, await scored(project, "q1", step=3))
    with pytest.raises(UsageError, match=r"step 9 has no recorded rewards\. Nearest step: 3"):
        recorded(run, 9)


async def test_a_judge_without_credentials_is_one_line(project: Project) -> None:
    asked = ("judge.provider=openai",)
    plan = recorded(launched(project, await scored(project, "q1"), overrides=asked))
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        await asyncio.to_thread(replay, plan, {})


def test_a_run_without_records_has_nothing_to_score(project: Project) -> None:
    with pytest.raises(UsageError, match="no reward of a training step is recorded"):
        recorded(launched(project))
