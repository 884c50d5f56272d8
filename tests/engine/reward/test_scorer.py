"""One scorer for the trainer, recorded rollouts and evaluations; no trainer is imported for it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.config.scoring import make_scorer
from engine.reward.formula import RewardSettings
from engine.reward.judge.offline import OfflineKeywordJudge
from engine.reward.scorer import (
    BlockingScorer,
    Blocklist,
    FunctionScorer,
    Rollout,
    RubricScorer,
    ScoredRollout,
    Scorer,
    append_record,
    split_of,
)
from engine.run.history.reward_records import Position, RewardRecord, ScoringError
from tests.engine.checks.project import Project

pytestmark = pytest.mark.long

GOLD = {
    "question_id": "q1",
    "question": "?",
    "answers": ["rest well", "run"],
    "gold_scores": [1, 0],
}
RUBRIC = "Points: 10, Item: Advises rest."
ROW: dict[str, Any] = {"data_source": "tiny", "reward_model": {}, "extra_info": GOLD}


def scored(scorer: Scorer, *texts: str, row: dict[str, Any] = ROW) -> list[ScoredRollout]:
    async def score() -> list[ScoredRollout]:
        try:
            return await scorer.score_all([Rollout.of_row(text, row) for text in texts])
        finally:
            await scorer.aclose()

    return asyncio.run(score())


def test_a_rubric_gets_the_reward_of_the_formula() -> None:
    (result,) = scored(RubricScorer(OfflineKeywordJudge(), RewardSettings()), RUBRIC)
    assert result.record.reward == pytest.approx(1.3)
    assert result.record.rubric == RUBRIC and result.record.judge_scores == (1.0, 0.0)
    assert result.numbers["n_chars"] == len(RUBRIC) and result.numbers["alignment"] == 1.0


def test_a_row_without_gold_has_an_error_and_no_reward() -> None:
    scorer = RubricScorer(OfflineKeywordJudge(), RewardSettings())
    (result,) = scored(scorer, RUBRIC, row={"data_source": "tiny"})
    assert result.record.reward is None
    assert result.record.error is not None and result.record.error.kind == "data"


def test_a_function_is_called_in_order_and_its_resources_are_freed() -> None:
    calls: list[str] = []
    ended: list[bool] = []

    def length(solution_str: str, **_: Any) -> dict[str, float]:
        calls.append(solution_str)
        return {"score": len(solution_str), "words": 1}

    results = scored(FunctionScorer(length, lambda: ended.append(True)), "one", "three")
    assert [result.record.reward for result in results] == [3.0, 5.0]
    assert results[0].record.parts == {"words": 1.0} and results[0].record.answer == "one"
    assert (calls, ended) == (["one", "three"], [True])


@pytest.mark.row("H24")
@pytest.mark.parametrize(("reward", "expected"), [(None, 1.3), (0.0, 0.0)])
def test_a_blocked_text_is_recorded_in_any_case_and_may_cost_the_reward(
    reward: float | None, expected: float
) -> None:
    blocklist = Blocklist(("straße", "ADVISES"), reward)
    scorer = BlockingScorer(RubricScorer(OfflineKeywordJudge(), RewardSettings()), blocklist)
    (result,) = scored(scorer, RUBRIC)
    assert result.record.reward == result.record.reward == pytest.approx(expected)
    assert result.record.blocked == ("ADVISES",) and result.numbers["blocked"] == 1.0


def test_a_response_that_cannot_be_scored_gets_no_reward_from_the_blocklist() -> None:
    unscored = RubricScorer(OfflineKeywordJudge(), RewardSettings())
    scorer = BlockingScorer(unscored, Blocklist(("rest",), 0.0))
    (result,) = scored(scorer, RUBRIC, row={"data_source": "tiny"})
    assert result.record.reward is None and result.record.blocked == ("rest",)


def test_a_config_names_its_scorer(project: Project) -> None:
    (result,) = scored(make_scorer(project.config(), {}), RUBRIC)
    assert result.record.reward == pytest.approx(1.3)
    (project.root / "own.py").write_text("def compute_score(**_):\n    return 0.25\n")
    own = project.config("grpo", "reward.custom_reward_function.path=own.py")
    (result,) = scored(make_scorer(own, {}), "any")
    assert result.record.reward == 0.25


def test_a_config_with_a_blocklist_scores_with_it_outside_of_the_trainer(project: Project) -> None:
    config = project.config("grpo", "grubrics.blocklist=[rest]", "grubrics.blocked_reward=-1")
    (result,) = scored(make_scorer(config, {}), RUBRIC)
    assert result.record.reward == -1.0


def test_a_scorer_without_credentials_is_refused(project: Project) -> None:
    with pytest.raises(UsageError, match="OPENAI_API_KEY is not set"):
        make_scorer(project.config("grpo", "judge.provider=openai"), {})


def test_scoring_imports_no_trainer() -> None:
    code = (
        "import sys, engine.config.scoring, engine.reward.scorer\n"
        "print([name for name in ('torch', 'verl', 'ray') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("split", "step", "expected"),
    [("train", 3, "train"), (None, 3, "train"), ("holdout", 3, "val"), ("train", 0, "val")],
)
def test_held_out_rows_and_step_0_are_validation(
    split: str | None, step: int, expected: str
) -> None:
    assert split_of({"split": split}, step) == expected


def test_a_record_has_version_position_and_result(tmp_path: Path) -> None:
    path, key = tmp_path / "reward.jsonl", "sk-abcdefghijklmnopqrstuvwxa1b2"
    record = RewardRecord(rubric="", error=ScoringError("auth", f"refused {key}"))
    append_record(path, Position(split="val", step=2, group="g", rollout=1), record)
    (line,) = jsonl.read(path)
    assert list(line)[:7] == ["v", "t", "split", "step", "group", "rollout", "pid"]
    assert (line["v"], line["split"], line["step"], line["group"], line["rollout"]) == (
        1,
        "val",
        2,
        "g",
        1,
    )
    assert key not in line["error"]["message"]
