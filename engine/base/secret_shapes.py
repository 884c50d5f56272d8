"""What secrets look like: keys of services, random words, and what stands where secrets do."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise

MASK = "…"
"""What a masked word begins with."""
_REVEALING_LENGTH = 16
_LEAST_CHANGES = 0.45
"""Changes between small, capital and digit for each character: names in camel case have fewer."""


def mask(secret: str) -> str:
    """``…a1b2``: the end of a long secret, so that a person can tell which it is."""
    return f"{MASK}{secret[-4:]}" if len(secret) >= _REVEALING_LENGTH else MASK


def is_random(word: str) -> bool:
    """Whether a word of letters and digits was drawn at random from all of them.

    Of 62 characters drawn so, 62 % follow one of another kind. Hashes and UUIDs, which have no
    capitals, are not meant, nor are the mangled names of C++ and the request ids of services.
    """
    if word in (word.lower(), word.upper()) or _NO_SECRET.match(word):
        return False
    kinds = [_kind(character) for character in word]
    changes = sum(a != b and "-" not in (a, b) for a, b in pairwise(kinds))
    numbers = sum(a != "0" and b == "0" for a, b in pairwise(["", *kinds]))
    return {"a", "A"} <= set(kinds) and numbers > 1 and changes >= _LEAST_CHANGES * len(word)


_NO_SECRET = re.compile(r"_+Z|(?:req|resp|msg|run|chatcmpl|cmpl|batch|ftjob|call|toolu)[-_]")


def _kind(character: str) -> str:
    if character.isdigit():
        return "0"
    return "-" if character in "-_" else "A" if character.isupper() else "a"


@dataclass(frozen=True)
class Shape:
    """What secrets of one kind look like: the group ``secret`` of ``pattern``, or all of it.

    Texts that hold none of ``hints``, where it has some, are not searched; no hint has a blank. A
    pattern takes time in proportion to the text: what repeats inside it is bounded, or cannot begin
    again within itself.
    """

    hints: tuple[str, ...]
    pattern: str
    flags: int = 0
    reveals: bool = True
    """Whether the end of a long one may be shown."""
    is_cased: bool = False
    """Whether ``hints`` are searched as they are, not in lower case."""
    accepts: Callable[[str], bool] | None = None
    """A further test of what the pattern matches."""
    is_word: bool = False
    """Whether every match of ``pattern`` is inside one word."""
    gate: str = ""
    """A quick pattern that must match the lowered text for ``pattern`` to match."""

    def is_hinted(self, text: str, lowered: str) -> bool:
        if not self.hints:
            return True
        searched = text if self.is_cased else lowered
        for hint in self.hints:  # noqa: SIM110 - a generator would take longer than the search
            if hint in searched:
                return True
        return False

    def passes_gate(self, lowered: str) -> bool:
        return not self.gate or re.search(self.gate, lowered) is not None

    def apply(self, text: str, lowered: str) -> str:
        if not self.is_hinted(text, lowered) or not self.passes_gate(lowered):
            return text
        # Compiled on demand: most commands meet no text that needs it.
        return re.compile(self.pattern, self.flags).sub(self._masked, text)

    def is_found(self, text: str) -> bool:
        """Whether a text that has a hint, or a line of it, holds a secret of this kind."""
        matches = re.compile(self.pattern, self.flags).finditer(text)
        return any(self.accepts is None or self.accepts(match.group()) for match in matches)

    def is_all_of(self, text: str) -> bool:
        """Whether a text is one secret of this kind, and nothing else."""
        match = re.fullmatch(self.pattern, text.strip(), self.flags)
        return match is not None and (self.accepts is None or self.accepts(match.group()))

    def _masked(self, match: re.Match[str]) -> str:
        group = "secret" if "secret" in match.re.groupindex else 0
        start, end = (offset - match.start() for offset in match.span(group))
        text = match.group()
        if self.accepts is not None and not self.accepts(text[start:end]):
            return text
        return text[:start] + (mask(text[start:end]) if self.reveals else "…") + text[end:]


def hinted_shapes(shapes: tuple[Shape, ...], text: str, lowered: str) -> list[Shape]:
    """The shapes that ``is_hinted``, in a long text.

    All hints are searched at once: 130 searches of 300 KB take 20 ms, and this takes 5.
    """
    hints, find = _hint_finder(shapes)
    in_text, in_lowered = ({hints[index] for index, _, _ in find(t)} for t in (text, lowered))
    return [
        shape
        for shape in shapes
        if not shape.hints
        or not (in_text if shape.is_cased else in_lowered).isdisjoint(shape.hints)
    ]


@lru_cache(maxsize=4)
def _hint_finder(
    shapes: tuple[Shape, ...],
) -> tuple[list[str], Callable[[str], list[tuple[int, int, int]]]]:
    """All hints, and a function that finds them: index of the hint, start and end."""
    from ahocorasick_rs import AhoCorasick  # Most processes never mask a long text.

    hints = list(dict.fromkeys(hint for shape in shapes for hint in shape.hints))
    return hints, partial(AhoCorasick(hints).find_matches_as_indexes, overlapping=True)


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
    return Shape(hints, pattern, is_cased=True, is_word=True)


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
_AWS_PAIR = Shape(
    ("AKIA", "ASIA"),
    r"(?:AKIA|ASIA)[A-Z0-9]{16}[\s:,;|\"']{1,6}(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])",
    is_cased=True,
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


def _client(names: str, option: str, *hints: str, after: str = r"[\s,\"']{1,9}") -> Shape:
    """The password among the words of a client's command, as a shell or a list of words has it."""
    pattern = (
        rf"{_begin('A-Za-z0-9_./-')}(?:\S{{0,60}}/)?(?:{names})(?=[\s\"'])"
        r"[^|;&\n]{0,300}?[\s,\"']"
    )
    secret = r"[\"']?(?P<secret>(?![…$<{-])(?!\d{1,5}(?:[:/\s\"']|$))[^\s\"',|;&]{3,})"
    return Shape(hints, pattern + option + after + secret)


