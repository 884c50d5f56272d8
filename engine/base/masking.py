"""Mask secrets in all that leaves a process: files of a run, answers, errors, notices.

A secret is one of four things. docs/security.md says what is not found.

1. The value of a variable with a secret name, also as URLs, JSON and base64 write it.
2. What is assigned to a secret name: ``NAME=value``, ``"name": "value"``, ``--name value``.
3. A key that begins as the keys of a service do.
4. The login, a parameter or the path of a webhook in a URL.
"""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import count
from typing import Any
from urllib.parse import quote, quote_plus, unquote

MASK = "…"
"""What a masked word begins with."""
KEY_PREFIXES = {
    "OpenAI, Anthropic, DeepSeek, OpenRouter": "sk-",
    "Hugging Face": "hf_ api_org_",
    "W&B": "wandb_v1_",
    "GitHub": "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
    "GitLab": "glpat-",
    "AWS": "AKIA ASIA",
    "Google": "AIza ya29.",
    "Slack": "xoxa- xoxb- xoxp- xoxe. xapp-",
    "Stripe": "sk_live_ sk_test_ rk_live_ whsec_",
    "NVIDIA": "nvapi-",
    "Groq": "gsk_",
    "xAI": "xai-",
    "Perplexity": "pplx-",
    "Cerebras": "csk-",
    "Fireworks": "fw_",
    "Together": "tgp_v1_",
    "Replicate": "r8_",
    "LangSmith": "lsv2_pt_ lsv2_sk_",
    "RunPod": "rpa_",
    "npm": "npm_",
    "PyPI": "pypi-",
    "Docker": "dckr_pat_",
    "Databricks": "dapi",
    "Vault": "hvs. hvb.",
    "Atlassian": "ATATT",
    "Supabase": "sbp_",
    "DigitalOcean": "dop_v1_",
    "SendGrid": "SG.",
    "JSON web tokens": "eyJ",
}
"""How the keys of services begin."""

_WORDS = "|".join(
    (
        *(f"{word}[ _-]?key" for word in ("api", "access", "account", "private", "secret")),
        *(f"{word}[ _-]?token" for word in ("api", "access", "auth", "hf", "refresh", "session")),
        *("secret", "password", "passwd", "passphrase", "authorization"),
    )
)
_SECRET_NAME = re.compile(
    rf"(?:(?i:{_WORDS}|^--.*token$)|^[Pp]wd$|CREDENTIAL|WEBHOOK|(?:TOKEN|_PAT|_PWD)[_\d]*$)"
    r"(?!.*_(?i:path|file|dir|home|sock|endpoint|base)$)"
)
_DOUBTFUL_NAME = re.compile(r"(?:key|token)[_\d]*$", re.IGNORECASE)
"""Of secrets, but also of columns and words: ``PRIMARY_KEY``, ``eos_token``."""
_CONFIG_NAME = re.compile(r"credential|signature|^(?:key|token|sig|auth)$", re.IGNORECASE)
"""What only a secret is called in a config."""
_PARAMETER = (
    r"(?:[\w.-]*(?:key|token|secret|signature|password|passwd|credential)|sig|code|pwd|pass|jwt"
    "|auth|session|sid)"
)
_PASSWORD = re.compile(r"pass|pwd", re.IGNORECASE)
_COLUMN = re.compile(r"[A-Za-z_.]+\d{0,2}")
_PLAIN = re.compile(
    r"[\d.,:e\s\[\]+-]+|(?i:true|false|none|null|yes|no)|(?:~|\.{1,2})?(?:/[\w.@-]+){2,}/?"
    r"|\$[{A-Z].*|[A-Z][A-Z_]*|….*"
)
"""Numbers, flags and paths; a reference such as ``${...}``, and what is masked already."""
_PLACEHOLDER = re.compile(
    r"|<.*>|\{\{?[\w .-]*\}?\}|(?:sk-|hf_)?(?:x{3,}|[*]{3,}|\.{3,}|…)"
    r"|todo|tbd|empty|dummy|placeholder"
    r"|(?:your|my|replace|change|insert|enter|put|fill|add)(?:[_ -]?(?:this|me|it|in|here|with|your"
    r"|my|own|the|api|key|token|secret|password|wandb|hf|openai|value|actual|real|to))+",
    re.IGNORECASE,
)


def is_secret_name(name: str) -> bool:
    """Whether the value of a variable of that name is always masked."""
    return _SECRET_NAME.search(name) is not None or _DOUBTFUL_NAME.search(name) is not None


