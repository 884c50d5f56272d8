"""The filter language of runs and rollouts: its grammar, and how values are compared.

    filter := all ("or" all)*            all := term+
    term   := ("!" | "-") term | "(" filter ")" | field operator value | word

Quotes keep spaces and signs together: ``reason:"out of memory"``.
"""

from __future__ import annotations

import operator
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from engine.base.errors import UsageError, nearest

MOST_NESTED = 40
"""Parentheses inside each other. More would exceed the recursion limit of what reads the tree."""


@dataclass(frozen=True)
class Word:
    """A text to search for, or a flag; upper and lower case are equal."""

    text: str

    def __str__(self) -> str:
        return _quoted(self.text)


@dataclass(frozen=True)
class Condition:
    """A field compared with a value. ``at`` and ``value_at`` are their offsets in the text."""

    name: str
    operator: str
    value: str
    at: int = field(default=0, compare=False)
    value_at: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return f"{_quoted(self.name)}{self.operator}{_quoted(self.value, _PLAIN_VALUE)}"


@dataclass(frozen=True)
class Not:
    part: Tree

    def __str__(self) -> str:
        return f"!{_grouped(self.part)}"


@dataclass(frozen=True)
class AllOf:
    """Every part holds. Without parts, everything passes."""

    parts: tuple[Tree, ...] = ()

    def __str__(self) -> str:
        return " ".join(_grouped(part) for part in self.parts)


@dataclass(frozen=True)
class AnyOf:
    """At least one of two or more parts holds."""

    parts: tuple[Tree, ...]

    def __str__(self) -> str:
        return " or ".join(str(part) for part in self.parts)


Tree = Word | Condition | Not | AllOf | AnyOf


def syntax_error(at: int, problem: str) -> UsageError:
    """``filter, character 7: ...``; ``at`` counts from 0."""
    return UsageError(f"filter, character {at + 1}: {problem}")


def parse(text: str) -> Tree:
    """Parse a filter; an empty one lets everything pass.

    UsageError names the character of a mistake. ``parse(str(tree)) == tree`` for every parsed tree.
    """
    parser = _Parser(list(_tokens(text)))
    tree = parser.any(0)
    if (token := parser.peek()) is not None:
        raise syntax_error(token.at, "unmatched ')'; quote it to search for it")
    return tree


def leaves(tree: Tree) -> Iterator[Word | Condition]:
    """The words and conditions of a filter, from left to right."""
    if isinstance(tree, Word | Condition):
        yield tree
    elif isinstance(tree, Not):
        yield from leaves(tree.part)
    else:
        for part in tree.parts:
            yield from leaves(part)


def conditions(tree: Tree) -> Iterator[Condition]:
    return (leaf for leaf in leaves(tree) if isinstance(leaf, Condition))


def words(tree: Tree) -> Iterator[Word]:
    return (leaf for leaf in leaves(tree) if isinstance(leaf, Word))


def holds(tree: Tree, leaf: Callable[[Word | Condition], bool | None]) -> bool | None:
    """Evaluate a filter with ``leaf``'s answers to its words and conditions.

    None is "unknown"; the result is None where the other parts do not decide it.
    """
    if isinstance(tree, Word | Condition):
        return leaf(tree)
    if isinstance(tree, Not):
        answer = holds(tree.part, leaf)
        return None if answer is None else not answer
    decisive, unknown = isinstance(tree, AnyOf), False
    for part in tree.parts:
        answer = holds(part, leaf)
        if answer is decisive:
            return decisive
        unknown = unknown or answer is None
    return None if unknown else not decisive


@dataclass(frozen=True)
class _Token:
    """``kind`` is "text", "quoted", "operator", or the sign itself: ( ) !"""

    kind: str
    text: str
    at: int


_PIECES = re.compile(
    r'(?P<space>\s+)|(?P<sign>[()])|"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<operator>>=|<=|!=|[:=<>])'
    r'|(?P<not>[!-])|(?P<text>[^\s()":=<>!](?:(?!!=)[^\s()":=<>])*)',
    re.DOTALL,
)
_VALUE = re.compile(r'[^\s()"][^\s()]*')


def _tokens(text: str) -> Iterator[_Token]:
    """A value extends to the next space or parenthesis, even if it contains other signs."""
    at, before = 0, ""
    while at < len(text):
        value = _VALUE.match(text, at) if before == "operator" else None
        match = value or _PIECES.match(text, at)
        if match is None:
            raise syntax_error(at, "unclosed quote")
        kind = "text" if value else str(match.lastgroup)
        if kind != "space":
            yield _token(kind, match)
            before = kind
        at = match.end()


