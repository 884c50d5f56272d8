"""Where a judge's server is and how to sign in, found in the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.base.addresses import cleartext_complaint
from engine.base.errors import UsageError
from engine.base.judge_providers import JudgeProvider, SignIn, get_provider
from engine.reward.judge.settings import JudgeSettings

NO_KEY = "unused"
"""OpenAI's client insists on a key, also for servers that check none."""


class CleartextError(UsageError):
    """A key would be sent over plain http to another host."""


@dataclass(frozen=True)
class Credentials:
    """What signs in. ``sign_in`` names the variables in effect; ``key`` never shows in a repr.

    ``endpoint`` is None where the provider's default address is used.
    """

    sign_in: SignIn
    endpoint: str | None
    key: str = field(repr=False)
    api_version: str | None = None


def find_credentials(settings: JudgeSettings, env: Mapping[str, str]) -> Credentials:
    """Return the credentials for ``settings.provider``.

    UsageError names the variables that are missing; CleartextError where the key could be read on
    its way. Values are stripped: a .env file with Windows line ends leaves a carriage return.
    """
    provider = get_provider(settings.provider)
    values = {name: value.strip() for name, value in env.items() if value.strip()}
    complete = (_complete(sign_in, settings, values) for sign_in in provider.sign_ins)
    credentials = next(filter(None, complete), None)
    if credentials is None:
        missing = _missing_variables(provider, settings, values)
        raise UsageError(f"judge.provider={provider.name}: {missing}")
    if credentials.key != NO_KEY:
        key = f"judge.provider={provider.name}: {credentials.sign_in.key}"
        address = credentials.endpoint or provider.default_base_url or ""
        if complaint := cleartext_complaint(key, address, values):
            raise CleartextError(complaint)
    return credentials


def _complete(
    sign_in: SignIn, settings: JudgeSettings, values: Mapping[str, str]
) -> Credentials | None:
    """Return the credentials of these variables; None if the address or a needed key is missing."""
    provider = get_provider(settings.provider)
    endpoint = settings.base_url or values.get(sign_in.base_url)
    key = values.get(sign_in.key)
    if key is None and endpoint is not None and provider.key_is_optional:
        key = NO_KEY
    if key is None or (endpoint is None and provider.default_base_url is None):
        return None
    version = values.get(sign_in.api_version) if sign_in.api_version else None
    return Credentials(sign_in, endpoint, key, version)


def _missing_variables(
    provider: JudgeProvider, settings: JudgeSettings, values: Mapping[str, str]
) -> str:
    for names in provider.sign_ins:
        if names.base_url in values and names.key not in values:
            return f"{names.base_url} is set but {names.key} is not"
        needs_address = provider.default_base_url is None and settings.base_url is None
        if names.key in values and names.base_url not in values and needs_address:
            return f"{names.key} is set but {names.base_url} is not"
    if provider.default_base_url is not None:
        return f"{provider.sign_ins[0].key} is not set"
    first, *more = [f"{names.base_url} and {names.key}" for names in provider.sign_ins]
    return f"set {first}" + "".join(f" (or {pair})" for pair in more)
