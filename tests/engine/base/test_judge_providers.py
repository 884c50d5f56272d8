"""A judge provider is one entry of one table: everything else works without naming it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from engine.base.errors import UsageError
from engine.base.judge_providers import (
    AZURE,
    BUILT_IN,
    OPENAI,
    JudgeProvider,
    SignIn,
    address_variables,
    all_providers,
    asks_server,
    check_provider,
    find_provider,
    format_table,
    provider_names,
)
from engine.base.masking import mask_text
from engine.data.precompute import main as precompute
from engine.launch.ray_target import needed_variables
from engine.reward.judge.api import ApiJudge
from engine.reward.judge.credentials import find_credentials
from engine.reward.judge.settings import JudgeSettings, make_judge
from engine.run.host.environment import steering_variables
from tests.engine.checks.project import Project
from tests.plugins import InstallPlugin

pytestmark = pytest.mark.long

KEY = "k-1234567890abcdef-Zq8"
DOCS = Path(__file__).parents[3] / "docs/data.md"
ENTRY = "[grubrics.judge_providers]\nours = house_judges:HOUSE\n"
HOUSE = """
from engine.base.judge_providers import JudgeProvider, SignIn

HOUSE = JudgeProvider(
    name="house",
    summary="The judge of our house",
    judge="engine.reward.judge.api:make_openai_judge",
    modules=("openai",),
    sign_ins=(SignIn(key="HOUSE_API_KEY", base_url="HOUSE_BASE_URL"),),
    key_is_optional=False,
    default_base_url="https://judge.house.example/v1",
    token_parameter="max_tokens",
    variable_prefix="HOUSE_",
    key_prefixes=(),
)
"""


@pytest.fixture
def house(install_plugin: InstallPlugin) -> JudgeProvider:
    install_plugin("house_judges", HOUSE, ENTRY)
    provider = find_provider("house")
    assert provider is not None
    return provider


def full_environment(provider: JudgeProvider) -> dict[str, str]:
    signs = provider.sign_ins[:1]
    return {
        name: value
        for sign_in in signs
        for name, value in (
            (sign_in.key, KEY),
            (sign_in.base_url, "https://judge.example.org/v1"),
        )
    }


def run_everywhere(provider: JudgeProvider, project: Project) -> None:
    """Check, Ray's variables, manifest, precompute and the judge itself with one provider."""
    override = f"judge.provider={provider.name}"
    env = full_environment(provider)
    check = project.checks("grpo", override, env=env)["credentials"]
    assert check.status == "ok", check.message
    assert KEY not in check.message

    variables = needed_variables(project.config("grpo", override))
    assert set(variables) <= set(env)
    assert {sign_in.key for sign_in in provider.sign_ins[:1]} <= set(variables)
    assert {sign_in.base_url for sign_in in provider.sign_ins} <= set(address_variables())

    recorded = steering_variables(env)
    assert set(recorded) == set(env)
    assert KEY not in recorded.values()

    judge = make_judge(JudgeSettings(provider=provider.name), None, env)
    assert isinstance(judge, ApiJudge) == asks_server(provider.name)

    with pytest.raises(UsageError, match="does not exist"):  # the data; the provider is known
        precompute(["--dataset", "tiny", "--provider", provider.name, "--dataset_path", "none"])


@pytest.mark.parametrize("provider", BUILT_IN, ids=lambda provider: provider.name)
def test_a_built_in_provider_works_everywhere(provider: JudgeProvider, project: Project) -> None:
    run_everywhere(provider, project)


def test_a_provider_of_another_package_works_everywhere(
    house: JudgeProvider, project: Project
) -> None:
    run_everywhere(house, project)


def test_a_key_that_is_missing_is_named_by_the_check(
    house: JudgeProvider, project: Project
) -> None:
    check = project.checks("grpo", "judge.provider=house", env={})["credentials"]
    assert (check.status, "HOUSE_API_KEY is not set" in check.message) == ("fail", True)


def test_the_default_address_is_asked(house: JudgeProvider) -> None:
    judge = make_judge(JudgeSettings(provider="house"), None, {"HOUSE_API_KEY": KEY})
    assert isinstance(judge, ApiJudge)
    assert str(judge._client.base_url) == "https://judge.house.example/v1/"


def test_an_unknown_provider_is_refused_with_the_known_names() -> None:
    with pytest.raises(ValidationError, match="'offline', 'azure' or 'openai'"):
        JudgeSettings(provider="azur")


