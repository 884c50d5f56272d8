"""The Hugging Face hub as its clients see it: endpoint, token, cache, and the meaning of refusals.

``ask`` finds out whether a model can be loaded, with the trainer's own first request: a HEAD
request for its ``config.json`` on ``HF_ENDPOINT`` with the token that huggingface_hub would send.
The hub names a refusal in ``X-Error-Code``. Redirects are not followed: the hub answers with one
where it has the file, and the token must not go elsewhere.
"""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Any, Literal, Protocol
from urllib.parse import urlsplit

from engine.base import files, jsonl
from engine.base.addresses import is_cleartext
from engine.base.masking import mask, mask_url
from engine.base.yaml_files import read_table

DEFAULT_ENDPOINT = "https://huggingface.co"
PATIENCE_S = 5.0
CACHE_VARIABLES = ("HF_HOME", "HF_HUB_CACHE")
TOKEN_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
_ON = ("1", "on", "yes", "true")

State = Literal[
    "there", "gated", "denied", "refused", "missing", "empty", "no_revision", "busy", "unreachable",
    "no_hub", "invalid", "exposed",
]  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """The state of a repository on the hub; ``detail`` is one line without credentials.

    ``there``: it can be loaded. ``gated``: its terms must be accepted. ``denied``: the hub rejects
    the token. ``refused``: the hub rejects the request; ``detail`` may have the reason.
    ``missing``: no such repository, or a private one. ``empty``: it has no such file.
    ``no_revision``: it has no such branch, tag or commit. ``busy``: the hub limits requests or
    fails. ``unreachable``: no answer. ``no_hub``: an answer that no hub gives. ``invalid``: the
    endpoint is not an http(s) address.
    ``exposed``: no request, because it would send the token unencrypted.
    """

    state: State
    detail: str = ""


def is_offline(env: Mapping[str, str]) -> str | None:
    """Return the variable that forbids requests to the hub, if one is set."""
    names = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    return next((name for name in names if env.get(name, "").lower() in _ON), None)


def endpoint(env: Mapping[str, str]) -> str:
    return (env.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).strip().rstrip("/")


