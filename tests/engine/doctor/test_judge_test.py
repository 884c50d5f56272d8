"""The judge tried with a run's own settings, against servers that answer and servers that fail."""

from __future__ import annotations

import json

import pytest

from engine.base.errors import UsageError
from engine.config.load import load_config
from engine.doctor.judge_test import JudgeTest, run_test
from engine.reward.judge.trial import Probe
from tests.engine.reward.judge.server import (
    BY_LENGTH,
    JudgeServer,
    Reply,
    judge_server,
    scores_of,
)
from tests.paths import CONFIGS

pytestmark = pytest.mark.long

KEY = "sk-test-0123456789abcdef0123456789"


def ask(
    server: JudgeServer, *overrides: str, calls: int = 0, own: Probe | None = None
) -> JudgeTest:
    given = ("judge.provider=openai", f"judge.base_url={server.url}/v1", *overrides)
    config = load_config(str(CONFIGS / "grpo_tiny.yaml"), given, {})
    return run_test(config, {"OPENAI_API_KEY": KEY}, calls, own)


def error(status: int, message: str, code: str = "") -> Reply:
    return Reply(status, body={"error": {"message": message, "code": code}})


FAILURES = {
    "401": (error(401, "Incorrect API key"), "judge_auth"),
    "402": (error(402, "Insufficient Balance"), "judge_auth.balance"),
    "403": (error(403, "not allowed"), "judge_auth"),
    "404": (error(404, "no such deployment", "DeploymentNotFound"), "judge_auth.not_found"),
    "no /v1": (Reply(404, raw=b'{"detail":"Not Found"}'), "config_error.judge_address"),
    "plain 404": (Reply(404, raw=b"404 page not found"), "config_error.judge_address"),
    "model of vLLM": (error(404, "The model `x` does not exist."), "judge_auth.not_found"),
    "429": (error(429, "too many requests"), "judge_rate_limit"),
    "quota": (error(429, "no credit", "insufficient_quota"), "judge_rate_limit.quota"),
    "500": (error(500, "internal"), "judge_timeout_or_connection.server"),
    "slow": (Reply(delay_s=0.6), "judge_timeout_or_connection.timeout"),
    "garbage": (Reply(content="I like them all."), "judge_parse_failure.form"),
    "cut": (Reply(content="I like", finish_reason="length"), "judge_parse_failure"),
    "not JSON": (Reply(raw=b"hello"), "judge_parse_failure"),
    "web page": (Reply(raw=b"<html>hello</html>"), "config_error.judge_address"),
    "page of a site": (
        Reply(raw=b"<!DOCTYPE html><p>Sign in", content_type="text/html; charset=utf-8"),
        "config_error.judge_address",
    ),
    "page not found": (
        Reply(404, raw=b"<html>nginx</html>", content_type="text/html"),
        "config_error.judge_address",
    ),
    "scale": (Reply(content=scores_of(90, 20)), "judge_parse_failure.scale"),
    "filter": (error(400, "blocked", "content_filter"), "judge_content_filter"),
    "filtered reply": (
        Reply(content=None, finish_reason="content_filter"),
        "judge_content_filter",
    ),
    "too long": (
        error(400, "This model's maximum context length is 8192 tokens"),
        "context_length_exceeded.judge",
    ),
    "parameter": (error(400, "Unsupported parameter: 'max_tokens'"), "config_error.judge_request"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_each_failure_has_its_class_and_a_fix(case: str) -> None:
    reply, id = FAILURES[case]
    with judge_server(every=reply) as server:
        result = ask(server, *(["judge.timeout_s=0.3"] if reply.delay_s else []))
    (one,) = result.findings
    assert (one.id, one.severity) == (id, "critical")
    assert one.fixes
    assert len(server.requests) == 1  # a test that repeats its call would hide what fails


def test_a_judge_that_goes_by_the_length_of_the_answers_fails() -> None:
    with judge_server(every=Reply(content=BY_LENGTH)) as server:
        result = ask(server, calls=4)
    (one,) = result.findings
    assert one.id == "judge_parse_failure.unstable"


def test_a_question_of_ones_own_is_asked_alone_and_its_order_is_judged() -> None:
    own = Probe("Sum of 2 and 2?", ("4", "about 4", "5"), "Points: 1, Item: Says 4")
    scores = [{"answer_id": f"a{n}", "total_score": (0.1, 0.5, 0.9)[n - 1]} for n in (1, 2, 3)]
    inverted = Reply(content=json.dumps(scores))
    with judge_server(every=inverted) as server:
        result = ask(server, own=own)
    assert "Sum of 2 and 2?" in str(server.requests[0]["messages"])
    assert result.findings[0].id == "judge_parse_failure.inverted"


def test_of_a_single_answer_nothing_is_expected() -> None:
    own = Probe("Sum of 2 and 2?", ("4",), "Points: 1, Item: Says 4")
    only = Reply(content='[{"answer_id": "a1", "total_score": 0.0}]')
    with judge_server(every=only) as server:
        result = ask(server, own=own, calls=2)
    assert result.findings == ()


def test_a_server_that_is_not_there() -> None:
    with judge_server() as server:
        pass
    (one,) = ask(server).findings
    assert one.id == "judge_timeout_or_connection.connection"


def test_a_judge_that_answers_is_asked_once_and_then_as_a_step_asks() -> None:
    with judge_server(every=Reply(delay_s=0.05)) as server:
        result = ask(server, "judge.model=gpt-test", "judge.max_concurrent=3", calls=7)
    trial = result.trial
    assert trial is not None and result.findings == ()
    assert trial.first.scores == (0.9, 0.1)
    assert (len(trial.more), trial.at_once, server.busiest) == (7, 3, 3)
    assert {request["model"] for request in server.requests} == {"gpt-test"}
    assert trial.p50 is not None and trial.p95 is not None
    assert 0.05 <= trial.p50 <= trial.p95


def test_the_endpoint_is_named_without_path_login_or_key() -> None:
    with judge_server() as server:
        result = ask(server)
    assert result.endpoint == server.url.removeprefix("http://")


def test_a_key_that_the_server_quotes_is_masked() -> None:
    with judge_server(every=error(401, f"Incorrect API key provided: {KEY}")) as server:
        result = ask(server)
    assert KEY not in repr(result)


def test_calls_that_are_refused_lower_the_recommended_limit() -> None:
    # The first call alone is served, and of the ten that follow four.
    replies = [Reply()] * 5 + [error(429, "slow down")] * 6
    with judge_server(*replies) as server:
        result = ask(server, "judge.max_concurrent=10", calls=10)
    (one,) = result.findings
    assert (one.id, one.severity) == ("judge_rate_limit", "warning")
    assert result.advice is not None
    assert (result.advice.limit, result.advice.allowed, result.advice.recommended) == (10, 4, 4)


def test_a_limit_that_keeps_up_is_left_alone() -> None:
    with judge_server() as server:
        result = ask(server, "judge.max_concurrent=5", calls=2)
    assert result.advice is not None and result.advice.recommended == 5


def test_a_judge_that_does_not_tell_right_from_wrong() -> None:
    same = '{"evaluations": [{"answer_id": "a1", "total_score": 0}, {"answer_id": "a2", '
    with judge_server(every=Reply(content=f'{same}"total_score": 0}}]}}')) as server:
        result = ask(server)
    assert [finding.id for finding in result.findings] == ["judge_parse_failure.constant"]


def test_scores_that_differ_by_a_hair_are_the_same() -> None:
    with judge_server(every=Reply(content=scores_of(0.701, 0.7))) as server:
        result = ask(server)
    assert [finding.id for finding in result.findings] == ["judge_parse_failure.constant"]


def test_advice_and_fix_name_the_same_number_of_calls() -> None:
    with judge_server(Reply(), Reply(), every=error(429, "too many")) as server:
        result = ask(server, calls=8)
    assert result.advice is not None
    changes = [change for fix in result.findings[0].fixes for change in fix.changes]
    assert [c.after for c in changes if c.key == "judge.max_concurrent"] == [
        result.advice.recommended
    ]


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (Reply(body={"error": {"message": "model overloaded"}}), 'no choices: \'{"error"'),
        (Reply(raw=b" "), "the reply is not JSON: ''"),
        (Reply(raw=b"hello"), "the reply is not JSON: 'hello'"),
    ],
)
def test_a_reply_that_is_no_completion_is_quoted(reply: Reply, says: str) -> None:
    with judge_server(every=reply) as server:
        (one,) = ask(server).findings
    assert says in one.evidence[0].text


