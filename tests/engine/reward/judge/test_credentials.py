"""Which environment variables sign a judge in."""

from __future__ import annotations

import pytest

from engine.base.errors import UsageError
from engine.reward.judge.credentials import find_credentials
from engine.reward.judge.settings import JudgeSettings

AZURE = JudgeSettings(provider="azure")
OPENAI = JudgeSettings(provider="openai")
KEY = "k-1234567890abcd"


@pytest.mark.parametrize(
    ("variable", "env"),
    [
        (
            "AZURE_OPENAI_API_KEY",
            {"AZURE_OPENAI_ENDPOINT": "https://x", "AZURE_OPENAI_API_KEY": KEY},
        ),
        ("AZURE_API_KEY", {"AZURE_API_BASE": "https://x", "AZURE_API_KEY": KEY}),
    ],
)
def test_both_azure_families_work(variable: str, env: dict[str, str]) -> None:
    result = find_credentials(AZURE, env)
    assert (result.sign_in.key, result.endpoint, result.key) == (variable, "https://x", KEY)


def test_carriage_returns_of_an_env_file_are_removed() -> None:
    env = {"AZURE_API_BASE": "https://x\r", "AZURE_API_KEY": f"{KEY}\r\n"}
    assert find_credentials(AZURE, env).endpoint == "https://x"


@pytest.mark.parametrize(
    ("settings", "env", "message"),
    [
        (AZURE, {}, "set AZURE_OPENAI_ENDPOINT and AZURE_OPENAI_API_KEY"),
        (AZURE, {"AZURE_OPENAI_ENDPOINT": "https://x"}, "AZURE_OPENAI_API_KEY is not"),
        (AZURE, {"AZURE_API_KEY": KEY}, "AZURE_API_BASE is not"),
        (OPENAI, {}, "OPENAI_API_KEY is not set"),
        (OPENAI, {"OPENAI_API_KEY": "  "}, "OPENAI_API_KEY is not set"),
    ],
)
def test_what_is_missing_is_named(
    settings: JudgeSettings, env: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        find_credentials(settings, env)


def test_a_server_of_ones_own_needs_no_key() -> None:
    settings = JudgeSettings(provider="openai", base_url="http://127.0.0.1:8000/v1")
    assert find_credentials(settings, {}).endpoint == "http://127.0.0.1:8000/v1"


def test_the_key_is_never_printed() -> None:
    result = find_credentials(OPENAI, {"OPENAI_API_KEY": KEY})
    assert KEY not in f"{result} {result!r}"