_CLIENTS = (
    _client(
        r"(?:mysql|mariadb)[\w-]*|mycli|mytop|7z[arz]?",
        "-p",
        "mysql",
        "mariadb",
        "my",
        "7z",
        after="",
    ),
    _client(r"mongo\w*|cqlsh|login", "-p", "mongo", "cqlsh", "login"),
    _client("(?:redis|valkey|keydb)-cli", "-a", "redis-cli", "valkey-cli", "keydb-cli"),
    _client(r"ldap\w+", "-w", "ldap", after=r"[\s,\"']{0,9}"),
    _client("sqlcmd|bcp|zip|unzip", "-P", "sqlcmd", "bcp", "zip", after=r"[\s,\"']{0,9}"),
    _client("smbclient|rpcclient|smbmap", r"-U[\s,\"']{0,9}[^\s%\"']{1,99}%", "%", after=""),
    _client("lftp", r"-u[\s\"']{0,9}[^\s,\"']{1,99},", "lftp", after=""),
    _client("curl", r"-u[^\s:\"']{1,99}:", "curl", after=""),
    _client("keytool|jarsigner", "-(?:store|key|new)pass", "keytool", "jarsigner"),
    Shape(("pass:",), r"(?i)-pass(?:in|out)?[\s,=\"']{1,9}pass:(?P<secret>(?!…)[^\s\"',]+)"),
    Shape(("identified",), r"(?i)\bidentified\s+(?:\w+\s+\w+\s+)?by\s+[\"'](?P<secret>[^\"'…]+)"),
    Shape(
        ("secret_access_key", "session_token"),
        rf"(?i){_begin('a-z')}(?:secret_access_key|session_token)\s+"
        r"(?P<secret>(?!…)[A-Za-z0-9/+=]{16,})",
    ),
    Shape(
        ("--pass", "-pass", "_pass", "pwd"),
        r"(?i)(?<!-)--(?:[\w-]{0,60}[-_])?(?:pass|passwd|passphrase|pwd)(?:=|\s+|"
        + _LISTED
        + r")(?!-)[\"']?"
        + _value(4),
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
        ("password", "passphrase"),
        r"(?i)(?:password|passphrase)\s+(?:is\s+|was\s+)?(?P<q>[\"'])(?P<secret>[^\"'\s]{4,})(?P=q)",
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
        ("machine",),
        rf"(?i){_begin('A-Za-z0-9_')}machine\s+\S+{_BLANK}[^:]{{0,200}}?\bpassword\s+"
        r"(?P<secret>(?!…)(?:[^\s\\]|\\(?![nrt])){4,})",
        gate=r"password\s",
    ),
    Shape(
        ("</",),
        r"(?i)<[\w:-]{0,40}(?:password|passwd|passphrase|api[_-]?key|secret(?:[_-]?key)?"
        r"|access[_-]?token)>(?P<secret>[^<\s…]{4,})</",
    ),
    Shape(("sshpass",), _begin("A-Za-z0-9_") + r"sshpass\s+-p\s*[\"']?(?P<secret>(?!…)[^\s\"']+)"),
    Shape(
        ("key",),
        r"(?i)(?:key provided|key for \S{1,99}):\s*[\"']?(?P<secret>(?=\S{0,300}\d)[\w*.-]{8,})",
        gate="key (?:provided|for )",
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
        ("=", "%3d"),
        r"(?i)(?:[?&#;]|%3f|%26|\\u0026)"
        r"(?:[\w.-]*(?:key|token|secret|signature|password|passwd|credential)|sig|code"
        r"|pwd|pass|jwt|auth|session|sid)(?:=|%3d)(?!…|\d{1,5}\b)"
        r"(?P<secret>(?:(?!%26|\\u0026)[^&#;\s\"'<>])+)",
        reveals=False,
    ),
    Shape(
        ("%3a%2f%2f",),
        r"(?i)(?<=%3a%2f%2f)(?P<secret>(?:(?!%2f|%40)[^\s\"'<>/&…]){1,300})(?=%40)",
        reveals=False,
    ),
    Shape(
        ("hooks.slack.com", "/api/webhooks/", "webhook.office.com"),
        r"(?i)(?:hooks\.slack\.com/|discord(?:app)?\.com/api/webhooks/|webhook\.office\.com/)"
        r"(?!…)(?P<secret>[^\s\"'<>]+)",
        reveals=False,
    ),
)
RANDOM = Shape(
    (),
    r"(?<![\w-])(?=[A-Za-z0-9_-]{24})(?=[a-z0-9_-]*[A-Z])(?=[A-Z0-9_-]*[a-z])[A-Za-z0-9_-]+",
    accepts=is_random,
    is_word=True,
)
"""A key of any service. A value that contains one is not refused: it may be a path."""

SHAPES = (_PEM, *IN_URLS, *_HEADERS, _AWS_PAIR, *_TOKENS, *_CLIENTS, *_SETTINGS, RANDOM)