def test_an_address_that_redirects_is_named_with_the_host_it_leads_to() -> None:
    away = Reply(302, raw=b"", headers={"location": "https://login.example.org/sso?key=1"})
    with judge_server(every=away) as server:
        (one,) = ask(server).findings
    assert one.id == "config_error.judge_request"
    assert "redirects to login.example.org" in one.evidence[0].text
    assert "key=1" not in one.evidence[0].text


def test_a_reply_in_another_format_is_no_matter_of_its_length_alone() -> None:
    with judge_server(every=Reply(content="The first one is right.")) as server:
        (one,) = ask(server).findings
    assert any("format" in fix.title for fix in one.fixes)


def test_a_judge_that_scores_a_wrong_answer_higher_fails() -> None:
    with judge_server(every=Reply(content=scores_of(0.0, 1.0))) as server:
        (one,) = ask(server).findings
    assert (one.id, one.severity) == ("judge_parse_failure.inverted", "critical")
    assert one.title.endswith("above a right one: 1.00 and 0.00")


def test_a_judge_that_gives_the_same_scores_whatever_the_answers_say_fails() -> None:
    with judge_server(every=Reply(content=scores_of(0.8, 0.2))) as server:
        (one,) = ask(server, calls=4).findings
    assert (one.id, one.severity) == ("judge_parse_failure.order", "critical")


