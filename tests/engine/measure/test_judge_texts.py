"""The baseline ``judge``: what its model writes, what it costs, and what is asked again."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.measure.evaluate import Evaluation, evaluate, summarize
from tests.e2e.moody_judge import Call, MoodyJudge, honest, moody_judge, refusal
from tests.engine.measure.evaluations import RUBRIC, make_data, make_evaluation
from tests.engine.reward.judge.server import Reply

pytestmark = pytest.mark.long

ENV = {"OPENAI_API_KEY": "sk-test-0123456789abcdef"}


def asks_for_scores(call: Call) -> bool:
    return "--- Rubric ---" in call.request["messages"][-1]["content"]


def writing(call: Call) -> Reply:
    """Grades honestly, and writes the golden rubric."""
    content = honest(call).content if asks_for_scores(call) else RUBRIC
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    head = {"id": "c", "object": "chat.completion", "created": 0, "model": "judge"}
    return Reply(body={**head, "choices": [choice], "usage": usage}, delay_s=0.05)


def refusing_b(call: Call) -> Reply:
    """Does not write a rubric for item b."""
    is_refused = not asks_for_scores(call) and "(b)" in call.request["messages"][-1]["content"]
    return refusal(400, "content_filter") if is_refused else writing(call)


def evaluation_of(
    folder: Path, server: MoodyJudge, *overrides: str, samples: int = 1
) -> Evaluation:
    data = make_data(folder / "val.parquet", ["a", "b"])
    at = ("judge.provider=openai", f"judge.base_url={server.url}/v1")
    return make_evaluation(data, "judge", (*at, *overrides), samples)


def writes(server: MoodyJudge) -> int:
    return sum("--- Rubric ---" not in r["messages"][-1]["content"] for r in server.requests)


def test_the_judges_model_answers_the_same_prompt_and_is_scored(tmp_path: Path) -> None:
    with moody_judge(writing) as server:
        evaluation = evaluation_of(tmp_path, server)
        evaluate(evaluation, ENV)
    assert [dict(message) for message in evaluation.items[0].messages] in [
        request["messages"] for request in server.requests
    ]
    [reward, *_] = summarize(evaluation, [])[0]
    assert reward.estimate is not None
    assert (reward.estimate.n, reward.unscored) == (2, 0)


def test_calls_tokens_and_cost_are_counted(tmp_path: Path) -> None:
    prices = ("judge.usd_per_million_in=1", "judge.usd_per_million_out=10")
    with moody_judge(writing) as server:
        evaluation = evaluation_of(tmp_path, server, *prices)
        evaluate(evaluation, ENV)
    use = evaluation.writing
    assert use is not None
    assert (use.answers, use.calls, use.tokens_in, use.tokens_out) == (2, 2, 200, 40)
    assert use.usd == pytest.approx(0.0006)


def test_the_calls_that_grade_are_counted_too(tmp_path: Path) -> None:
    prices = ("judge.usd_per_million_in=1", "judge.usd_per_million_out=10")
    with moody_judge(writing) as server:
        evaluation = evaluation_of(tmp_path, server, *prices)
        evaluate(evaluation, ENV)
        calls = len(server.requests) - writes(server)
    use = evaluation.grading
    assert use is not None
    assert (use.answers, use.calls) == (2, calls)
    assert (use.tokens_in, use.tokens_out) == (100 * calls, 20 * calls)
    assert use.usd == pytest.approx(calls * 0.0003)


def test_started_again_it_asks_only_for_what_failed(tmp_path: Path) -> None:
    with moody_judge(refusing_b) as server:
        evaluation = evaluation_of(tmp_path, server)
        evaluate(evaluation, ENV)
        [reward, *_] = summarize(evaluation, [])[0]
        assert reward.unscored == 1
        assert "content_filter" in (reward.why_unscored or "")
        server.mood = writing
        before = writes(server)
        evaluate(evaluation, ENV)
        assert writes(server) == before + 1
        asked = len(server.requests)
        evaluate(evaluation, ENV)
        assert len(server.requests) == asked
    assert summarize(evaluation, [])[0][0].unscored == 0


def test_several_samples_are_written_one_by_one(tmp_path: Path) -> None:
    with moody_judge(writing) as server:
        evaluation = evaluation_of(tmp_path, server, samples=3)
        evaluate(evaluation, ENV)
        assert writes(server) == 6


def test_writing_and_grading_together_keep_the_limit_of_calls(tmp_path: Path) -> None:
    with moody_judge(writing) as server:
        evaluation = evaluation_of(tmp_path, server, "judge.max_concurrent=2", samples=4)
        evaluate(evaluation, ENV)
        assert server.busiest <= 2


def test_the_offline_judge_has_no_model_to_write_with(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"judge\.provider=offline has no model"):
        make_evaluation(make_data(tmp_path / "val.parquet", ["a"]), "judge")