def _token(kind: str, match: re.Match[str]) -> _Token:
    text, at = match.group(), match.start()
    if kind == "quoted":
        return _Token(kind, re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL), at)
    if kind == "not":
        return _Token("!", "!", at)
    return _Token(text if kind == "sign" else kind, text, at)


class _Parser:
    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens, self._index = tokens, 0

    def peek(self) -> _Token | None:
        return self._tokens[self._index] if self._index < len(self._tokens) else None

    def any(self, depth: int) -> Tree:
        parts = [self._all(depth)]
        while (token := self.peek()) is not None and _is_or(token):
            self._index += 1
            parts.append(self._all(depth))
            if parts[-2] == AllOf() or parts[-1] == AllOf():
                raise syntax_error(
                    token.at, "'or' needs a condition on both sides; quote it to search for it"
                )
        return _joined(AnyOf, parts)

    def _all(self, depth: int) -> Tree:
        parts: list[Tree] = []
        while (token := self.peek()) is not None and token.kind != ")" and not _is_or(token):
            parts.append(self._term(depth))
        return _joined(AllOf, parts)

    def _term(self, depth: int) -> Tree:
        token = self._next()
        if depth > MOST_NESTED:
            raise syntax_error(token.at, "parentheses are nested too deeply")
        if token.kind == "!":
            return Not(self._negated(token, depth))
        if token.kind == "(":
            return self._group(token, depth)
        if token.kind == "operator":
            raise syntax_error(token.at, f"'{token.text}' needs a field before it, e.g. step>100")
        operator = self.peek()
        if operator is None or operator.kind != "operator":
            return Word(token.text)
        return self._condition(token, self._next())

    def _negated(self, token: _Token, depth: int) -> Tree:
        following = self.peek()
        if following is None or following.kind == ")" or _is_or(following):
            raise syntax_error(token.at, f"'{token.text}' needs a condition after it")
        return self._term(depth + 1)

    def _group(self, opening: _Token, depth: int) -> Tree:
        tree, closing = self.any(depth + 1), self.peek()
        if closing is None:
            raise syntax_error(opening.at, "unclosed '('")
        if tree == AllOf():
            raise syntax_error(opening.at, "empty parentheses")
        self._index += 1
        return tree

    def _condition(self, name: _Token, operator: _Token) -> Tree:
        value = self.peek()
        if value is None or value.kind not in ("text", "quoted"):
            raise syntax_error(operator.at, f"'{name.text}{operator.text}' needs a value")
        self._index += 1
        return Condition(name.text, operator.text, value.text, name.at, value.at)

    def _next(self) -> _Token:
        self._index += 1
        return self._tokens[self._index - 1]


def _joined(kind: type[AllOf] | type[AnyOf], parts: list[Tree]) -> Tree:
    """Combine parts; nested parts of the same kind are flattened."""
    if len(parts) == 1:
        return parts[0]
    inner = [part.parts if isinstance(part, kind) else (part,) for part in parts]
    return kind(tuple(item for group in inner for item in group))


def _is_or(token: _Token) -> bool:
    return token.kind == "text" and token.text.lower() == "or"


def _grouped(tree: Tree) -> str:
    return f"({tree})" if isinstance(tree, AllOf | AnyOf) else str(tree)


_PLAIN = re.compile(r'(?!or\Z)[^\s()":=<>!\\-][^\s()":=<>!\\]*', re.IGNORECASE)
_PLAIN_VALUE = re.compile(r'[^\s()":=<>!\\][^\s()"\\]*')


def _quoted(text: str, plain: re.Pattern[str] = _PLAIN) -> str:
    if plain.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


T = TypeVar("T")
Kind = Literal["text", "number", "time", "age", "duration"]
Value = tuple[str, ...] | float | None


@dataclass(frozen=True, kw_only=True)
class Field(Generic[T]):
    """One thing that a filter can ask of a ``T``.

    ``value`` reads it: a tuple of texts for ``text``, else one number or None. Moments are Unix
    seconds; an ``age`` is the moment from which it counts.
    """

    name: str
    about: str
    kind: Kind
    value: Callable[[T], Value]
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    """All values that the text can have; without them it can have any."""

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that a filter accepts."""
        return (self.name, *self.aliases)


def field_table(fields: Iterable[Field[T]]) -> dict[str, Field[T]]:
    """Return the fields by every name that a filter accepts."""
    return {name: field for field in fields for name in field.names}


def check_condition(test: Condition, kind: Kind, choices: tuple[str, ...] = ()) -> None:
    """UsageError, naming the character, for a comparison that a field of this kind cannot take."""
    if kind == "text" and test.operator in _ORDERED:
        raise syntax_error(test.at, f"'{test.name}' is text and takes ':', '=' or '!='")
    if choices and not any(test.value.lower() in choice for choice in choices):
        close = nearest(test.value.lower(), choices) or ", ".join(choices)
        raise syntax_error(test.value_at, f"unknown {test.name} '{test.value}'; try {close}")
    if kind != "text" and not _IS_VALUE[kind](test.value):
        raise syntax_error(test.value_at, f"'{test.value}' is not {_EXAMPLES[kind]}")


def unknown_field(test: Condition, fields: Iterable[str], summary: str = "") -> UsageError:
    """The error for an unknown field, with the nearest known one, or ``summary`` (default: all)."""
    names = list(fields)
    close = nearest(test.name.lower(), names)
    hint = f"did you mean '{close}'?" if close else f"known: {summary or ', '.join(names)}"
    return syntax_error(test.at, f"unknown field '{test.name}'; {hint}")


def compare(test: Condition, kind: Kind, value: Value, now: float) -> bool:
    """Whether a field's value meets a condition. A missing number meets none."""
    if isinstance(value, tuple):
        return _compare_text(test, value)
    if kind == "number":
        return compare_number(test, value)
    if value is None:
        return False
    if kind == "duration":
        return _COMPARE[test.operator](value, parse_span(test.value) or 0.0)
    return _compare_time(test, value, now)