def is_secret_key(key: str) -> bool:
    """Whether the last part of a config key is the name of a secret."""
    name = key.rpartition(".")[2]
    return _SECRET_NAME.search(name) is not None or _CONFIG_NAME.search(name) is not None


def is_placeholder(value: str) -> bool:
    """Whether a text stands where a person is to write a secret."""
    return _PLACEHOLDER.fullmatch(value) is not None


def is_secret(name: str, value: str) -> bool:
    """Whether a variable is a secret: a flag, a number, a path, a placeholder or the name of a
    column is none, whatever it is called."""
    if not is_secret_name(name) or _PLAIN.fullmatch(value) or is_placeholder(value):
        return False
    return _SECRET_NAME.search(name) is not None or _COLUMN.fullmatch(value) is None


def _is_assigned(name: str, value: str) -> bool:
    """Whether a field, an option or an assignment is a secret, and not prose or code."""
    is_password = _PASSWORD.search(name) is not None
    if len(value) < (4 if is_password else 8):
        return False
    if is_password and value.isdigit():
        return True
    if not is_secret(name, value):
        return False
    if _SECRET_NAME.search(name):
        return is_password or not value.isalpha()
    return not name.endswith("key") and " " not in value and any(map(str.isdigit, value))


def mask(secret: str) -> str:
    """``…a1b2``: the end of a long secret, so that a person can tell which it is."""
    return f"{MASK}{secret[-4:]}" if len(secret) >= 16 and secret[-4:].isalnum() else MASK


@lru_cache(maxsize=1024)
def _secrets_in(name: str, value: str) -> tuple[str, ...]:
    """The secrets in a variable. Short words, which other texts may contain, do not count."""
    value = value.strip()
    if "://" in value:
        passwords = re.findall(r"://[^/\s:@]*:([^/\s]{6,})@", value)
        return (*passwords, *map(unquote, passwords))
    is_word = len(value) < (8 if value.isalpha() else 6)
    return () if is_word or not is_secret(name, value) else (value,)


