"""From rollout records to the metrics of a step."""

from __future__ import annotations

from typing import Any

from engine.base.typed import convert_record, to_json
from engine.run.conversation import Call, Conversation, Outcome, Turn
from engine.run.history.reward_records import RewardRecord
from engine.run.history.train_log import reward_metrics


def made(fields: dict[str, Any]) -> RewardRecord:
    record = convert_record({"group": "g", "reward": 0.5, **fields}, RewardRecord)
    assert record is not None
    return record


def record(**fields: Any) -> RewardRecord:
    return made({"judge_latency_s": 1.0, "attempts": 1, **fields})


def test_median_and_95th_percentile_of_the_calls_that_helped() -> None:
    values = reward_metrics([record(judge_latency_s=float(n)) for n in range(1, 21)])
    assert values["judge_api_latency_p50_s"] == 10.0
    assert values["judge_api_latency_p95_s"] == 19.0


def test_timeouts_and_unreadable_replies_count_even_when_a_retry_helped() -> None:
    values = reward_metrics(
        [
            record(failed_attempts=["timeout", "parse", "timeout"], attempts=4),
            record(failed_attempts=[], attempts=1),
        ]
    )
    assert (values["judge/timeouts"], values["judge/parse_failures"]) == (2.0, 1.0)
    assert (values["judge/calls"], values["judge/errors"]) == (5.0, 0.0)


def test_records_without_attempts_count_the_error_they_ended_with() -> None:
    values = reward_metrics([record(error={"kind": "timeout", "message": "x"}, reward=None)])
    assert (values["judge/timeouts"], values["judge/errors"]) == (1.0, 1.0)


def test_tokens_add_up_where_replies_say_them_and_are_absent_elsewhere() -> None:
    counted = record(tokens={"input": 100, "output": 9})
    values = reward_metrics([counted, counted, record(tokens=None), record(tokens="many")])
    assert (values["judge/tokens_in"], values["judge/tokens_out"]) == (200.0, 18.0)
    assert "judge/tokens_in" not in reward_metrics([record()])


def test_records_of_the_wrong_shape_do_no_harm() -> None:
    values = reward_metrics([record(failed_attempts={"a": 1}, error=5, tokens=[1])])
    assert values["judge/timeouts"] == 0.0


def own(**fields: Any) -> RewardRecord:
    return made({"answer": "4", "parts": {"acc": 1.0, "fmt": 0.0}, **fields})


def test_an_own_function_has_series_of_its_numbers_and_none_of_a_judge() -> None:
    failed = {"reward": None, "parts": None}
    values = reward_metrics(
        [
            own(),
            own(parts={"acc": 0.0, "mean": 9.0}),
            own(error={"kind": "reward_timeout", "message": "x"}, **failed),
            own(error={"kind": "other", "message": "x"}, **failed),
        ]
    )
    assert (values["reward/acc"], values["reward/fmt"]) == (0.5, 0.0)
    assert (values["reward/timeouts"], values["reward/errors"]) == (1.0, 2.0)
    assert (values["reward/mean"], values["reward/failed_share"]) == (0.5, 0.5)
    assert not [name for name in values if "judge" in name or "semaphore" in name]


def test_the_share_of_blocked_responses_is_a_series_of_runs_with_a_blocklist() -> None:
    records = [record(blocked=texts) for texts in (["a", "b"], [], [], [])]
    assert reward_metrics(records)["reward/blocked"] == 0.25
    assert "reward/blocked" not in reward_metrics([record()])


def talked(*outcomes: Outcome) -> RewardRecord:
    calls = tuple(Call(1, "price", "{}", outcome) for outcome in outcomes)
    turns = (Turn("call", 5, trained=True), Turn("reply", 3, trained=False)) * bool(calls)
    answer = Turn("7", 1, trained=True)
    return own(
        conversation=to_json(Conversation(turns=(*turns, answer), calls=calls, end="answer"))
    )


def test_turns_and_calls_are_means_and_outcomes_are_shares_of_the_calls() -> None:
    values = reward_metrics([talked("ok"), talked("ok", "failed"), talked()])
    assert (values["tools/turns"], values["tools/calls"]) == (5 / 3, 1.0)
    assert (values["tools/ok"], values["tools/failed"]) == (2 / 3, 1 / 3)
    assert values["tools/malformed"] == 0.0


def test_a_step_without_calls_has_no_shares_and_one_without_tools_no_metrics() -> None:
    assert "tools/ok" not in reward_metrics([talked()])
    assert not [name for name in reward_metrics([own()]) if name.startswith("tools/")]
