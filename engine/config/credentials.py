"""The environment variables with which a project signs in: their purpose, and where each is set.

They are those of the judge providers, of the hub and of W&B, and the other secrets in ``.env``.
"""

from __future__ import annotations

import netrc
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from engine.base.judge_providers import all_providers
from engine.base.masking import is_secret_name, mask, mask_url
from engine.config import hub

HUB_TOKEN, WANDB_KEY = "HF_TOKEN", "WANDB_API_KEY"
_WANDB_HOSTS = ("api.forge.coreweave.com", "api.wandb.ai")
"""W&B's own servers: since wandb 0.31, and before. A login of either version is accepted."""


@dataclass(frozen=True)
class Variable:
    """A variable, what reads it, and its value in masked form.

    ``origin`` is ``shell``, ``.env``, or the file of a login in its place; None if it is not set.
    ``note`` says what of it does not count.
    """

    name: str
    purpose: str
    value: str | None = None
    origin: str | None = None
    note: str | None = None


def known_variables() -> dict[str, str]:
    """Return the purpose of each variable that this project signs in with."""
    purposes = {
        name: f"judge.provider={provider.name}"
        for provider in all_providers()
        for sign_in in provider.sign_ins
        for name in (sign_in.key, sign_in.base_url)
    }
    return {
        **purposes,
        HUB_TOKEN: "models and data sets of the hub",
        WANDB_KEY: "logging to W&B",
    }


def find_variables(env: Mapping[str, str], in_file: Mapping[str, str]) -> Iterator[Variable]:
    """Yield the known variables, then other secrets of the file.

    ``env`` has what the programs see: the shell's variables and, where it has none, those of the
    file.
    """
    known = known_variables()
    for name, purpose in known.items():
        yield _find(name, purpose, env, in_file)
    for name in in_file:
        if name not in known and is_secret_name(name):
            yield _find(name, "not known to grubrics-tui", env, in_file)


def _find(name: str, purpose: str, env: Mapping[str, str], in_file: Mapping[str, str]) -> Variable:
    value = env.get(name)
    if not value:
        value, origin = _find_login(name, env)
        return Variable(name, purpose, value, origin)
    shown = mask(value) if is_secret_name(name) else mask_url(value)
    if in_file.get(name) == value:
        return Variable(name, purpose, shown, ".env")
    note = "the value in .env does not count" if name in in_file else None
    return Variable(name, purpose, shown, "shell", note)


def _find_login(name: str, env: Mapping[str, str]) -> tuple[str | None, str | None]:
    """What a login of another program left in the place of a variable: masked, and its file."""
    if name == HUB_TOKEN and (token := hub.find_token(env)) is not None:
        return mask(token[0]), token[1]
    if name == WANDB_KEY and (found := find_wandb_login(env)) is not None:
        return mask(found[0]), str(found[1])
    return None, None


def find_wandb_login(env: Mapping[str, str]) -> tuple[str, Path] | None:
    """Return the key that ``wandb login`` wrote for W&B's host into a netrc file, and the file.

    W&B reads ``$NETRC``, else ``~/.netrc`` or ``~/_netrc``.
    """
    address = env.get("WANDB_BASE_URL")
    hosts = (urlsplit(address).netloc,) if address else _WANDB_HOSTS
    home = Path(env.get("HOME", ""))
    netrc_file = env.get("NETRC")
    paths = [Path(netrc_file).expanduser()] if netrc_file else [home / ".netrc", home / "_netrc"]
    path = next((path for path in paths if path.is_absolute() and path.is_file()), None)
    try:
        logins = netrc.netrc(path).hosts if path else {}
    except (netrc.NetrcParseError, OSError, UnicodeDecodeError):
        return None
    # As in ``authenticators``: the entry "default" is for every host.
    keys = [logins[host][2] for host in (*hosts, "default") if host in logins]
    return next(((key, path) for key in keys if key and path), None)