def compare_number(test: Condition, value: float | None) -> bool:
    wanted = _number(test.value)
    return value is not None and wanted is not None and _COMPARE[test.operator](value, wanted)


def compare_any(test: Condition, value: object) -> bool:
    """Compare a value of unknown kind: numbers as numbers (``1e-5`` equals ``0.00001``), anything
    else as text."""
    actual, wanted = _number(value), _number(test.value)
    if actual is not None and wanted is not None:
        return _COMPARE[test.operator](actual, wanted)
    return test.operator not in _ORDERED and _compare_text(test, _as_texts(value))


_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    ":": operator.eq, "=": operator.eq, "!=": operator.ne,
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
}  # fmt: skip
_ORDERED = (">", ">=", "<", "<=")
_UNIT = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])", re.IGNORECASE)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DATES = (("%Y-%m-%d", 86400), ("%Y-%m-%dT%H:%M", 60), ("%Y-%m-%d %H:%M", 60))


def _compare_text(test: Condition, texts: tuple[str, ...]) -> bool:
    """``:`` is "contains", ``=`` is "equals"; upper and lower case are equal in both."""
    wanted, folded = test.value.casefold(), [text.casefold() for text in texts]
    if test.operator == ":":
        return any(wanted in text for text in folded)
    return (wanted in folded) is (test.operator == "=")


def _compare_time(test: Condition, value: float, now: float) -> bool:
    """With a duration, compare how long ago the moment is; with a date, the moment itself.

    A day is meant as a whole: ``>`` and ``>=`` are since its start, ``<`` before it.
    """
    if (span := parse_span(test.value)) is not None and test.operator in _ORDERED:
        return _COMPARE[test.operator](now - value, span)
    start, end = _period(test.value, now) or (0.0, 0.0)
    inside = start <= value < end
    if test.operator in (":", "="):
        return inside
    if test.operator == "!=":
        return not inside
    if test.operator in (">", ">="):
        return value >= start
    return value < (end if test.operator == "<=" else start)


def _period(text: str, now: float) -> tuple[float, float] | None:
    """Start and end of a date or minute; a duration is from that long ago until now."""
    if (span := parse_span(text)) is not None:
        return now - span, now
    for form, length in _DATES:
        try:
            start = time.mktime(time.strptime(text, form))
        except (ValueError, OverflowError):
            continue
        return start, start + length
    return None


def parse_span(text: str) -> float | None:
    """Parse a duration to seconds; ``1h30m`` adds up. None for a text that is not a duration."""
    if not text or _UNIT.sub("", text).strip():
        return None
    return sum(float(n) * _SECONDS[unit.lower()] for n, unit in _UNIT.findall(text))


def _number(value: object) -> float | None:
    """Texts that are numbers count: YAML reads ``1e-5`` as a text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if number == number else None


def _as_texts(value: object) -> tuple[str, ...]:
    if isinstance(value, list):
        return tuple(str(item) for item in value)
    return ("true" if value is True else "false" if value is False else str(value),)


_IS_VALUE: Mapping[Kind, Callable[[str], bool]] = {
    "number": lambda text: _number(text) is not None,
    "time": lambda text: _period(text, 0.0) is not None,
    "age": lambda text: parse_span(text) is not None,
    "duration": lambda text: parse_span(text) is not None,
}
_EXAMPLES: Mapping[Kind, str] = {
    "number": "a number",
    "time": "a time such as 2d (ago), 12h, 30m (minutes), 2026-01-31 or 2026-01-31T14:00",
    "age": "an age such as 2d, 12h or 30m",
    "duration": "a duration such as 90s, 30m or 2h",
}
