"""Where a judge API is and how to sign in, found in the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.base.addresses import cleartext_complaint
from engine.base.errors import UsageError
from engine.judge.settings import JudgeSettings

NO_KEY = "unused"
DEFAULT_API_VERSION = "2024-12-01-preview"
_AZURE_FAMILIES = (
    ("AZURE_OPENAI", "AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_API_VERSION"),
    ("AZURE_API", "AZURE_API_BASE", "AZURE_API_KEY", "AZURE_API_VERSION"),
)


class CleartextError(UsageError):
    """A key would be sent over plain http to another host."""


@dataclass(frozen=True)
class Credentials:
    """``family`` names the environment variables in effect. ``key`` never shows in a repr."""

    family: str
    endpoint: str | None
    key: str = field(repr=False)
    api_version: str | None = None


def find_credentials(settings: JudgeSettings, env: Mapping[str, str]) -> Credentials:
    """The credentials of ``settings.provider``; UsageError names the variables that are missing.

    CleartextError where the key could be read on its way to the judge.

    Values are stripped: a .env file with Windows line ends leaves a carriage return on each.
    """
    values = {name: value.strip() for name, value in env.items() if value.strip()}
    azure = settings.provider == "azure"
    found = _azure(settings, values) if azure else _openai(settings, values)
    if found.key != NO_KEY:
        name = "AZURE_API_KEY" if found.family == "AZURE_API" else f"{found.family}_API_KEY"
        what = f"judge.provider={settings.provider}: {name}"
        complaint = cleartext_complaint(what, found.endpoint or "", values)
        if complaint:
            raise CleartextError(complaint)
    return found


def _azure(settings: JudgeSettings, values: Mapping[str, str]) -> Credentials:
    for family, endpoint_name, key_name, version_name in _AZURE_FAMILIES:
        endpoint = settings.base_url or values.get(endpoint_name)
        key = values.get(key_name)
        if endpoint and key:
            version = values.get(version_name, DEFAULT_API_VERSION)
            return Credentials(family, endpoint, key, version)
    raise UsageError(_missing_azure(settings, values))


def _missing_azure(settings: JudgeSettings, values: Mapping[str, str]) -> str:
    for _, endpoint_name, key_name, _ in _AZURE_FAMILIES:
        if endpoint_name in values and key_name not in values:
            return f"judge.provider=azure: {endpoint_name} is set but {key_name} is not"
        if key_name in values and endpoint_name not in values and settings.base_url is None:
            return f"judge.provider=azure: {key_name} is set but {endpoint_name} is not"
    return (
        "judge.provider=azure: set AZURE_OPENAI_ENDPOINT and AZURE_OPENAI_API_KEY "
        "(or AZURE_API_BASE and AZURE_API_KEY)"
    )


def _openai(settings: JudgeSettings, values: Mapping[str, str]) -> Credentials:
    endpoint = settings.base_url or values.get("OPENAI_BASE_URL")
    key = values.get("OPENAI_API_KEY")
    if key is None and endpoint is None:
        raise UsageError("judge.provider=openai: OPENAI_API_KEY not set")
    # Servers of one's own seldom check the key, but the client insists on one.
    return Credentials("OPENAI", endpoint, key or NO_KEY)
