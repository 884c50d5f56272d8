"""Credentials in texts: found by the values that this process knows and by their shapes.

Everything that leaves a process goes through here where it leaves: files of a run, answers of
commands, errors, notices. ``mask_text`` keeps what surrounds a secret readable, and leaves hashes
alone: commits, fingerprints and run ids are no secrets.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus

_REVEALING_LENGTH = 16
_SHORTEST_VALUE = 6
_SHORTEST_WORD = 8

_SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|WEBHOOK|_PAT$|(?<!^)(?<!^OLD)PWD$", re.IGNORECASE
)
_PASSWORD_NAME = re.compile(r"SECRET|PASS|PWD|CREDENTIAL", re.IGNORECASE)
_NAMES_A_PLACE = re.compile(r"_(PATH|FILE|DIR|HOME|SOCK|ENDPOINT|BASE)$", re.IGNORECASE)
_NO_SECRET_VALUE = re.compile(r"[\d.,:\s-]+|true|false|none|null|yes|no", re.IGNORECASE)
_PATH = re.compile(r"(~|\.{1,2})?(/[\w.@-]+){2,}/?")


def mask(secret: str) -> str:
    """``…a1b2``: the end of a long secret, so that a person can tell which it is."""
    return f"…{secret[-4:]}" if len(secret) >= _REVEALING_LENGTH else "…"


def mask_text(text: str, *also: str, env: Mapping[str, str] | None = None) -> str:
    """``text`` without the secrets in it. ``also`` are values that are secret whatever they are.

    ``env`` (this process's environment) names secrets by its variables' names.
    """
    if not text:
        return text
    known = (*_known(os.environ if env is None else env), *(value for value in also if value))
    return _masker(known).apply(text)


def mask_lines(lines: Iterable[str]) -> list[str]:
    """Each of ``lines`` as ``mask_text`` has it; of thousands at once this costs far less."""
    listed = list(lines)
    masker = _masker(tuple(_known(os.environ))).narrowed("\n".join(listed))
    return [masker.apply(line) for line in listed]


def mask_data(value: Any) -> Any:
    """``value``, as JSON takes it, with every text in it masked; names of fields stay."""
    masker = _masker(tuple(_known(os.environ))).narrowed("\n".join(_texts(value)))
    return _masked_data(value, masker)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def _masked_data(value: Any, masker: _Masker) -> Any:
    if isinstance(value, str):
        return masker.apply(value)
    if isinstance(value, dict):
        return {key: _masked_data(item, masker) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_masked_data(item, masker) for item in value]
    return value


def mask_url(text: str) -> str:
    """``text`` without the logins, secret query values and webhook paths of the URLs in it."""
    return _apply(_IN_URLS, text)


def shown(name: str, value: str) -> str:
    """The value of an environment variable, masked when its name or form says it is a secret."""
    return mask(value) if is_secret_name(name) else mask_text(value)


def is_secret_name(name: str) -> bool:
    """Whether a variable's value is masked whatever it is."""
    return _SECRET_NAME.search(name) is not None


def names_secret(name: str, value: str) -> bool:
    """Whether the variable ``name`` with ``value`` is a secret: its name says so, and its value is
    no flag, number or place."""
    if not is_secret_name(name) or _NAMES_A_PLACE.search(name):
        return False
    return not _NO_SECRET_VALUE.fullmatch(value) and not _PATH.fullmatch(value)


def holds_secret(text: str, env: Mapping[str, str] | None = None) -> bool:
    """Whether ``mask_text`` would change ``text``."""
    return mask_text(text, env=env) != text


@dataclass(frozen=True)
class _Shape:
    """What secrets of one kind look like: the group ``secret`` of ``pattern``, or all of it.

    Texts that hold none of ``hints`` are not searched. A pattern takes time in proportion to the
    text: what repeats inside it is bounded, or cannot begin again within itself.
    """

    hints: tuple[str, ...]
    pattern: str
    flags: int = 0
    reveals: bool = True
    """Whether the end of a long one may be shown."""
    is_cased: bool = False
    """Whether ``hints`` are searched as they are, not in lower case."""
    gate: str = ""
    """A quick pattern that some part of the lowered text matches wherever ``pattern`` does."""

    def is_hinted(self, text: str, lowered: str) -> bool:
        searched = text if self.is_cased else lowered
        for hint in self.hints:  # A generator would take longer than the search.
            if hint in searched:
                return not self.gate or re.search(self.gate, lowered) is not None
        return False

    def apply(self, text: str, lowered: str) -> str:
        if not self.is_hinted(text, lowered):
            return text
        # Compiled on demand: most commands meet no text that needs it.
        return re.compile(self.pattern, self.flags).sub(self._masked, text)

    def _masked(self, match: re.Match[str]) -> str:
        group = "secret" if "secret" in match.re.groupindex else 0
        start, end = (place - match.start() for place in match.span(group))
        whole = match.group()
        return whole[:start] + (mask(whole[start:end]) if self.reveals else "…") + whole[end:]


def _apply(shapes: tuple[_Shape, ...], text: str) -> str:
    lowered = text.lower()
    for shape in shapes:
        text = shape.apply(text, lowered)
    return text


def _token(*prefixes: str, then: str) -> _Shape:
    """Keys that services begin in their own way."""
    begin = "|".join(prefixes)
    hints = tuple(prefix.partition("[")[0].replace("\\", "") for prefix in prefixes)
    return _Shape(hints, rf"(?<![A-Za-z0-9])(?:{begin}){then}", is_cased=True)


_VALUE = (
    r"""(?P<secret>(?![$<{…*]|(?-i:[A-Z][A-Z0-9_]*)(?:["'\s,;)]|$))[^\s"'`,;&)(\]}<>\\]{%d,})"""
)
_ASSIGNED = r"""["']?\]?\s*(?:=>|:=|[:=])\s*\\?["']?"""

_TOKENS = (
    _token("sk-", "pk-lf-", then=r"[A-Za-z0-9_-]{16,}"),
    _token("sk_live_", "sk_test_", "rk_live_", "whsec_", then="[A-Za-z0-9]{16,}"),
    _token("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", then="[A-Za-z0-9_]{20,}"),
    _token("glpat-", "gldt-", "glrt-", "glptt-", "glsoat-", then="[A-Za-z0-9_.-]{16,}"),
    _token("hf_", "api_org_", "r8_", "gsk_", "npm_", "dop_v1_", then="[A-Za-z0-9]{20,}"),
    _token("xox[a-z]-", "xapp-", "xoxe\\.", then="[A-Za-z0-9.-]{10,}"),
    _token("AIza", then="[0-9A-Za-z_-]{30,}"),
    _token("ya29\\.", then="[0-9A-Za-z_.-]{20,}"),
    _token("nvapi-", "pplx-", "xai-", "csk-", "fw_", "tgp_v1_", then="[A-Za-z0-9_-]{20,}"),
    _token("wandb_v1_", "lsv2_pt_", "lsv2_sk_", "shpat_", then="[A-Za-z0-9_]{16,}"),
    _token("pypi-", then="[A-Za-z0-9_-]{40,}"),
    _token("AKIA", "ASIA", then=r"[A-Z0-9]{16}\b"),
    _token("SG\\.", then=r"[\w-]{16,}\.[\w-]{16,}"),
    _token("eyJ", then=r"[\w-]{8,2000}\.[\w-]{8,}\.[\w-]*"),
)
_PEM = _Shape(
    ("private key",),
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----(?P<secret>.*?)(?=-----END|\Z)",
    re.DOTALL,
)
_HEADERS = (
    _Shape(
        ("authorization", "api-key", "auth-token"),
        r"(?i)(?:authorization|x-api-key|api-key|x-auth-token)" + _ASSIGNED + r"(?:(?:bearer"
        r"|basic|token|digest|apikey)\s+)?" + _VALUE % 8,
    ),
    _Shape(("bearer",), r"(?i)bearer\s+(?P<secret>(?=\S*\d)[\w.~+/=-]{8,})"),
    _Shape(("basic",), r"(?i:basic)\s+(?P<secret>(?=\S*(?:[a-z][A-Z]|=))[A-Za-z0-9+/]{8,}=*)"),
)
_SETTINGS = (
    _Shape(
        ("key", "token", "secret"),
        r"(?i)(?<![a-z])(?:api[ _-]?key|access[_-]?key|account[_-]?key|"
        r"private[_-]?key|shared[_-]?access[_-]?key|(?:auth|access|api|hf|bearer|refresh|"
        r"session|wandb)[_-]?token|(?:client|app|shared)?[_-]?secret(?:[_-]?key)?)"
        + _ASSIGNED
        + _VALUE % 8,
        gate="(?:key|token|secret)" + _ASSIGNED,
    ),
    _Shape(
        ("KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL"),
        r"\b[A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)"
        + _ASSIGNED
        + r"(?!\d+\b)"
        + _VALUE % 8,
        is_cased=True,
    ),
    _Shape(
        ("passw", "passphrase", "pwd"),
        r"(?i)(?:passwo?r?d|passphrase|(?<![a-z])pwd)" + _ASSIGNED + r"(?!/)" + _VALUE % 4,
    ),
    _Shape(
        ("password", "passphrase"),
        r"(?i)(?:password|passphrase)\s+(?:is\s+|was\s+)?(?P<q>[\"'])(?P<secret>[^\"'\s]{4,})(?P=q)",
    ),
    _Shape(
        ("--",),
        r"(?i)(?<!-)--[\w-]{0,60}(?:api-?key|token|password|secret)(?:=|\s+)(?!-)[\"']?"
        + _VALUE % 6,
    ),
    _Shape(
        ("-u", "--user", "--proxy-user"),
        r"(?:^|[\s\[,\"'])(?:-u|--user|--proxy-user)(?:=|[\s,\"']{1,9})[^\s,:\"'][^\s:\"']{0,200}:(?P<secret>[^\s\"',]+)",
    ),
    _Shape(
        ("key", "wandb", "login"),
        r"(?i)(?:api[\s_-]?keys?|wandb|login|relogin|wandb_key)(?:\s+(?:is|provided|key))?"
        r"[\s:='\"(]{1,6}(?P<secret>[0-9a-f]{40})(?![0-9a-f])",
    ),
)
_IN_URLS = (
    _Shape(("://",), r"(?<=://)(?P<secret>[^/\s\"'<>]+)(?=@)", reveals=False),
    _Shape(
        ("=",),
        r"(?i)[?&#;](?:[\w.-]*(?:key|token|secret|signature|password|passwd|credential)|sig|code"
        r"|pwd|pass|jwt|auth|session|sid)=(?!…)(?P<secret>[^&#;\s\"'<>]+)",
        reveals=False,
    ),
    _Shape(
        ("hooks.slack.com", "/api/webhooks/", "webhook.office.com"),
        r"(?i)(?:hooks\.slack\.com/|discord(?:app)?\.com/api/webhooks/|webhook\.office\.com/)"
        r"(?!…)(?P<secret>[^\s\"'<>]+)",
        reveals=False,
    ),
)
_SHAPES = (_PEM, *_IN_URLS, *_HEADERS, *_TOKENS, *_SETTINGS)


@dataclass(frozen=True)
class _Masker:
    values: tuple[str, ...]
    """Longest first: one may be a part of another."""
    shapes: tuple[_Shape, ...] = _SHAPES

    def narrowed(self, text: str) -> _Masker:
        """A masker for any part of ``text``, without what cannot be in it."""
        lowered, joined = text.lower(), text.translate(_WITHOUT_SPLITS)
        return _Masker(
            tuple(v for v in self.values if v in joined or any(f in text for f in _forms(v))),
            tuple(shape for shape in self.shapes if shape.is_hinted(text, lowered)),
        )

    def apply(self, text: str) -> str:
        if not self.values and not self.shapes:
            return text
        for value in self.values:
            for form in _forms(value):
                if form in text:
                    text = text.replace(form, mask(value))
        for value in self.values:
            text = _unsplit(text, value)
        return _apply(self.shapes, text)


@lru_cache(maxsize=64)
def _masker(values: tuple[str, ...]) -> _Masker:
    return _Masker(tuple(sorted(set(values), key=len, reverse=True)))


def _known(env: Mapping[str, str]) -> Iterator[str]:
    """The secrets that variables hold, as their names and their logins in URLs say."""
    for name, value in env.items():
        yield from _secrets_in(name, value)


@lru_cache(maxsize=1024)
def _secrets_in(name: str, value: str) -> tuple[str, ...]:
    """Those of one variable."""
    value = value.strip()
    if "://" in value:
        return tuple(_URL_PASSWORD.findall(value))
    if not _SECRET_NAME.search(name) or not _is_secret_value(name, value):
        return ()
    lines = (line for line in value.splitlines()[1:] if len(line) >= _REVEALING_LENGTH)
    return (value, *lines)


_URL_PASSWORD = re.compile(r"://[^/\s:@]*:([^/\s]{6,})@")


def _is_secret_value(name: str, value: str) -> bool:
    """Not a flag, a number, a place, or a short word that other texts have too."""
    if len(value) < _SHORTEST_VALUE or not names_secret(name, value):
        return False
    return not value.isalpha() or len(value) >= _SHORTEST_WORD or bool(_PASSWORD_NAME.search(name))


@lru_cache(maxsize=256)
def _forms(value: str) -> tuple[str, ...]:
    """How a secret is written: plain, quoted for URLs, JSON and Python, in base64 and in hex."""
    raw = value.encode("utf-8", "surrogateescape")
    forms = {
        value,
        quote(value, safe=""),
        quote_plus(value),
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        repr(value)[1:-1],
        raw.hex(),
        raw.hex().upper(),
        *_in_base64(raw),
    }
    return tuple(sorted(forms, key=len, reverse=True))


def _in_base64(raw: bytes) -> Iterator[str]:
    """The characters that ``raw`` alone decides, at each of its three places in a longer text."""
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + raw).decode().rstrip("=")
        first = -(-before * 8 // 6)
        certain = encoded[first : (before + len(raw)) * 8 // 6]
        if len(certain) >= _SHORTEST_WORD:
            yield certain
            yield certain.replace("+", "-").replace("/", "_")


_SPLITTING = "\"'`\\+ \n"
_WITHOUT_SPLITS = str.maketrans("", "", _SPLITTING)
_SPLIT = r"(?:[\"'`\\]+(?:\s*\+?\s*[\"'`]+)?)?"


def _unsplit(text: str, value: str) -> str:
    """``text`` without a ``value`` that quotes divide, as in ``sk-"ab"'cd'``."""
    if not any(sign in text for sign in "\"'`\\") or any(sign in value for sign in _SPLITTING):
        return text
    if value not in text.translate(_WITHOUT_SPLITS):
        return text
    return re.sub(_SPLIT.join(map(re.escape, value)), lambda _: mask(value), text)