def test_a_judge_that_scores_at_random_fails() -> None:
    ups, downs = Reply(content=scores_of(0.7, 0.4)), Reply(content=scores_of(0.3, 0.6))
    with judge_server(ups, ups, downs, downs, ups, downs, ups, every=downs) as server:
        (one,) = ask(server, "judge.max_concurrent=1", calls=8).findings
    assert one.id == "judge_parse_failure.unstable"


def test_a_web_page_is_named_with_its_host_and_without_advice_on_tokens() -> None:
    with judge_server(every=Reply(raw=b"<html>hello</html>")) as server:
        (one,) = ask(server).findings
    assert server.url.removeprefix("http://") in one.evidence[0].text
    assert "max_tokens" not in repr(one.fixes)
    assert any("judge.base_url" in fix.title for fix in one.fixes)


def test_without_credentials_the_variables_are_named() -> None:
    config = load_config(str(CONFIGS / "grpo_tiny.yaml"), ("judge.provider=azure",), {})
    (one,) = run_test(config, {}, 0).findings
    assert one.id == "judge_auth.missing"
    assert "AZURE_OPENAI_API_KEY" in one.evidence[0].text


def test_the_offline_judge_needs_no_server() -> None:
    result = run_test(load_config(str(CONFIGS / "grpo_tiny.yaml"), (), {}), {}, 3)
    assert result.trial is not None and result.endpoint is None
    assert result.trial.first.scores == (1.0, 0.0)
    assert result.findings == ()


def test_supervised_training_asks_no_judge() -> None:
    config = load_config(str(CONFIGS / "sft_tiny.yaml"), (), {})
    with pytest.raises(UsageError, match="does not use a judge"):
        run_test(config, {}, 0)
