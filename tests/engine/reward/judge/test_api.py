"""The API judge against a real server that misbehaves in every known way."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any

import pytest

from engine.base.errors import UsageError
from engine.reward.judge.api import Backoff, make_openai_judge
from engine.reward.judge.interface import JudgeResult
from engine.reward.judge.settings import JudgeSettings, make_judge
from engine.reward.judge.slots import LocalSlots
from engine.run.history.reward_records import Tokens
from tests.engine.reward.judge.server import GOOD, JudgeServer, Reply, judge_server

pytestmark = pytest.mark.long

QUICK = Backoff(first_s=0.01, growth=1, rate_limit_s=0.01, parse_s=0.01)
ENV = {"OPENAI_API_KEY": "k-1234567890abcd"}


def ask(server: JudgeServer, backoff: Backoff = QUICK, **changes: Any) -> JudgeResult:
    values = {"provider": "openai", "model": "judge", "base_url": f"{server.url}/v1", **changes}
    settings = JudgeSettings.model_validate(values)

    async def call() -> JudgeResult:
        judge = make_openai_judge(settings, LocalSlots(settings.max_concurrent), ENV, backoff)
        try:
            return await judge.evaluate_answers_batched(
                "Why?", ["good", "bad"], "Points: 1, Item: x"
            )
        finally:
            await judge.aclose()

    return asyncio.run(call())


def error(status: int, code: str = "", **headers: str) -> Reply:
    return Reply(status, body={"error": {"message": code, "code": code}}, headers=headers)


def test_scores_come_back_in_answer_order_with_timings() -> None:
    with judge_server() as server:
        result = ask(server)
    assert result.scores == (0.9, 0.1)
    assert result.error is None and result.attempts == 1
    assert result.latency_s is not None and result.latency_s > 0
    assert result.semaphore_wait_s is not None and result.semaphore_wait_s >= 0


def test_the_default_temperature_is_not_sent() -> None:
    with judge_server() as server:
        ask(server, max_tokens=77)
    request = server.requests[0]
    assert "temperature" not in request
    assert (request["model"], request["max_completion_tokens"]) == ("judge", 77)


def test_another_temperature_is_sent() -> None:
    with judge_server() as server:
        ask(server, temperature=0.5)
    assert server.requests[0]["temperature"] == 0.5


@pytest.mark.parametrize(
    "bad",
    [
        Reply(content="I would rather not."),
        Reply(content='{"evaluations": [{"answer_id": "a1", "total_score": 0.9}]}'),
        Reply(content=GOOD[:40]),
        Reply(content=None, finish_reason="length"),
        Reply(content=""),
        Reply(body={"id": "c", "object": "chat.completion", "choices": []}),
        Reply(body={"id": "c", "object": "chat.completion", "choices": [{}]}),
        Reply(body={"nothing": "known"}),
        Reply(raw=b'{"id": "c", "choi'),
        Reply(raw=b"<html>gateway</html>", content_type="text/html"),
        error(500),
        error(503),
        error(429),
        error(408),
    ],
)
def test_a_passing_fault_is_tried_again(bad: Reply) -> None:
    with judge_server(bad) as server:
        result = ask(server)
    assert result.scores == (0.9, 0.1)
    assert result.attempts == 2


@pytest.mark.parametrize(
    ("reply", "kind", "attempts"),
    [
        (Reply(content="no JSON"), "parse", 3),
        (Reply(content=None), "parse", 3),
        (error(500), "server", 3),
        (error(429), "rate_limit", 3),
        (error(401, "invalid_api_key"), "auth", 1),
        (error(403), "auth", 1),
        (error(404, "DeploymentNotFound"), "not_found", 1),
        (error(400, "content_filter"), "other", 1),
    ],
)
def test_a_lasting_fault_becomes_an_error_and_never_zeros(
    reply: Reply, kind: str, attempts: int
) -> None:
    with judge_server(every=reply) as server:
        result = ask(server, max_attempts=3)
    assert result.scores is None and result.latency_s is None
    assert result.error is not None and result.error.kind == kind
    assert result.attempts == len(server.requests) == attempts


def test_an_unknown_deployment_is_named() -> None:
    with judge_server(every=error(404, "DeploymentNotFound")) as server:
        result = ask(server, model="gpt-nowhere")
    assert result.error is not None
    assert "gpt-nowhere" in result.error.message and "DeploymentNotFound" in result.error.message


def test_a_reply_cut_by_the_token_limit_says_what_to_raise() -> None:
    with judge_server(every=Reply(content=None, finish_reason="length")) as server:
        result = ask(server, max_attempts=1)
    assert result.error is not None and "judge.max_tokens" in result.error.message


def test_a_hanging_server_times_out() -> None:
    with judge_server(every=Reply(delay_s=60.0)) as server:
        result = ask(server, timeout_s=0.1, max_attempts=2)
    assert result.error is not None and result.error.kind == "timeout"
    assert "judge.timeout_s" in result.error.message


def test_a_closed_port_is_a_connection_error() -> None:
    with socket.socket() as closed, judge_server() as server:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        result = ask(server, base_url=address, max_attempts=2)
    assert result.error is not None and result.error.kind == "connection"


def test_an_address_that_is_none_is_an_error_like_any_other() -> None:
    with judge_server() as server:
        result = ask(server, base_url="http://[broken/v1", max_attempts=2)
    assert result.scores is None and result.error is not None


def test_retry_after_replaces_the_long_wait_for_a_rate_limit() -> None:
    patient = Backoff(first_s=600, rate_limit_s=600, longest_s=600)
    with judge_server(error(429, "", **{"Retry-After": "0.01"})) as server:
        assert ask(server, patient).scores == (0.9, 0.1)


def test_waits_grow_and_are_longer_for_rate_limits() -> None:
    backoff = Backoff(first_s=1, growth=4, rate_limit_s=15, longest_s=90, jitter=0)
    assert [backoff.wait_s(n, "server", None) for n in (1, 2, 3, 9999)] == [1, 4, 16, 90]
    assert [backoff.wait_s(n, "parse", None) for n in (1, 3)] == [1, 1]
    assert [backoff.wait_s(n, "rate_limit", None) for n in (1, 2, 9)] == [15, 30, 90]
    assert backoff.wait_s(1, "rate_limit", 7.0) == 7.0


def test_parse_failures_are_logged_under_one_name(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), judge_server(Reply(content="no")) as server:
        ask(server)
    assert "judge: parse failure (attempt 1/4, retrying)" in caplog.text


def test_azure_is_asked_for_the_deployment_with_the_api_version() -> None:
    with judge_server() as server:
        env = {"AZURE_OPENAI_ENDPOINT": server.url, "AZURE_OPENAI_API_KEY": "k-1234567890abcd"}

        async def call() -> JudgeResult:
            judge = make_judge(JudgeSettings(provider="azure", model="my-judge"), None, env)
            try:
                return await judge.evaluate_answers_batched("Why?", ["a", "b"], "r")
            finally:
                await judge.aclose()

        assert asyncio.run(call()).scores == (0.9, 0.1)
    assert server.paths == [
        "/openai/deployments/my-judge/chat/completions?api-version=2024-12-01-preview"
    ]


def test_missing_credentials_are_a_usage_error() -> None:
    with pytest.raises(UsageError, match="AZURE_OPENAI_ENDPOINT"):
        make_judge(JudgeSettings(provider="azure"), None, {})


def test_one_process_keeps_to_the_limit() -> None:
    with judge_server(every=Reply(delay_s=0.05, crowd=2)) as server:
        settings = JudgeSettings(provider="openai", base_url=f"{server.url}/v1", max_concurrent=2)

        async def calls() -> list[JudgeResult]:
            judge = make_judge(settings, None, ENV)
            one = judge.evaluate_answers_batched
            results = await asyncio.gather(*(one("?", ["a", "b"], "r") for _ in range(8)))
            await judge.aclose()
            return list(results)

        results = asyncio.run(calls())
    assert server.busiest == 2
    assert max(result.semaphore_wait_s or 0 for result in results) > 0.05


def test_a_key_that_the_server_quotes_is_masked() -> None:
    key = ENV["OPENAI_API_KEY"]
    with judge_server(every=error(401, f"Incorrect API key provided: {key}")) as server:
        result = ask(server)
    assert result.error is not None and "Incorrect API key" in result.error.message
    assert key not in result.error.message


def counted(content: str, sent: int, received: int) -> Reply:
    choice = {"index": 0, "finish_reason": "stop", "message": {"content": content}}
    usage = {"prompt_tokens": sent, "completion_tokens": received}
    return Reply(body={"choices": [choice], "usage": usage})


def test_failed_attempts_and_tokens_are_counted_even_when_a_retry_helps() -> None:
    replies = [error(500), counted("no scores here", 100, 7), counted(GOOD, 100, 9)]
    with judge_server(*replies) as server:
        result = ask(server)
    assert result.scores == (0.9, 0.1)
    assert result.failed_attempts == ("server", "parse")
    assert (result.attempts, result.tokens) == (3, Tokens(200, 16))


def test_a_server_that_counts_no_tokens_leaves_them_unknown() -> None:
    with judge_server(counted(GOOD, 1, 1), Reply()) as server:
        ask(server)
        assert ask(server).tokens is None


def test_a_redirect_is_an_error_and_takes_no_key_to_another_address() -> None:
    with judge_server() as elsewhere:
        away = Reply(302, body={}, headers={"Location": f"{elsewhere.url}/v1/chat/completions"})
        with judge_server(every=away) as server:
            result = ask(server)
    assert result.error is not None
    assert elsewhere.paths == []


def test_a_key_is_not_sent_in_the_clear_to_another_host() -> None:
    settings = JudgeSettings(provider="openai", model="m", base_url="http://192.0.2.1/v1")
    with pytest.raises(UsageError, match="would be sent unencrypted"):
        make_judge(settings, None, ENV)
