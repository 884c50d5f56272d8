"""The table of judge providers: every fact about a provider, stated once.

The setting ``judge.provider``, sign-in, clients, the checks before a launch, the variables that a
Ray cluster needs, what a manifest records, the choices of ``precompute``, cost estimates and the
table in docs/data.md are all read from here. A package adds a provider with an entry point:

    [project.entry-points."grubrics.judge_providers"]
    campus = "my_package.judges:CAMPUS"
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import UsageError, guarded
from engine.base.masking import holds_secret, is_secret_name
from engine.base.plugins import load
from engine.base.tables import markdown_table, write_between_marks

GROUP = "grubrics.judge_providers"


@dataclass(frozen=True, kw_only=True)
class SignIn:
    """Environment variables that belong together: key, server address and, for Azure, version."""

    key: str
    base_url: str
    api_version: str | None = None

    @property
    def variables(self) -> tuple[str, ...]:
        named = (self.base_url, self.key, self.api_version)
        return tuple(name for name in named if name is not None)


@dataclass(frozen=True, kw_only=True)
class JudgeProvider:
    """One value of ``judge.provider``. No field has a default, so none can be forgotten."""

    name: str
    summary: str
    """What it is, for docs/data.md."""
    judge: str
    """``module:function``, called with settings, slots and environment; returns a ``Judge``.
    ``engine.reward.judge.api:make_openai_judge`` serves every server with OpenAI's protocol."""
    modules: tuple[str, ...]
    """What ``judge`` imports besides this project; checked before a launch."""
    sign_ins: tuple[SignIn, ...]
    """The first complete one is used. Empty: nothing is asked over the network or paid for."""
    key_is_optional: bool
    """Whether a server at a given address can be asked without a key."""
    default_base_url: str | None
    """Where calls go unless ``judge.base_url`` or a variable says otherwise; None: nowhere."""
    token_parameter: str
    """The request field for ``judge.max_tokens``."""
    variable_prefix: str
    """Variables with this prefix are recorded in the manifest, secrets masked."""
    key_prefixes: tuple[str, ...]
    """How keys begin, so that they are masked even where no variable holds them. A prefix that
    masking does not know yet is added to ``engine/base/masking.py``."""

    @property
    def asks_server(self) -> bool:
        return bool(self.sign_ins)

    @property
    def needed_variables(self) -> tuple[str, ...]:
        """The least that another machine must have in its environment to ask this provider."""
        first = self.sign_ins[:1]
        return tuple(
            name
            for sign_in in first
            for name in (sign_in.base_url, sign_in.key)
            if name != sign_in.base_url or self.default_base_url is None
        )


OFFLINE = JudgeProvider(
    name="offline",
    summary=(
        "A deterministic judge that counts which rubric items an answer's words satisfy; for "
        "tests and the tiny demo, not a measure of quality"
    ),
    judge="engine.reward.judge.offline:make_offline_judge",
    modules=(),
    sign_ins=(),
    key_is_optional=True,
    default_base_url=None,
    token_parameter="",
    variable_prefix="",
    key_prefixes=(),
)
AZURE = JudgeProvider(
    name="azure",
    summary="Azure OpenAI; `judge.model` is the name of the deployment",
    judge="engine.reward.judge.api:make_azure_judge",
    modules=("openai",),
    sign_ins=(
        SignIn(
            key="AZURE_OPENAI_API_KEY",
            base_url="AZURE_OPENAI_ENDPOINT",
            api_version="AZURE_OPENAI_API_VERSION",
        ),
        SignIn(key="AZURE_API_KEY", base_url="AZURE_API_BASE", api_version="AZURE_API_VERSION"),
    ),
    key_is_optional=False,
    default_base_url=None,
    token_parameter="max_completion_tokens",
    variable_prefix="AZURE_",
    key_prefixes=(),
)
OPENAI = JudgeProvider(
    name="openai",
    summary=(
        "OpenAI, or any server with its protocol at `judge.base_url` or `OPENAI_BASE_URL`, which "
        "may need no key"
    ),
    judge="engine.reward.judge.api:make_openai_judge",
    modules=("openai",),
    sign_ins=(SignIn(key="OPENAI_API_KEY", base_url="OPENAI_BASE_URL"),),
    key_is_optional=True,
    default_base_url="https://api.openai.com/v1",
    token_parameter="max_completion_tokens",
    variable_prefix="OPENAI_",
    key_prefixes=("sk-", "sk-proj-"),
)
BUILT_IN = (OFFLINE, AZURE, OPENAI)


def all_providers() -> tuple[JudgeProvider, ...]:
    """The built-in providers, then those of other packages that can be used."""
    return (*BUILT_IN, *_plugins()[0])