@lru_cache(maxsize=64)
def _masks_of(secrets: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """How each secret may be written, and its mask; longest first: one may be a part of another."""
    masks: dict[str, str] = {}
    for secret in secrets:
        forms = [secret, quote(secret, safe=""), quote_plus(secret)]
        forms += [json.dumps(secret, ensure_ascii=ascii)[1:-1] for ascii in (True, False)]
        if len(secret) >= 6:
            data, encoders = (
                secret.encode("utf-8", "surrogateescape"),
                (b64encode, urlsafe_b64encode),
            )
            forms += [encode(data).decode().rstrip("=") for encode in encoders]
        masks |= dict.fromkeys(forms, mask(secret))
    return tuple(sorted(masks.items(), key=lambda item: (-len(item[0]), item)))


@dataclass(frozen=True)
class _Shape:
    """What secrets of one kind look like: the group ``secret`` of ``pattern``.

    The pattern is searched in lower case, where one of ``hints`` is. It takes time in proportion to
    the text: what repeats in it cannot begin again within itself.
    """

    hints: tuple[str, ...]
    pattern: str
    accepts: Callable[[str, str], bool] = lambda name, secret: True
    """Whether a match is a secret, by its group ``name``, if any, and its group ``secret``."""
    is_cased: bool = False
    """Whether the pattern is searched in the text itself."""
    masks: Callable[[str], str] = mask

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        """Compiled on demand: most commands meet no text that needs it."""
        return re.compile(self.pattern)

    def apply(self, text: str, lowered: str) -> str:
        """Return the text with the secrets masked; the same object if it has none."""
        for hint in self.hints:
            if hint in lowered:
                break
        else:
            return text
        parts, end = list[str](), 0
        for match in self._compiled.finditer(text if self.is_cased else lowered):
            start, stop = match.span("secret")
            name = text[slice(*match.span("name"))] if "name" in match.re.groupindex else ""
            if self.accepts(name, text[start:stop]):
                parts += (text[end:start], self.masks(text[start:stop]))
                end = stop
        return "".join((*parts, text[end:])) if parts else text


def _is_key(_name: str, key: str) -> bool:
    """``sk-learn-version-1-2-3`` is a name: it has no part that looks random."""
    is_whole = not key.startswith("eyJ") or key.count(".") == 2
    random = r"(?=[A-Za-z]{0,11}\d)(?=\d{0,11}[A-Za-z])[A-Za-z\d]{12}|[A-Za-z\d]{20}"
    return is_whole and re.search(random, key, re.ASCII) is not None


_PREFIXES = tuple(prefix for prefixes in KEY_PREFIXES.values() for prefix in prefixes.split())
_SIGN = r"""[\\"'\]]{0,6}\s{0,9}(?:=>|:=|[:=]|%3[adAD])\s{0,9}"""
_VALUE = (
    r"""(?:\\{0,3}b?["']{1,2})?(?:(?:bearer|basic|token|digest)\s{1,9})?(?P<secret>"""
    # Between quotes; between quotes that are quoted; without quotes, and no name of a function.
    r"""(?<=[^\\]")(?![\s,+)])(?:[^"\\\n\0]|\\.){4,}+(?=")|(?<=['"])[^\s'"\\]{4,}(?=['"\\])"""
    r"""|[^\s"'`,;&()\[\]{}<>\\]{4,}+(?![(\[]))"""
)
_IN_URLS = (
    # A path keeps one slash of two.
    _Shape((":/", "//"), r"(?<=[:/]/)(?!git@)(?P<secret>[^/\s\"'<>]+)(?=@)", masks=lambda _: MASK),
    _Shape(
        ("=",),
        rf"[?&#;]{_PARAMETER}=(?!…|\d{{1,5}}\b)(?P<secret>[^&#;\s\"'<>\\]+)",
        masks=lambda _: MASK,
    ),
    _Shape(
        ("hooks.slack.com", "/api/webhooks/", "webhook.office.com"),
        r"(?:hooks\.slack\.com/|discord(?:app)?\.com/api/webhooks/|webhook\.office\.com/)(?!…)"
        r"(?P<secret>[^\s\"'<>\\]+)",
        masks=lambda _: MASK,
    ),
)
_SHAPES = (
    _Shape(
        ("-----begin",),
        r"-----begin [a-z0-9 ]*private key(?: block)?-----"
        r"(?P<secret>[^\"\0]*?)(?=-----end|\\?\"|\0|\Z)",
    ),
    *_IN_URLS,
    _Shape(
        ("bearer", "basic"),
        r"(?:bearer|basic)\s+(?P<secret>[\w.~+/-]{8,}=*)",
        # Both are words, too, and other words follow those.
        lambda _, text: re.search(r"\d|[a-z][A-Z]|=", text) is not None,
    ),
    _Shape(
        tuple(prefix.lower() for prefix in _PREFIXES),
        # A word also begins behind an escape: \nsk-... in a quoted text, %22sk-... in a URL.
        r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-F]{2}))"
        rf"(?P<secret>(?:{'|'.join(map(re.escape, _PREFIXES))})[\w-]{{16,}}(?:\.[\w-]+)*)",
        _is_key,
        is_cased=True,
    ),
    _Shape(
        ("wandb login", "wandb.login"),
        r"wandb[ .]login(?:\(key=| --relogin)?[ '\"]{1,3}(?P<secret>[0-9a-f]{40})\b",
    ),
    _Shape(
        ("key", "token", "secret", "pass", "pwd", "authorization"),
        rf"(?P<name>{_WORDS}|token|pwd)[_\d]*{_SIGN}{_VALUE}",
        _is_assigned,
    ),
    _Shape(
        ("key", "_pat", "_pwd", "credential", "webhook"),
        rf"(?P<name>KEY|PAT(?<=_PAT)|PWD(?<=_PWD)|CREDENTIALS?|WEBHOOK)[_\d]*{_SIGN}{_VALUE}",
        lambda name, value: _is_assigned(f"_{name}", value),
        is_cased=True,
    ),
    # Only an option has its value behind a blank, or in the next word of a list.
    _Shape(
        ("--",),
        rf"""(?<![\w-])(?P<name>--[\w-]*(?:{_WORDS}|token))["',\s]{{1,9}}{_VALUE}""",
        _is_assigned,
    ),
)


def _apply(shapes: Iterable[_Shape], text: str) -> str:
    lowered = _lower(text)
    for shape in shapes:
        masked = shape.apply(text, lowered)
        if masked is not text:
            text, lowered = masked, _lower(masked)
    return text


def _lower(text: str) -> str:
    """The text in lower case, with each character in its place: only this one becomes two."""
    return text.replace("\u0130", "i").lower()


def _without_colors(text: str) -> str:
    has_colors = "\x1b[" in text or "\\u001b[" in text
    return re.sub(r"(?:\x1b|\\u001b)\[[0-9;:]*m", "", text) if has_colors else text


def mask_text(text: str, *also: str, env: Mapping[str, str] | None = None) -> str:
    """``text`` without the secrets in it. The values ``also`` are always secret.

    ``env`` (default: this process's environment) holds secrets in variables with secret names.
    """
    return _mask_parts(text, "\n", also, os.environ if env is None else env)


