"""Mask credentials in texts, by the values in the environment and by their shapes.

Everything that leaves a process goes through here where it leaves: files of a run, answers of
commands, errors, notices. ``mask_text`` keeps what surrounds a secret readable, and leaves hashes
alone: commits, fingerprints and run ids are no secrets.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from engine.base.secret_shapes import IN_URLS, PLAIN_KEY, PLAIN_WORD, SHAPES, Shape, apply_shapes
from engine.base.secret_shapes import mask as mask

_REVEALING_LENGTH = 16
_SHORTEST_VALUE = 6
_SHORTEST_WORD = 8
_LONGEST_NAME = 200
_VALUES = frozenset({"value", "before", "after"})
"""Fields that hold what the field around them, or ``key`` beside them, names."""

_SECRET_NAME = re.compile(
    r"(?<!MON)KEY(?!WORD|BOARD|FRAME|POINT)|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|WEBHOOK|_PAT$|(?<!^)(?<!^OLD)PWD$",
    re.IGNORECASE,
)
_SECRET_FIELD = re.compile(
    r"(?i:(?:api|access|account|private|secret)[_-]?key|passw(?:or)?d|passphrase|secret"
    r"|(?:auth|access|api|hf|refresh|session|bearer)[_-]?token|^authorization)$"
    r"|^[A-Z0-9_]+_(?:KEY|TOKEN|PWD|PAT)$"
)
_PLAIN_KEY = re.compile(PLAIN_KEY, re.IGNORECASE)
_PLAIN_WORD = re.compile(PLAIN_WORD)
_PASSWORD_NAME = re.compile(r"SECRET|PASS|PWD|CREDENTIAL", re.IGNORECASE)
_NAMES_A_PATH = re.compile(r"_(PATH|FILE|DIR|HOME|SOCK|ENDPOINT|BASE)$", re.IGNORECASE)
_TOKENS_OF_TEXT = re.compile(
    r"TOKENI[SZ][A-Z]*"
    r"|(?:PAD|BOS|EOS|UNK|SEP|CLS|MASK|STOP|SPECIAL|IMAGE|VIDEO|AUDIO|THINK)[_-]?TOKENS?(?![A-Z])"
    r"|TOKENS?[_-]?(?:IDS|LEVEL|LEN(?:GTH)?|COUNT|BUDGET|LIMIT|MASK|MEAN|RATIO|LOSS|TYPE"
    r"|WEIGHTS?|PER|REWARDS?|CLIP|SIZE)(?![a-z])"
    r"|(?<!API_)(?<!ACCESS_)(?<!AUTH_)(?<!HF_)(?<!SECRET_)(?<!REFRESH_)(?<!SESSION_)TOKENS(?![A-Z])",
    re.IGNORECASE,
)
"""Names of tokens that a model reads or writes: their IDs, their number, what makes them."""
_PLACEHOLDER = re.compile(
    r"<.*>|\{\{?[\w .-]*\}?\}|(?:sk-|hf_)?(?:x{3,}|[*]{3,}|\.{3,}|…)"
    r"|todo|tbd|empty|dummy|placeholder"
    r"|(?:your|my|replace|change|insert|enter|put|fill|add)(?:[_ -]?(?:this|me|it|in|here|with|your"
    r"|my|own|the|api|key|token|secret|password|wandb|hf|openai|value|actual|real|to))+",
    re.IGNORECASE,
)
"""What a script has where its user is to write a secret."""
_NO_SECRET_VALUE = re.compile(r"[\d.,:\s\[\]-]+|true|false|none|null|yes|no", re.IGNORECASE)
_PATH = re.compile(r"(~|\.{1,2})?(/[\w.@-]+){2,}/?")


def mask_text(text: str, *also: str, env: Mapping[str, str] | None = None) -> str:
    """``text`` without the secrets in it. The values ``also`` are always secret.

    ``env`` (default: this process's environment) holds secrets in variables with secret names.
    """
    if not text:
        return text
    secrets = (
        *_environment_secrets(os.environ if env is None else env),
        *(value for value in also if value),
    )
    return _masker(secrets).apply(text)


def mask_words(words: Sequence[str]) -> list[str]:
    """The words of a command, masked. An option with a secret name, such as ``--api-key``, hides
    its value."""
    options = ("", *map(_option, words))
    return [
        mask(word) if _is_secret_field(option, word) else _mask_assigned(word)
        for option, word in zip(options, words, strict=False)
    ]


def _mask_assigned(word: str) -> str:
    """A word that may be ``--api-key=VALUE`` or ``API_KEY=VALUE``."""
    name, equals, value = word.partition("=")
    hidden = equals and _is_secret_field(name.lstrip("-"), value)
    return f"{name}={mask(value)}" if hidden else mask_text(word)


def mask_lines(lines: Iterable[str]) -> list[str]:
    """Mask each of ``lines`` as ``mask_text`` does; much faster for thousands of them."""
    listed = list(lines)
    masker = _masker(tuple(_environment_secrets(os.environ))).narrowed("\n".join(listed))
    return [masker.apply(line) for line in listed] if masker.has_work else listed


def mask_data(value: Any) -> Any:
    """A JSON value with every text in it masked, names of fields too.

    A name may mark a text as secret: ``{"api_key": ...}``, ``{"api_key": {"value": ...}}``,
    ``{"key": "api_key", "after": ...}``, ``["--api-key", ...]``.
    """
    texts = _texts(value)
    masker = _masker(tuple(_environment_secrets(os.environ))).narrowed("\n".join(texts))
    if not masker.has_work and not any(map(_may_name_secret, texts)):
        return value
    return _masked_data(value, masker)


def distinct_masked(names: Iterable[str]) -> list[str]:
    """Different names, each masked, and still different."""
    taken: dict[str, None] = {}
    for masked in mask_lines(names):
        taken[_distinct(masked, taken)] = None
    return list(taken)


def _distinct(name: str, taken: Mapping[str, object]) -> str:
    numbered = (f"{name} ({number})" for number in count(2))
    return name if name not in taken else next(other for other in numbered if other not in taken)


def _texts(value: Any) -> dict[str, None]:
    """The different texts in a JSON value, and the names of its fields."""
    texts, unvisited = dict[str, None](), [value]
    while unvisited:
        item = unvisited.pop()
        if isinstance(item, str):
            texts[item] = None
        elif isinstance(item, dict):
            texts |= dict.fromkeys(map(str, item))
            unvisited.extend(item.values())
        elif isinstance(item, list | tuple):
            unvisited.extend(item)
    return texts


def _may_name_secret(text: str) -> bool:
    return len(text) < _LONGEST_NAME and _SECRET_FIELD.search(text) is not None


def _masked_data(value: Any, masker: _Masker, name: str = "") -> Any:
    """``name`` is that of the field which holds ``value``."""
    if isinstance(value, str):
        return mask(value) if _is_secret_field(name, value) else masker.apply(value)
    if isinstance(value, dict):
        return _masked_fields(value, masker, name)
    if isinstance(value, list | tuple):
        before = ("", *value)
        options = (_option(word) if isinstance(word, str) else "" for word in before)
        return [
            _masked_data(item, masker, option) for option, item in zip(options, value, strict=False)
        ]
    return value


def _masked_fields(fields: Mapping[Any, Any], masker: _Masker, name: str) -> dict[Any, Any]:
    name = key if isinstance(key := fields.get("key"), str) else name
    masked: dict[Any, Any] = {}
    for field, item in fields.items():
        shown = _distinct(masker.apply(field), masked) if isinstance(field, str) else field
        named = name if field in _VALUES else str(field)
        masked[shown] = _masked_data(item, masker, named)
    return masked


def _option(word: str) -> str:
    return word.lstrip("-") if word.startswith("-") else ""


def _is_secret_field(name: Any, value: Any) -> bool:
    """Whether a field holds a secret: no reference, and not masked already."""
    if not isinstance(value, str) or not _SECRET_FIELD.search(str(name)):
        return False
    if _PLAIN_KEY.fullmatch(str(name)) and _PLAIN_WORD.fullmatch(value):
        return False
    return len(value) >= _SHORTEST_WORD and value[0] not in "…$" and names_secret("KEY", value)


def mask_url(text: str) -> str:
    """``text`` without the logins, secret query values and webhook paths of the URLs in it."""
    return apply_shapes(IN_URLS, text)


def shown(name: str, value: str) -> str:
    """The value of an environment variable, masked if its name or its shape is that of a secret."""
    return mask(value) if is_secret_name(name) else mask_text(value)


def is_secret_name(name: str) -> bool:
    """Whether the value of a variable of that name is always masked."""
    return _SECRET_NAME.search(_TOKENS_OF_TEXT.sub("", name)) is not None


def is_placeholder(value: str) -> bool:
    """Whether a text stands where a secret is to be written."""
    return not value or _PLACEHOLDER.fullmatch(value) is not None


def names_secret(name: str, value: str) -> bool:
    """Whether the variable ``name`` with ``value`` is a secret: it has a secret name, and its value
    is no flag, number, path or placeholder."""
    if not is_secret_name(name) or _NAMES_A_PATH.search(name):
        return False
    if _PLAIN_KEY.fullmatch(name) and _PLAIN_WORD.fullmatch(value):
        return False
    if _PLACEHOLDER.fullmatch(value):
        return False
    return not _NO_SECRET_VALUE.fullmatch(value) and not _PATH.fullmatch(value)


def holds_secret(text: str, env: Mapping[str, str] | None = None) -> bool:
    return mask_text(text, env=env) != text


_COLOR = re.compile(r"\x1b\[[0-9;:]*m")


@dataclass(frozen=True)
class _Masker:
    values: tuple[str, ...]
    """Longest first: one may be a part of another."""
    shapes: tuple[Shape, ...] = SHAPES

    def narrowed(self, text: str) -> _Masker:
        """A masker for any part of ``text``, without what cannot be in it."""
        text = f"{text}\n{_COLOR.sub('', text)}" if "\x1b" in text else text
        lowered = text.lower()
        values = tuple(v for v in self.values if any(form in text for form in _forms(v)))
        shapes = tuple(shape for shape in self.shapes if shape.may_be_in(text, lowered))
        # What is masked first may complete another shape: where there is one, all are tried.
        if values or any(shape.is_found(text) for shape in shapes):
            return _Masker(values, shapes)
        return _Masker((), ())

    @property
    def has_work(self) -> bool:
        return bool(self.values or self.shapes)

    def apply(self, text: str) -> str:
        if "\x1b" in text:
            # A color inside of a secret hides it: the line that holds one loses its colors.
            text = "".join(map(self._without_colors, text.splitlines(keepends=True)))
        for value in self.values:
            for form in _forms(value):
                text = text.replace(form, mask(value))
        return apply_shapes(self.shapes, text)

    def _without_colors(self, line: str) -> str:
        """A line; without its colors if there is a secret in it."""
        plain = _COLOR.sub("", line)
        return line if plain == line or self.apply(plain) == plain else plain


@lru_cache(maxsize=64)
def _masker(values: tuple[str, ...]) -> _Masker:
    return _Masker(tuple(sorted(set(values), key=len, reverse=True)))


def _environment_secrets(env: Mapping[str, str]) -> Iterator[str]:
    """The secrets in variables: by their names, and logins in URLs."""
    for name, value in env.items():
        yield from _secrets_in(name, value)


@lru_cache(maxsize=1024)
def _secrets_in(name: str, value: str) -> tuple[str, ...]:
    """The secrets in one variable."""
    value = value.strip()
    if "://" in value:
        passwords = _URL_PASSWORD.findall(value)
        return tuple(dict.fromkeys([*passwords, *map(unquote, passwords)]))
    if not _is_secret_value(name, value):
        return ()
    lines = (line for line in value.splitlines()[1:] if len(line) >= _REVEALING_LENGTH)
    return (value, *lines)


_URL_PASSWORD = re.compile(r"://[^/\s:@]*:(?!\d{0,5}/)(\S{6,})@")


def _is_secret_value(name: str, value: str) -> bool:
    """Not a flag, a number, a path, or a short word that other texts may contain."""
    if len(value) < _SHORTEST_VALUE or not names_secret(name, value):
        return False
    return not value.isalpha() or len(value) >= _SHORTEST_WORD or bool(_PASSWORD_NAME.search(name))


@lru_cache(maxsize=256)
def _forms(value: str) -> tuple[str, ...]:
    """How a secret is written: plain, quoted for URLs and JSON, and in base64."""
    raw = value.encode("utf-8", "surrogateescape")
    in_json = json.dumps(value)[1:-1]
    forms = {
        value,
        quote(value, safe=""),
        quote_plus(value),
        in_json,
        in_json.replace("/", "\\/"),
        json.dumps(value, ensure_ascii=False)[1:-1],
        *_in_base64(raw),
    }
    return tuple(sorted(forms, key=len, reverse=True))


def _in_base64(raw: bytes) -> Iterator[str]:
    """The characters that ``raw`` alone decides, at each of its three places in a longer text:
    ``Basic`` has a secret behind the name of its user."""
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + raw).decode().rstrip("=")
        certain = encoded[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6]
        if len(certain) >= _SHORTEST_WORD:
            yield certain
            yield certain.replace("+", "-").replace("/", "_")
