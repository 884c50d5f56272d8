"""What secrets look like: the names they are assigned to, keys of services, and logins in URLs.

docs/security.md says what is covered and what is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

MASK = "…"
"""What a masked word begins with."""
_REVEALING_LENGTH = 16


def mask(secret: str) -> str:
    """``…a1b2``: the end of a long secret, so that a person can tell which it is."""
    return f"{MASK}{secret[-4:]}" if len(secret) >= _REVEALING_LENGTH else MASK


_VARIABLE = re.compile(
    r"(?:SECRET|PASSW|PASSPHRASE|CREDENTIAL|WEBHOOK|API_?KEY|(?:API|ACCESS|AUTH|HF)_?TOKEN"
    r"|(?:KEY|TOKEN|_PAT|_PWD)[_\d]*$)(?!.*_(?:PATH|FILE|DIR|HOME|SOCK|ENDPOINT|BASE)$)",
    re.IGNORECASE,
)
_LABELS = "|".join(
    (
        *(f"{what}[ _-]?key" for what in ("api", "access", "account", "private", "secret")),
        *(f"{what}[_-]?token" for what in ("api", "access", "auth", "hf", "refresh", "session")),
        *("secret", "password", "passwd", "passphrase", "pwd", "authorization"),
    )
)
_CAPITALS = "TOKEN|PAT(?<=_PAT)|CREDENTIALS?"
_IS_SURE = re.compile(rf"(?:(?i:{_LABELS}|^--.*token)|{_CAPITALS})$")
_IS_LABEL = re.compile(rf"(?:(?i:{_LABELS}|token)|{_CAPITALS}|KEY)$")
_PASSWORD = re.compile(r"pass|pwd", re.IGNORECASE)
_COLUMN = re.compile(r"[A-Za-z_.]+\d{0,2}")
"""What ``PRIMARY_KEY`` and the like have as their values."""
_PLACEHOLDER = re.compile(
    r"<.*>|\{\{?[\w .-]*\}?\}|(?:sk-|hf_)?(?:x{3,}|[*]{3,}|\.{3,}|…)"
    r"|todo|tbd|empty|dummy|placeholder"
    r"|(?:your|my|replace|change|insert|enter|put|fill|add)(?:[_ -]?(?:this|me|it|in|here|with|your"
    r"|my|own|the|api|key|token|secret|password|wandb|hf|openai|value|actual|real|to))+",
    re.IGNORECASE,
)
"""What a script has where its user is to write a secret."""
_PLAIN = re.compile(
    r"[\d.,:e\s\[\]+-]+|(?i:true|false|none|null|yes|no)|(?:~|\.{1,2})?(?:/[\w.@-]+){2,}/?"
    r"|\$[{A-Z].*|[A-Z][A-Z_]*|….*"
)
"""Numbers, flags and paths; a reference such as ``${...}``, and what is masked already."""


def is_secret_name(name: str) -> bool:
    """Whether the value of a variable of that name is always masked."""
    return _VARIABLE.search(name) is not None


def names_secret(name: str, value: str) -> bool:
    """Whether the variable ``name`` with ``value`` is a secret: it has a secret name, and its value
    is no flag, number, path or placeholder."""
    may_be_column = name.upper().endswith("KEY") and not is_sure_label(name)
    is_column = may_be_column and _COLUMN.fullmatch(value) is not None
    return is_secret_name(name) and not is_column and not _is_plain(value)


def is_sure_label(name: str) -> bool:
    """Whether a field or key of that name, such as ``api_key``, holds nothing but secrets."""
    return _IS_SURE.search(name) is not None


def is_label(name: str) -> bool:
    """Whether what has that name may be a secret."""
    return _IS_LABEL.search(name) is not None


def labels_secret(name: str, value: str) -> bool:
    """Whether a field, an option or an assignment of that name, with ``value``, holds a secret."""
    is_password = _PASSWORD.search(name) is not None
    if len(value) < (4 if is_password else 8) or not is_label(name) or _is_plain(value):
        return False
    if is_sure_label(name):
        # A word is prose, or a name in code: "InvalidAuthToken: Authentication failed".
        return is_password or not value.isalpha()
    return not _COLUMN.fullmatch(value) and any(map(str.isdigit, value))


def _is_plain(value: str) -> bool:
    return bool(_PLAIN.fullmatch(value) or _PLACEHOLDER.fullmatch(value))


def is_placeholder(value: str) -> bool:
    """Whether a text stands where a secret is to be written."""
    return not value or _PLACEHOLDER.fullmatch(value) is not None


@dataclass(frozen=True)
class Shape:
    """What secrets of one kind look like: the group ``secret`` of ``pattern``.

    The pattern is matched with the text in lower case, and only if that holds one of ``hints``. It
    takes time in proportion to the text: what repeats in it cannot begin again within itself.
    """

    hints: tuple[str, ...]
    pattern: str
    accepts: Callable[[str, str], bool] = lambda name, secret: True
    """Whether a match is a secret, by its group ``name``, if any, and its group ``secret``."""
    is_cased: bool = False
    """Whether the pattern is matched with the text itself."""
    reveals: bool = True
    """Whether the end of a long one is shown."""

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        """Compiled on demand: most commands meet no text that needs it."""
        return re.compile(self.pattern)

    def narrowed(self, lowered: str) -> Shape:
        """The shape for parts of a text, which is given in lower case: with the hints in it."""
        return replace(self, hints=tuple(hint for hint in self.hints if hint in lowered))

    def apply(self, text: str, lowered: str) -> str:
        """Return the text with the secrets of this kind masked; the same object if it has none."""
        for hint in self.hints:
            if hint in lowered:
                break
        else:
            return text
        parts, end = list[str](), 0
        for match in self._compiled.finditer(text if self.is_cased else lowered):
            start, stop = match.span("secret")
            secret, name = text[start:stop], match.groupdict().get("name", "")
            if self.accepts(name, secret):
                parts += (text[end:start], mask(secret) if self.reveals else MASK)
                end = stop
        return "".join((*parts, text[end:])) if parts else text


def apply_shapes(shapes: tuple[Shape, ...], text: str) -> str:
    lowered = _lower(text)
    for shape in shapes:
        masked = shape.apply(text, lowered)
        if masked is not text:
            text, lowered = masked, _lower(masked)
    return text


def _lower(text: str) -> str:
    """The text in lower case, with each character in its place: only this one becomes two."""
    return text.replace("\u0130", "i").lower()


KEY_PREFIXES = {
    "OpenAI, Anthropic, DeepSeek, OpenRouter": ("sk-",),
    "Hugging Face": ("hf_", "api_org_"),
    "W&B": ("wandb_v1_",),
    "GitHub": ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    "GitLab": ("glpat-",),
    "AWS": ("AKIA", "ASIA"),
    "Google": ("AIza", "ya29."),
    "Slack": ("xoxa-", "xoxb-", "xoxp-", "xoxe.", "xapp-"),
    "Stripe": ("sk_live_", "sk_test_", "rk_live_", "whsec_"),
    "NVIDIA": ("nvapi-",),
    "Groq": ("gsk_",),
    "xAI": ("xai-",),
    "Perplexity": ("pplx-",),
    "Cerebras": ("csk-",),
    "Fireworks": ("fw_",),
    "Together": ("tgp_v1_",),
    "Replicate": ("r8_",),
    "LangSmith": ("lsv2_pt_", "lsv2_sk_"),
    "RunPod": ("rpa_",),
    "npm": ("npm_",),
    "PyPI": ("pypi-",),
    "Docker": ("dckr_pat_",),
    "Databricks": ("dapi",),
    "Vault": ("hvs.", "hvb."),
    "Atlassian": ("ATATT",),
    "Supabase": ("sbp_",),
    "DigitalOcean": ("dop_v1_",),
    "SendGrid": ("SG.",),
    "JSON web tokens": ("eyJ",),
}
"""How the keys of services begin."""
_PREFIXES = tuple(prefix for prefixes in KEY_PREFIXES.values() for prefix in prefixes)
_RANDOM = re.compile(
    r"(?=[A-Za-z]{0,11}\d)(?=\d{0,11}[A-Za-z])[A-Za-z\d]{12}|[A-Za-z\d]{20}", re.ASCII
)
"""What a key has and a name of words, such as ``sk-learn-version-1-2-3``, has not."""


def _is_key(_name: str, text: str) -> bool:
    is_whole = not text.startswith("eyJ") or text.count(".") == 2
    return is_whole and _RANDOM.search(text) is not None


def _is_login(_name: str, text: str) -> bool:
    """``Bearer`` and ``Basic`` are words, too, and other words follow those."""
    return re.search(r"\d|[a-z][A-Z]|=", text) is not None


_KEYS = Shape(
    tuple(prefix.lower() for prefix in _PREFIXES),
    # A word also begins behind an escape: \nsk-... in a quoted text, %22sk-... in a URL.
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-F]{2}))"
    rf"(?P<secret>(?:{'|'.join(map(re.escape, _PREFIXES))})[\w-]{{16,}}(?:\.[\w-]+)*)",
    _is_key,
    is_cased=True,
)
_PEM = Shape(
    ("-----begin",),
    r"(?s)-----begin [a-z0-9 ]*private key(?: block)?-----(?P<secret>.*?)(?=-----end|\Z)",
)
_LOGIN = Shape(("bearer", "basic"), r"(?:bearer|basic)\s+(?P<secret>[\w.~+/-]{8,}=*)", _is_login)
_WANDB = Shape(
    ("wandb login", "wandb.login"),
    r"wandb[ .]login(?:\(key=| --relogin)?[ '\"]{1,3}(?P<secret>[0-9a-f]{40})\b",
)
_SIGN = r"""[\\"'\]]{0,6}\s{0,9}(?:=>|:=|[:=]|%3[adAD])\s{0,9}"""
_VALUE = (
    r"""(?:\\{0,3}b?["']{1,2})?(?:(?:bearer|basic|token|digest)\s{1,9})?"""
    r"""(?P<secret>(?<=")[^\s"\\]{4,}(?=["\\])|(?<=')[^\s'\\]{4,}(?=['\\])"""
    r"""|[^\s"'`,;&()\[\]{}<>\\]{4,}+(?![(\[]))"""
)
_ASSIGNED = (
    Shape(
        ("key", "token", "secret", "pass", "pwd", "authorization"),
        rf"(?P<name>{_LABELS}|token){_SIGN}{_VALUE}",
        labels_secret,
    ),
    Shape(
        ("key", "token", "_pat", "credential"),
        rf"(?P<name>KEY|{_CAPITALS}){_SIGN}{_VALUE}",
        labels_secret,
        is_cased=True,
    ),
    # Only an option has its value behind a blank, or in the next word of a list.
    Shape(
        ("--",),
        rf"""(?<![\w-])(?P<name>--[\w-]*(?:{_LABELS}|token))["',\s]{{1,9}}{_VALUE}""",
        labels_secret,
    ),
)
IN_URLS = (
    # A path keeps one slash of two.
    Shape((":/", "//"), r"(?<=[:/]/)(?!git@)(?P<secret>[^/\s\"'<>]+)(?=@)", reveals=False),
    Shape(
        ("=",),
        r"[?&#;](?:[\w.-]*(?:key|token|secret|signature|password|passwd|credential)|sig|code|pwd"
        r"|pass|jwt|auth|session|sid)=(?!…|\d{1,5}\b)(?P<secret>[^&#;\s\"'<>]+)",
        reveals=False,
    ),
    Shape(
        ("hooks.slack.com", "/api/webhooks/", "webhook.office.com"),
        r"(?:hooks\.slack\.com/|discord(?:app)?\.com/api/webhooks/|webhook\.office\.com/)(?!…)"
        r"(?P<secret>[^\s\"'<>]+)",
        reveals=False,
    ),
)

SHAPES = (_PEM, *IN_URLS, _LOGIN, _KEYS, _WANDB, *_ASSIGNED)
