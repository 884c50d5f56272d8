"""What secrets look like: keys of services, and what stands where secrets do.

docs/security.md says what is not covered.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MASK = "…"
"""What a masked word begins with."""
_REVEALING_LENGTH = 16


def mask(secret: str) -> str:
    """``…a1b2``: the end of a long secret, so that a person can tell which it is."""
    return f"{MASK}{secret[-4:]}" if len(secret) >= _REVEALING_LENGTH else MASK


@dataclass(frozen=True)
class Shape:
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
    """A quick pattern that must match the lowered text for ``pattern`` to match."""

    def may_be_in(self, text: str, lowered: str) -> bool:
        """Whether ``text``, or ``lowered``, holds a hint and passes the gate."""
        searched = text if self.is_cased else lowered
        for hint in self.hints:
            if hint in searched:
                return not self.gate or re.search(self.gate, lowered) is not None
        return False

    def apply(self, text: str, lowered: str) -> str:
        if not self.may_be_in(text, lowered):
            return text
        # Compiled on demand: most commands meet no text that needs it.
        return re.compile(self.pattern, self.flags).sub(self._masked, text)

    def is_found(self, text: str) -> bool:
        return re.compile(self.pattern, self.flags).search(text) is not None

    def _masked(self, match: re.Match[str]) -> str:
        group = "secret" if "secret" in match.re.groupindex else 0
        start, end = (offset - match.start() for offset in match.span(group))
        text = match.group()
        return text[:start] + (mask(text[start:end]) if self.reveals else "…") + text[end:]


def apply_shapes(shapes: tuple[Shape, ...], text: str) -> str:
    lowered = text.lower()
    for shape in shapes:
        text = shape.apply(text, lowered)
    return text


_BLANK = r"(?:\s|%20|\\{1,4}[nrt])"
_ESCAPE = "|".join(
    rf"(?<={escape})"
    for escape in (r"\\[nrt]", "%[0-9A-Fa-f]{2}", r"\\x[0-9A-Fa-f]{2}", r"\\u[0-9A-Fa-f]{4}")
)


def _begin(characters: str) -> str:
    """The beginning of a word, also after an escape: ``\\nsk-...`` in a quoted text."""
    return rf"(?:(?<![{characters}])|{_ESCAPE})"


def _token(*prefixes: str, then: str) -> Shape:
    """Keys that services begin in their own way."""
    begin = "|".join(prefixes)
    hints = tuple(prefix.partition("[")[0].replace("\\", "") for prefix in prefixes)
    pattern = rf"(?={begin}){_begin('A-Za-z0-9')}(?:{begin}){then}"
    return Shape(hints, pattern, is_cased=True)


_VALUE_OF_LENGTH = (
    r"""(?P<secret>(?![$<{…*]|(?-i:[A-Z][A-Z0-9_]*)(?:["'\s,;)]|$))(?:"""
    r"""(?<=")(?![,;)(\]}+])[^\s"\\]{%d,}(?=")|(?<=')(?![,;)(\]}+])[^\s'\\]{%d,}(?=')"""
    r"""|[^\s"'`,;&)(\]}<>\\]{%d,}))"""
)


def _value(length: int) -> str:
    """A value of at least ``length`` characters: up to its quote, or to a sign that ends it."""
    return _VALUE_OF_LENGTH % (length, length, length)


_CALLED = r"(?:(?:SecretStr|Secret|str|repr|bytes|os\.environ(?:\.get)?|(?:os\.)?getenv)[\[(])?+"
_ASSIGNED = (
    r"""\\{0,3}["']{0,2}\]?\s*(?:=>|:=|[:=：]|%3[adAD])(?:\s|%20)*"""
    + _CALLED
    + r"""\\{0,3}(?:b?["']{1,2})?"""
)
_LISTED = r"""["']{1,2}\s*,\s*b?["']{1,2}"""
"""Between the name and the value in a list of pairs or words."""
PLAIN_KEY = (
    r"(?:[A-Z0-9_]*_)?(?:PRIMARY|FOREIGN|SORT|PARTITION|UNIQUE|CACHE|GROUP|JOIN|INDEX|HASH|ROW"
    r"|COLUMN|PROMPT|RESPONSE|ANSWER|DATA|DATASET|REWARD|FN|LABEL|TEXT|MESSAGES|IMAGE)_KEY"
)
"""Names of columns and the like are called so too; a secret key may be, but reads otherwise."""
PLAIN_WORD = r"[A-Za-z_][A-Za-z_.]{1,40}\d{0,2}(?![\w+/=.-])"

_TOKENS = (
    _token("sk-", "pk-lf-", then=r"(?=[A-Za-z_-]{0,99}\d)[A-Za-z0-9_-]{16,}"),
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
    _token("AKIA", "ASIA", then="[A-Z0-9]{16}(?![A-Za-z0-9_])"),
    _token("dckr_pat_", "dapi", "hvs\\.", "hvb\\.", "sbp_", "ATATT", then="[A-Za-z0-9_=-]{20,}"),
    _token("lin_api_", "sntrys_", "glc_", "glsa_", "figd_", "ntn_", then="[A-Za-z0-9_=+/-]{20,}"),
    _token("tvly-", "jina_", "rpa_", "e2b_", "doo_v1_", "dor_v1_", then="[A-Za-z0-9_-]{20,}"),
    _token("PMAK-", "tskey-", "sq0csp-", "rubygems_", "AGE-SECRET-KEY-1", then="[A-Za-z0-9-]{20,}"),
    _token("SG\\.", then=r"[\w-]{16,}\.[\w-]{16,}"),
    _token("eyJ", then=r"[\w-]{8,2000}\.[\w-]{8,}\.[\w-]*"),
)
_PEM = Shape(
    ("-----begin",),
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?P<secret>.*?)(?=-----END|\Z)",
    re.DOTALL,
)
_HEADERS = (
    Shape(
        ("authorization", "api-key", "auth-token"),
        r"(?i)(?:authorization|x-api-key|api-key|x-auth-token)(?:"
        + _ASSIGNED
        + "|"
        + _LISTED
        + rf")(?:(?:bearer|basic|token|digest|apikey){_BLANK}+)?"
        + _value(8),
    ),
    Shape(
        ("cookie",),
        rf"(?i){_begin('A-Za-z0-9_')}cookie"
        + _ASSIGNED
        + r"(?P<secret>[\w.-]{1,99}=[^\s\"',;]{6,}[^\r\n\"']{0,2000})",
    ),
    Shape(("bearer",), rf"(?i)bearer{_BLANK}+" + r"(?P<secret>(?=\S{0,300}\d)[\w.~+/=-]{8,})"),
    Shape(
        ("basic",),
        rf"(?i:basic){_BLANK}+" + r"(?P<secret>(?=\S{0,300}(?:[a-z][A-Z]|=))[A-Za-z0-9+/]{8,}=*)",
    ),
)
_SETTINGS = (
    Shape(
        ("key", "token", "secret"),
        rf"(?i){_begin('a-z')}(?:api[ _-]?key|(?:secret[_-]?)?access[_-]?key|account[_-]?key|"
        r"private[_-]?key|shared[_-]?access[_-]?key|(?:auth|access|api|hf|bearer|refresh|"
        r"session|wandb)[_-]?token|(?:client|app|shared)?[_-]?secret(?:[_-]?key)?)"
        + _ASSIGNED
        + _value(8),
        gate="(?:key|token|secret)" + _ASSIGNED,
    ),
    Shape(
        ("token",),
        rf"(?i){_begin('a-z')}token"
        + _ASSIGNED
        + r"(?=[\w-]*\d)(?=[\w-]*[a-z])(?!\w*token)"
        + _value(10),
        gate="token" + _ASSIGNED,
    ),
    Shape(
        ("KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL"),
        rf"{_begin('A-Za-z0-9_')}(?!{PLAIN_KEY}{_ASSIGNED}{PLAIN_WORD})"
        + r"[A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)"
        + _ASSIGNED
        + r"(?!\d+\b)"
        + _value(8),
        is_cased=True,
    ),
    Shape(
        ("passw", "passphrase", "pwd"),
        rf"(?i)(?:passwo?r?d|passphrase|{_begin('a-z')}pwd){_ASSIGNED}(?!/)" + _value(4),
    ),
    Shape(
        ("--",),
        r"(?i)(?<!-)--[\w-]{0,60}(?:api[-_]?key|token|password|secret)(?:=|\s+|"
        + _LISTED
        + r")(?!-)[\"']?"
        + _value(6),
    ),
    Shape(
        ("-u", "--user", "--proxy-user"),
        r"(?:^|[\s\[,\"'])(?:-u|--user|--proxy-user)(?:=|[\s,\"']{1,9})[^\s,:\"'][^\s:\"']{0,200}:(?!\d+\b|root\b)(?P<secret>[^\s\"',]+)",
    ),
    Shape(
        ("key", "wandb", "login"),
        r"(?i)(?:api[\s_-]?keys?|wandb|login|relogin|wandb_key|login\(\s*key)"
        r"(?:\s+(?:is|provided|key))?"
        r"[\s:='\"(]{1,6}(?P<secret>[0-9a-f]{40})(?![0-9a-f])",
    ),
)
IN_URLS = (
    # A password may hold a slash or an at; a port before a path is none.
    Shape(
        (":/",),
        r"(?<=\w:/)/?(?P<secret>[^/\s:@\[\"'<>…]{0,200}:(?!\d{0,5}/)(?:(?!:/)[^\s\"'<>]){1,300})"
        r"(?=@[\w.\[-])",
        reveals=False,
    ),
    # As a path has it, which keeps one slash of two.
    Shape((":/",), r"(?<=\w:/)(?P<secret>[^/\s:\"'<>]*:[^/\s\"'<>]+)(?=@)", reveals=False),
    Shape(("://",), r"(?<=://)(?!git@)(?P<secret>[^/\s\"'<>]+)(?=@)", reveals=False),
    Shape(
        ("=",),
        r"(?i)(?:[?&#;]|\\u0026)"
        r"(?:[\w.-]*(?:key|token|secret|signature|password|passwd|credential)|sig|code"
        r"|pwd|pass|jwt|auth|session|sid)=(?!…|\d{1,5}\b)"
        r"(?P<secret>(?:(?!\\u0026)[^&#;\s\"'<>])+)",
        reveals=False,
    ),
    Shape(
        ("hooks.slack.com", "/api/webhooks/", "webhook.office.com"),
        r"(?i)(?:hooks\.slack\.com/|discord(?:app)?\.com/api/webhooks/|webhook\.office\.com/)"
        r"(?!…)(?P<secret>[^\s\"'<>]+)",
        reveals=False,
    ),
)

SHAPES = (_PEM, *IN_URLS, *_HEADERS, *_TOKENS, *_SETTINGS)