def find_token(env: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the token and its origin: a variable, or the file of ``hf auth login``."""
    if env.get("HF_HUB_DISABLE_IMPLICIT_TOKEN", "").lower() in _ON:
        return None
    for name in TOKEN_VARIABLES:
        if token := env.get(name, "").strip():
            return token, name
    file = Path(env["HF_TOKEN_PATH"]) if env.get("HF_TOKEN_PATH") else hub_home(env) / "token"
    try:
        token = files.read_regular(file.expanduser(), 1 << 16).decode().strip()
    except (OSError, UnicodeDecodeError):
        return None
    return (token, str(file)) if token else None


def hub_home(env: Mapping[str, str]) -> Path:
    """Return the folder where huggingface_hub stores its files."""
    home = env.get("HF_HOME") or Path(env.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return Path(home).expanduser()


def hub_cache(env: Mapping[str, str]) -> Path:
    """Return the cache folder of huggingface_hub."""
    folder = env.get("HF_HUB_CACHE") or env.get("HUGGINGFACE_HUB_CACHE")
    return Path(folder).expanduser() if folder else hub_home(env) / "hub"


def snapshots(name: str, env: Mapping[str, str]) -> Path:
    """Return the folder in the cache with a folder per commit of the model ``name``."""
    return hub_cache(env) / f"models--{name.replace('/', '--')}" / "snapshots"


def check_endpoint(env: Mapping[str, str]) -> Answer | None:
    """Return why nothing may be asked of the endpoint; None if it may be asked."""
    base = endpoint(env)
    try:
        parts = urlsplit(base)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_address = False
    if not is_address:
        return Answer("invalid", f"HF_ENDPOINT={mask_url(base)} is not an http(s) address")
    if find_token(env) and is_cleartext(base, env):
        detail = f"HF_ENDPOINT={mask_url(base)} is plain http, which would show the token to others"
        return Answer("exposed", detail)
    return None


def ask(name: str, env: Mapping[str, str], patience_s: float = PATIENCE_S) -> Answer:
    """Return the state of the model ``name``, within about ``patience_s`` seconds."""
    if (problem := check_endpoint(env)) is not None:
        return problem
    base, token = endpoint(env), find_token(env)
    request = urllib.request.Request(f"{base}/{name}/resolve/main/config.json", method="HEAD")
    if token:
        request.add_unredirected_header("Authorization", f"Bearer {token[0]}")
    answers: SimpleQueue[Answer] = SimpleQueue()
    # A thread, because DNS resolution has no time limit.
    asking = threading.Thread(
        target=lambda: answers.put(_ask(request, env, patience_s)), daemon=True
    )
    asking.start()
    try:
        return answers.get(timeout=patience_s + 1)
    except Empty:
        return Answer("unreachable", f"no answer within {patience_s:g} s")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: Any, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


def _ask(request: urllib.request.Request, env: Mapping[str, str], patience_s: float) -> Answer:
    # The proxies of the run's environment, which the trainer will use.
    names = ("http", "https", "all")
    settings = {
        name: env.get(f"{name}_proxy") or env.get(f"{name.upper()}_PROXY") for name in names
    }
    proxies = {name: address for name, address in settings.items() if address}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies), _NoRedirect)
    try:
        with opener.open(request, timeout=patience_s):
            return Answer("there")
    except urllib.error.HTTPError as error:
        with error:
            return read_refusal(error.code, error.headers, request.has_header("Authorization"))
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError):
            return Answer("unreachable", f"no answer within {patience_s:g} s")
        text = reason.strerror if isinstance(reason, OSError) and reason.strerror else str(reason)
        return Answer("unreachable", " ".join(text.split()))


class Headers(Protocol):
    """The headers of a response, by names in any case."""

    def get(self, key: str, /) -> str | None: ...


def read_refusal(status: int, headers: Headers, has_token: bool) -> Answer:
    """Return what a status other than 200 means; a redirect leads to the file."""
    if 300 <= status < 400:
        return Answer("there")
    code = str(headers.get("X-Error-Code") or "")
    message = " ".join(str(headers.get("X-Error-Message") or "").split())[:160]
    detail = mask_url(jsonl.line(f"{status} {message}".strip()) or str(status))
    if code == "GatedRepo" or (status == 403 and "gated" in message):
        return Answer("gated", detail)
    if code == "EntryNotFound":
        return Answer("empty", detail)
    if code == "RevisionNotFound":
        return Answer("no_revision", detail)
    if code == "RepoNotFound" or status == 404:
        return Answer("missing", detail)
    if status == 401:  # A wrong token or, for a request without a valid one, no such repository.
        return Answer("denied" if has_token and "nvalid" in message else "missing", detail)
    if status == 403:
        return Answer("refused", detail)
    return Answer("busy", detail)


_MESSAGES = Path(__file__).with_suffix(".yaml")
_SET_TOKEN = "set HF_TOKEN: grubrics-tui keys set HF_TOKEN"
_USE_TOKEN = " with the account of this token, and allow it to read gated repositories"


def explain(answer: Answer, page: str, noun: str, env: Mapping[str, str]) -> tuple[str, str]:
    """Return a problem with a repository, to follow its name, and what to do.

    ``page`` is its address below the hub's, ``noun`` what it is. For every state but ``there`` and
    ``empty``.
    """
    token = find_token(env)
    credential = f"the token of {token[1]} ({mask(token[0])})" if token else "HF_TOKEN is not set"
    names = {
        "host": mask_url(endpoint(env)),
        "page": page,
        "noun": noun,
        "detail": answer.detail,
        "set_token": _SET_TOKEN,
        "credential": credential,
        "sent": " was sent" if token else "",
        "no_access": f" has no access ({answer.detail})" if token else "",
        "with_token": _USE_TOKEN if token else f", then {_SET_TOKEN}",
    }
    problem, fix = read_table(_MESSAGES)[answer.state]
    return problem.format(**names), fix.format(**names)
