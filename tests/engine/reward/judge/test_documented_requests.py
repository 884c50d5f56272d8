"""What the engine sends to a built-in provider is the request that the provider documents.

The declarations in ``engine.base.judge_providers`` cannot vouch for themselves: a wrong address or
parameter would be sent as declared. The examples below are those of the providers' own pages.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qs

import openai
import pytest

from engine.base import judge_providers as providers
from engine.base.judge_providers import AZURE, BUILT_IN, OPENAI, JudgeProvider
from engine.reward.judge import api
from engine.reward.judge.settings import JudgeSettings, make_judge

DOCUMENTED = {
    # https://platform.openai.com/docs/api-reference/chat/create
    "openai": """
        curl https://api.openai.com/v1/chat/completions
          -H "Content-Type: application/json"
          -H "Authorization: Bearer $OPENAI_API_KEY"
          -d '{"model": "MODEL", "messages": [], "max_completion_tokens": 4000}'
    """,
    # https://learn.microsoft.com/azure/ai-foundry/openai/reference
    "azure": """
        curl $AZURE_OPENAI_ENDPOINT/openai/deployments/MODEL/chat/completions?api-version=2024-10-21
          -H "Content-Type: application/json"
          -H "api-key: $AZURE_OPENAI_API_KEY"
          -d '{"messages": [], "max_completion_tokens": 4000}'
    """,
}
"""A request by name of the provider; variables are those of its sign-in."""
ASKED = [provider for provider in BUILT_IN if provider.asks_server]


@dataclass(frozen=True)
class Request:
    url: str
    headers: dict[str, str]
    """In lower case."""
    body: dict[str, Any]


def environment(provider: JudgeProvider) -> dict[str, str]:
    """What signs in: a key, and an address only where the provider has none of its own."""
    sign_in = provider.sign_ins[0]
    values = {sign_in.key: "k-1234567890abcdef-Zq8"}
    if provider.default_base_url is None:
        values[sign_in.base_url] = "https://ours.example.org"
    return values


def documented(provider: JudgeProvider) -> Request:
    """Parse the ``curl`` command of a provider."""
    assert provider.name in DOCUMENTED, (
        f"provider {provider.name} has no example: copy the chat request of its own documentation "
        f"to DOCUMENTED in {__file__}"
    )
    text = DOCUMENTED[provider.name]
    for name, value in environment(provider).items():
        text = text.replace(f"${name}", value)
    assert "$" not in text, f"sign_ins of {provider.name} lack a variable of its example: {text}"
    _, url, *options = shlex.split(text)
    pairs = list(zip(options[::2], options[1::2], strict=True))
    headers = dict(value.lower().split(": ", 1) for option, value in pairs if option == "-H")
    body = next(value for option, value in pairs if option == "-d")
    return Request(url, headers, json.loads(body))


def sent(provider: JudgeProvider, monkeypatch: pytest.MonkeyPatch) -> Request:
    """Return the request of one judge call; it goes nowhere."""
    requests: list[Request] = []

    class Client(openai.DefaultAsyncHttpxClient):
        async def send(self, request: Any, **_: Any) -> Any:
            headers = {name.lower(): value.lower() for name, value in request.headers.items()}
            requests.append(Request(str(request.url), headers, json.loads(request.content)))
            raise ConnectionError

    monkeypatch.setattr(api, "_http_client", Client)
    settings = JudgeSettings(provider=provider.name, model="MODEL", max_attempts=1)
    judge = make_judge(settings, None, environment(provider))
    result = asyncio.run(judge.evaluate_answers_batched("?", ["a"], "r"))
    assert requests, f"provider {provider.name} sends no request: {result.error}"
    return requests[0]


def differences(provider: JudgeProvider, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what differs between the request that is sent and the documented one."""
    example, request = documented(provider), sent(provider, monkeypatch)
    address, query = request.url.partition("?")[::2]
    expected_address, expected_query = example.url.partition("?")[::2]
    problems = []
    if address != expected_address:
        problems.append(f"default_base_url or path: {address} instead of {expected_address}")
    if parse_qs(query).keys() != parse_qs(expected_query).keys():
        problems.append(f"query: {query} instead of {expected_query}")
    for name, value in example.headers.items():
        if request.headers.get(name) != value:
            problems.append(f"header {name}: {request.headers.get(name)} instead of {value}")
    # OpenAI's client repeats the name of Azure's deployment in the body.
    keys, expected_keys = (sorted(each.body.keys() - {"model"}) for each in (request, example))
    if keys != expected_keys:
        problems.append(f"token_parameter: {keys} instead of {expected_keys}")
    return problems


@pytest.mark.parametrize("provider", ASKED, ids=lambda provider: provider.name)
def test_the_request_is_the_documented_one(
    provider: JudgeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert differences(provider, monkeypatch) == []


@pytest.mark.parametrize(
    ("provider", "change", "named"),
    [
        (OPENAI, {"default_base_url": "https://api.openai.com"}, "default_base_url"),
        (OPENAI, {"default_base_url": "https://api.openai.org/v1"}, "default_base_url"),
        (OPENAI, {"token_parameter": "max_tokens"}, "token_parameter"),
        (AZURE, {"token_parameter": "max_tokens"}, "token_parameter"),
        (AZURE, {"judge": OPENAI.judge}, "default_base_url"),
        (AZURE, {"judge": OPENAI.judge}, "header api-key"),
    ],
)
def test_a_wrong_declaration_is_named(
    provider: JudgeProvider, change: dict[str, str], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = replace(provider, **change)  # type: ignore[arg-type]
    monkeypatch.setattr(
        providers, "BUILT_IN", tuple(wrong if p == provider else p for p in BUILT_IN)
    )
    assert any(problem.startswith(named) for problem in differences(wrong, monkeypatch))


def test_a_provider_without_an_example_is_named() -> None:
    with pytest.raises(AssertionError, match="provider campus has no example"):
        documented(replace(OPENAI, name="campus"))


def test_the_default_address_is_that_of_the_client_library() -> None:
    client = openai.AsyncOpenAI(api_key="unused", base_url=None)
    assert str(client.base_url).rstrip("/") == OPENAI.default_base_url