@pytest.mark.parametrize("field", [field.name for field in fields(JudgeProvider)])
def test_a_forgotten_field_is_named(field: str) -> None:
    facts: dict[str, Any] = {each.name: getattr(OPENAI, each.name) for each in fields(OPENAI)}
    del facts[field]
    with pytest.raises(TypeError, match=field):
        JudgeProvider(**facts)


@pytest.mark.parametrize("provider", BUILT_IN, ids=lambda provider: provider.name)
def test_built_in_declarations_are_sound(provider: JudgeProvider) -> None:
    assert list(check_provider(provider)) == []


@pytest.mark.parametrize("prefix", [p for provider in BUILT_IN for p in provider.key_prefixes])
def test_keys_with_a_known_prefix_are_masked_in_any_text(prefix: str) -> None:
    key = f"{prefix}0a1b2c3d4e5f6a7b8c9d0e1f2a3b4c5d"
    assert key not in mask_text(f"refused: {key} is invalid", env={})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"name": "Open AI"}, "name="),
        ({"judge": "engine.reward.judge.api"}, "judge="),
        ({"token_parameter": ""}, "token_parameter"),
        ({"variable_prefix": ""}, "variable_prefix"),
        ({"sign_ins": (SignIn(key="OPENAI_LOGIN", base_url="OPENAI_URL"),)}, "sign_ins"),
        ({"key_prefixes": ("zz",)}, "key_prefixes"),
    ],
)
def test_an_unsound_field_is_named(change: dict[str, Any], named: str) -> None:
    assert next(check_provider(replace(OPENAI, **change))).startswith(named)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (HOUSE.replace('token_parameter="max_tokens",', ""), "token_parameter"),
        (HOUSE.replace('"house"', '"openai"'), "taken by another provider"),
        (HOUSE.replace("HOUSE_API_KEY", "HOUSE_LOGIN"), "HOUSE_LOGIN is not masked"),
        ("raise RuntimeError('broken')", "broken"),
    ],
)
def test_a_broken_plugin_is_named_and_skipped(
    install_plugin: InstallPlugin,
    project: Project,
    capsys: pytest.CaptureFixture[str],
    code: str,
    why: str,
) -> None:
    install_plugin("house_judges", code, ENTRY)
    assert all_providers() == BUILT_IN
    with pytest.raises(ValidationError, match=why):
        JudgeSettings(provider="house")
    check = project.checks("grpo")["credentials"]
    assert check.status == "warn"
    assert "plugin ours of house_judges 1.2 is skipped" in check.message and why in check.message
    with pytest.raises(UsageError):
        precompute(["--dataset", "tiny", "--dataset_path", "none"])
    assert why in capsys.readouterr().err


def test_a_judge_that_cannot_be_loaded_is_named(install_plugin: InstallPlugin) -> None:
    code = HOUSE.replace(
        "engine.reward.judge.api:make_openai_judge", "house_judges:no_such_function"
    )
    install_plugin("house_judges", code, ENTRY)
    with pytest.raises(UsageError, match="house_judges:no_such_function cannot be loaded"):
        make_judge(JudgeSettings(provider="house"), None, {"HOUSE_API_KEY": KEY})


def test_azure_needs_its_address_from_elsewhere_and_others_only_their_key() -> None:
    assert AZURE.needed_variables == ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY")
    assert OPENAI.needed_variables == ("OPENAI_API_KEY",)


def test_an_address_without_a_key_is_enough_only_where_keys_are_optional(
    house: JudgeProvider,
) -> None:
    env = {"HOUSE_BASE_URL": "https://other.example/v1"}
    with pytest.raises(UsageError, match="HOUSE_BASE_URL is set but HOUSE_API_KEY is not"):
        find_credentials(JudgeSettings(provider="house"), env)
    result = find_credentials(JudgeSettings(provider="openai"), {"OPENAI_BASE_URL": "http://[::1]"})
    assert result.endpoint == "http://[::1]"


def test_the_documented_table_is_the_present_one() -> None:
    assert format_table() in DOCS.read_text(), "renew it: make generated"
    assert [name for name in provider_names() if f"| {name} |" not in DOCS.read_text()] == []


def test_a_judge_names_the_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "engine.reward.judge.api")
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(UsageError, match="needs the package openai"):
        make_judge(JudgeSettings(provider="openai"), None, {"OPENAI_API_KEY": KEY})


def test_reading_a_config_loads_neither_asyncio_nor_a_client() -> None:
    code = "import sys, engine.config.load; print({'asyncio', 'openai'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
