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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from engine.base.secret_shapes import (
    IN_URLS,
    SHAPES,
    Shape,
    apply_shapes,
    is_label,
    is_secret_name,
    labels_secret,
    mask,
    names_secret,
)

_SHORTEST_VALUE = 6
_SHORTEST_WORD = 8
_COLOR = re.compile(r"\x1b\[[0-9;:]*m")
_URL_PASSWORD = re.compile(r"://[^/\s:@]*:([^/\s]{6,})@")


def mask_text(text: str, *also: str, env: Mapping[str, str] | None = None) -> str:
    """``text`` without the secrets in it. The values ``also`` are always secret.

    ``env`` (default: this process's environment) holds secrets in variables with secret names.
    """
    return _masker(os.environ if env is None else env, also).apply(text) if text else text


def mask_lines(lines: Iterable[str]) -> list[str]:
    """Mask each of ``lines`` as ``mask_text`` does; much faster for thousands of them."""
    listed = list(lines)
    masker = _masker(os.environ).narrowed("\n".join(listed))
    return listed if masker is None else [masker.apply(line) for line in listed]


def mask_words(words: Sequence[str]) -> list[str]:
    """The words of a command, masked. An option with a secret name, such as ``--api-key``, hides
    its value."""
    before = ("", *words)
    return [_mask_word(option, word) for option, word in zip(before, words, strict=False)]


def _mask_word(option: str, word: str) -> str:
    """A word, which may be ``API_KEY=VALUE``, behind another one, which may be ``--api-key``."""
    if option.startswith("-") and labels_secret(option, word):
        return mask(word)
    name, _, value = word.partition("=")
    return f"{name}={mask(value)}" if labels_secret(name, value) else mask_text(word)


def mask_data(value: Any) -> Any:
    """A JSON value with every text in it masked, names of fields too.

    A name may mark a text as secret: ``{"api_key": ...}``, ``["--api-key", ...]``.
    """
    texts = _texts(value)
    masker = _masker(os.environ).narrowed("\n".join(texts))
    if masker is None and not any(map(is_label, texts)):
        return value
    return _masked_data(value, masker or _Masker((), ()))


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


def _masked_data(value: Any, masker: _Masker, name: str = "") -> Any:
    """``name`` is that of the field which holds ``value``, or of the option before it."""
    if isinstance(value, str):
        return mask(value) if name and labels_secret(name, value) else masker.apply(value)
    if isinstance(value, dict):
        masked: dict[Any, Any] = {}
        for field, item in value.items():
            shown = _distinct(masker.apply(field), masked) if isinstance(field, str) else field
            masked[shown] = _masked_data(item, masker, str(field))
        return masked
    if isinstance(value, list | tuple):
        before = ("", *value)
        options = (o if isinstance(o, str) and o.startswith("-") else "" for o in before)
        return [_masked_data(v, masker, o) for o, v in zip(options, value, strict=False)]
    return value


def distinct_masked(names: Iterable[str]) -> list[str]:
    """Different names, each masked, and still different."""
    taken: dict[str, None] = {}
    for masked in mask_lines(names):
        taken[_distinct(masked, taken)] = None
    return list(taken)


def _distinct(name: str, taken: Mapping[str, object]) -> str:
    numbered = (f"{name} ({number})" for number in count(2))
    return name if name not in taken else next(other for other in numbered if other not in taken)


def mask_url(text: str) -> str:
    """``text`` without the logins, secret query values and webhook paths of the URLs in it."""
    return apply_shapes(IN_URLS, text)


def shown(name: str, value: str) -> str:
    """The value of an environment variable, masked if its name or its shape is that of a secret."""
    return mask(value) if is_secret_name(name) else mask_text(value)


def holds_secret(text: str, env: Mapping[str, str] | None = None) -> bool:
    return mask_text(text, env=env) != text


@dataclass(frozen=True)
class _Masker:
    values: tuple[str, ...]
    """Longest first: one may be a part of another."""
    shapes: tuple[Shape, ...] = SHAPES

    def narrowed(self, text: str) -> _Masker | None:
        """A masker for any part of ``text``, or None if there is no secret in it."""
        plain = _COLOR.sub("", text)
        values = tuple(v for v in self.values if any(form in plain for form in _forms(v)))
        if not values and apply_shapes(self.shapes, plain) == plain:
            return None
        lowered = plain.lower()
        shapes = (shape.narrowed(lowered) for shape in self.shapes)
        return _Masker(values, tuple(shape for shape in shapes if shape.hints))

    def apply(self, text: str) -> str:
        if "\x1b" in text:
            # A color hides a secret: the lines that hold one lose their colors.
            plain = _COLOR.sub("", text)
            if self._masked(plain) == plain:
                return text
            text = "".join(map(self._without_colors, text.splitlines(keepends=True)))
        return self._masked(text)

    def _without_colors(self, line: str) -> str:
        """A line; without its colors if there is a secret in it."""
        plain = _COLOR.sub("", line)
        return line if self._masked(plain) == plain else plain

    def _masked(self, text: str) -> str:
        for value in self.values:
            for form in _forms(value):
                text = text.replace(form, mask(value))
        return apply_shapes(self.shapes, text)


def _masker(env: Mapping[str, str], also: Iterable[str] = ()) -> _Masker:
    known = [value for item in env.items() for value in _secrets_in(*item)]
    values = {*known, *filter(None, also)}
    return _Masker(tuple(sorted(values, key=len, reverse=True)))


@lru_cache(maxsize=1024)
def _secrets_in(name: str, value: str) -> tuple[str, ...]:
    """The secrets in one variable: by its name, and logins in URLs.

    Flags, numbers, paths, and short words that other texts may contain do not count.
    """
    value = value.strip()
    if "://" in value:
        passwords = _URL_PASSWORD.findall(value)
        return (*passwords, *map(unquote, passwords))
    if len(value) < _SHORTEST_VALUE or not names_secret(name, value):
        return ()
    return () if value.isalpha() and len(value) < _SHORTEST_WORD else (value,)


@lru_cache(maxsize=256)
def _forms(value: str) -> tuple[str, ...]:
    """How a secret is written: plain, quoted for URLs and JSON, and in base64."""
    forms = {
        value,
        quote(value, safe=""),
        quote_plus(value),
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
    }
    if len(value) >= _SHORTEST_VALUE:
        encoded = base64.b64encode(value.encode("utf-8", "surrogateescape")).decode().rstrip("=")
        forms |= {encoded, encoded.replace("+", "-").replace("/", "_")}
    return tuple(sorted(forms, key=len, reverse=True))