def plugin_problems() -> tuple[str, ...]:
    """One line for each provider of another package that was skipped."""
    return _plugins()[1]


def provider_names() -> tuple[str, ...]:
    return tuple(provider.name for provider in all_providers())


def find_provider(name: object) -> JudgeProvider | None:
    """Return the provider called ``name``. Other packages are read only if it is not built in."""
    built_in = (provider for provider in BUILT_IN if provider.name == name)
    return next(built_in, None) or next((p for p in _plugins()[0] if p.name == name), None)


def get_provider(name: str) -> JudgeProvider:
    """``find_provider``, with UsageError for an unknown name."""
    provider = find_provider(name)
    if provider is None:
        raise UsageError(f"judge.provider={name!r}: {expected_names()}")
    return provider


def expected_names() -> str:
    """``Input should be 'offline', 'azure' or 'openai'``, and which plugins were skipped."""
    *names, last = [repr(name) for name in provider_names()]
    return "; ".join((f"Input should be {', '.join(names)} or {last}", *plugin_problems()))


def asks_server(name: object) -> bool:
    """Whether the judge called ``name`` is a server that costs money and needs an address.

    Unknown names, such as that of a package which is no longer installed, count as servers.
    """
    provider = find_provider(name)
    return provider is None or provider.asks_server


def variable_prefixes() -> tuple[str, ...]:
    """The beginnings of all providers' environment variables."""
    return tuple(p.variable_prefix for p in all_providers() if p.variable_prefix)


def address_variables() -> tuple[str, ...]:
    """Return the variables that hold the address of a judge."""
    return tuple(sign_in.base_url for p in all_providers() for sign_in in p.sign_ins)


def check_provider(provider: JudgeProvider) -> Iterator[str]:
    """Yield what is wrong with a declaration, each with the name of the field."""
    if not re.fullmatch(r"[a-z][a-z0-9_-]*", provider.name):
        yield f"name={provider.name!r} must be lower-case letters, digits, - and _"
    if not re.fullmatch(r"[\w.]+:\w+", provider.judge):
        yield f"judge={provider.judge!r} must be module:function"
    if not provider.asks_server:
        return
    if not provider.token_parameter:
        yield "token_parameter is empty"
    for sign_in in provider.sign_ins:
        if not is_secret_name(sign_in.key):
            yield f"sign_ins: {sign_in.key} is not masked; name it ..._API_KEY"
        for name in sign_in.variables:
            if not provider.variable_prefix or not name.startswith(provider.variable_prefix):
                yield f"variable_prefix={provider.variable_prefix!r} does not begin {name}"
    for prefix in provider.key_prefixes:
        if not holds_secret(f"{prefix}0a1b2c3d4e5f6a7b8c9d0e1f2a3b4c5d", {}):
            yield f"key_prefixes: {prefix!r} is unknown to engine/base/masking.py"


def format_table(providers: Sequence[JudgeProvider] = BUILT_IN) -> str:
    """The Markdown table of docs/data.md."""
    rows = [(each.name, _format_credentials(each), each.summary) for each in providers]
    return markdown_table(("provider", "credentials", "what it is"), rows)


def _format_credentials(provider: JudgeProvider) -> str:
    """The variables that sign in, e.g. ```A_URL` and `A_KEY`, or `B_URL` and `B_KEY```."""
    if provider.default_base_url is None:
        sets = [f"`{names.base_url}` and `{names.key}`" for names in provider.sign_ins]
    else:
        sets = [f"`{names.key}`" for names in provider.sign_ins]
    return ", or ".join(sets) or "none"


def _plugins() -> tuple[tuple[JudgeProvider, ...], tuple[str, ...]]:
    """The usable providers of other packages, and a line for each that is skipped."""
    plugins = load(GROUP, JudgeProvider)
    usable: dict[str, JudgeProvider] = {}
    problems = list(plugins.problems)
    taken = {provider.name for provider in BUILT_IN}
    for plugin in plugins.loaded:
        faults = list(check_provider(plugin.value))
        if plugin.value.name in taken | usable.keys():
            faults.append(f"name={plugin.value.name!r} is taken by another provider")
        if faults:
            problems.append(f"plugin {plugin.name} of {plugin.source} is skipped: {faults[0]}")
        else:
            usable[plugin.value.name] = plugin.value
    return tuple(usable.values()), tuple(problems)


def main() -> int:
    """``python -m engine.base.judge_providers docs/data.md`` renews the table there."""
    write_between_marks(Path(sys.argv[1]), "judge providers", format_table())
    return 0


if __name__ == "__main__":
    sys.exit(guarded(main))