_BETWEEN = "\n\0\n"
"""What no secret contains."""


def mask_lines(lines: Iterable[str]) -> list[str]:
    """Mask each of ``lines`` as ``mask_text`` does; much faster for thousands of them."""
    listed = list(lines)
    parts = _mask_parts(_BETWEEN.join(listed), _BETWEEN, (), os.environ).split(_BETWEEN)
    return parts if len(parts) == len(listed) else [mask_text(line) for line in listed]


def _mask_parts(text: str, between: str, also: Iterable[str], env: Mapping[str, str]) -> str:
    """A text, masked. Its parts with a secret lose their colors: one can be before the secret."""
    masked = plain = _without_colors(text)
    secrets = {secret for item in env.items() for secret in _secrets_in(*item)}
    for form, hidden in _masks_of(frozenset((*secrets, *filter(None, also)))):
        masked = masked.replace(form, hidden)
    masked = _apply(_SHAPES, masked)
    if masked == plain or plain == text:
        return text if masked == plain else masked
    parts = [each.split(between) for each in (text, plain, masked)]
    if len({*map(len, parts)}) > 1:  # A private key had several lines.
        return masked
    return between.join(p if old == new else new for p, old, new in zip(*parts, strict=True))


_OPTION = re.compile(r"-[\w-]+")


def mask_words(words: Sequence[str]) -> list[str]:
    """The words of a command, masked. An option with a secret name, such as ``--api-key``, hides
    its value, and so does ``API_KEY=VALUE``."""
    return [_mask_word(*pair) for pair in zip(("", *words), words, strict=False)]


def _mask_word(option: str, word: str) -> str:
    """A word, which may be ``API_KEY=VALUE``, behind another one, which may be ``--api-key``."""
    if _OPTION.fullmatch(option) and _is_assigned(option, word):
        return mask(word)
    before, _, value = word.partition("=")
    (name,) = re.findall(r"[\w-]*\Z", before)[:1]
    return f"{before}={mask(value)}" if _is_assigned(name, value) else mask_text(word)


def mask_data(value: Any) -> Any:
    """A JSON value with every text in it masked, names of fields too.

    A name may mark a text as secret: ``{"api_key": ...}``, ``["--api-key", ...]``.
    """
    texts = dict.fromkeys(_texts(value))
    return _masked_data(value, dict(zip(texts, mask_lines(texts), strict=True)))


def _texts(value: Any) -> Iterator[str]:
    """The texts in a JSON value, and the names of its fields."""
    unvisited = [value]
    while unvisited:
        item = unvisited.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            unvisited.extend((*item, *item.values()))
        elif isinstance(item, list | tuple):
            unvisited.extend(item)


def _masked_data(value: Any, masks: Mapping[str, str], name: str = "") -> Any:
    """``name`` is that of the field which holds ``value``, or of the option before it."""
    if isinstance(value, str):
        return mask(value) if name and _is_assigned(name, value) else masks[value]
    if isinstance(value, dict):
        names = _distinct(masks.get(field, field) for field in value)
        fields = zip(names, value.items(), strict=True)
        return {shown: _masked_data(item, masks, str(field)) for shown, (field, item) in fields}
    if isinstance(value, list | tuple):
        texts = (item if isinstance(item, str) else "" for item in ("", *value))
        options = (text if _OPTION.fullmatch(text) else "" for text in texts)
        return [_masked_data(v, masks, o) for o, v in zip(options, value, strict=False)]
    return value


def distinct_masked(names: Iterable[str]) -> list[str]:
    """Different names, each masked, and still different."""
    return _distinct(mask_lines(names))


def _distinct(names: Iterable[Any]) -> list[Any]:
    taken: dict[Any, None] = {}
    for name in names:
        numbered = (name if number == 1 else f"{name} ({number})" for number in count(1))
        taken[next(other for other in numbered if other not in taken)] = None
    return list(taken)


def mask_url(text: str) -> str:
    """``text`` without the logins, secret parameters and webhook paths of the URLs in it."""
    return _apply(_IN_URLS, text)


def shown(name: str, value: str) -> str:
    """The value of an environment variable, masked if its name or its shape is that of a secret."""
    return mask(value) if is_secret_name(name) else mask_text(value)


def holds_secret(text: str, env: Mapping[str, str] | None = None) -> bool:
    return mask_text(text, env=env) != text


def holds_credentials(text: str) -> bool:
    """Whether a text is a login at a host, or an address with a login or a key."""
    return re.match(r"[^\s/@:]+:[^\s/@]+@[\w.-]+", text) is not None or mask_url(text) != text
