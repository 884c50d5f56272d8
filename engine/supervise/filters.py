"""The filter language for runs: its grammar. What fields mean is ``filter_fields``' matter.

    filter := all ("or" all)*            all := one+
    one    := ("!" | "-") one | "(" filter ")" | field operator value | word

Quotes keep spaces and signs together: ``reason:"out of memory"``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from engine.base.errors import UsageError

OPERATORS = (">=", "<=", "!=", ":", "=", ">", "<")
MOST_NESTED = 40
"""Deeper ones would be nobody's wish, and end what walks through them."""


@dataclass(frozen=True)
class Word:
    """Text that stands somewhere in what is told about a run, upper or lower case."""

    text: str

    def __str__(self) -> str:
        return _quoted(self.text)


@dataclass(frozen=True)
class Condition:
    """A field compared with a value. ``at`` and ``value_at`` are their places in the text."""

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
    """Every part holds; without parts it is the filter that lets everything pass."""

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


def mistake(at: int, what: str) -> UsageError:
    """``filter, character 7: ...``; ``at`` counts from 0."""
    return UsageError(f"filter, character {at + 1}: {what}")


def parse(text: str) -> Tree:
    """The filter that ``text`` says; an empty one lets every run pass.

    UsageError names the place of a mistake. ``parse(str(tree)) == tree`` for every parsed tree.
    """
    parser = _Parser(list(_tokens(text)), len(text))
    tree = parser.any(0)
    if (left := parser.peek()) is not None:
        raise mistake(left.at, "')' closes nothing; quote it to search for it")
    return tree


def conditions(tree: Tree) -> Iterator[Condition]:
    """The comparisons in a filter, from left to right."""
    if isinstance(tree, Condition):
        yield tree
    elif isinstance(tree, Not):
        yield from conditions(tree.part)
    elif isinstance(tree, AllOf | AnyOf):
        for part in tree.parts:
            yield from conditions(part)


def holds(tree: Tree, leaf: Callable[[Word | Condition], bool | None]) -> bool | None:
    """Whether a filter holds where ``leaf`` says so of its ends; None when that cannot be told.

    Parts that cannot be told do not matter where the others decide.
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
    """A value runs to the next space or parenthesis, whatever signs are in it."""
    place, before = 0, ""
    while place < len(text):
        value = _VALUE.match(text, place) if before == "operator" else None
        match = value or _PIECES.match(text, place)
        if match is None:
            raise mistake(place, "the quote is not closed")
        kind = "text" if value else str(match.lastgroup)
        if kind != "space":
            yield _token(kind, match)
            before = kind
        place = match.end()


def _token(kind: str, match: re.Match[str]) -> _Token:
    text, at = match.group(), match.start()
    if kind == "quoted":
        return _Token(kind, re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL), at)
    if kind == "not":
        return _Token("!", "!", at)
    return _Token(text if kind == "sign" else kind, text, at)


class _Parser:
    def __init__(self, tokens: list[_Token], length: int) -> None:
        self._tokens, self._place, self._length = tokens, 0, length

    def peek(self) -> _Token | None:
        return self._tokens[self._place] if self._place < len(self._tokens) else None

    def any(self, depth: int) -> Tree:
        parts = [self._all(depth)]
        while (token := self.peek()) is not None and _is_or(token):
            self._place += 1
            parts.append(self._all(depth))
            if parts[-2] == AllOf() or parts[-1] == AllOf():
                raise mistake(token.at, "'or' stands between two conditions; quote it as a word")
        flat = [
            one for part in parts for one in (part.parts if isinstance(part, AnyOf) else (part,))
        ]
        return parts[0] if len(parts) == 1 else AnyOf(tuple(flat))

    def _all(self, depth: int) -> Tree:
        parts: list[Tree] = []
        while (token := self.peek()) is not None and token.kind != ")" and not _is_or(token):
            parts.append(self._one(depth))
        return _joined(AllOf, parts)

    def _one(self, depth: int) -> Tree:
        token = self._next()
        if depth > MOST_NESTED:
            raise mistake(token.at, "too many parentheses inside each other")
        if token.kind == "!":
            return Not(self._denied(token, depth))
        if token.kind == "(":
            return self._group(token, depth)
        if token.kind == "operator":
            raise mistake(token.at, f"'{token.text}' needs a field before it, as in step>100")
        operator = self.peek()
        if operator is None or operator.kind != "operator":
            return Word(token.text)
        return self._test(token, self._next())

    def _denied(self, token: _Token, depth: int) -> Tree:
        following = self.peek()
        if following is None or following.kind == ")" or _is_or(following):
            raise mistake(token.at, "nothing follows to leave out")
        return self._one(depth + 1)

    def _group(self, opening: _Token, depth: int) -> Tree:
        tree, closing = self.any(depth + 1), self.peek()
        if closing is None:
            raise mistake(opening.at, "'(' is not closed")
        if tree == AllOf():
            raise mistake(opening.at, "nothing stands in the parentheses")
        self._place += 1
        return tree

    def _test(self, name: _Token, operator: _Token) -> Tree:
        value = self.peek()
        if value is None or value.kind not in ("text", "quoted"):
            raise mistake(operator.at, f"'{name.text}{operator.text}' needs a value")
        self._place += 1
        return Condition(name.text, operator.text, value.text, name.at, value.at)

    def _next(self) -> _Token:
        self._place += 1
        return self._tokens[self._place - 1]


def _joined(kind: type[AllOf] | type[AnyOf], parts: list[Tree]) -> Tree:
    """One part as it is; parts of the same kind, which were in parentheses, become its own."""
    if len(parts) == 1:
        return parts[0]
    inner = [part.parts if isinstance(part, kind) else (part,) for part in parts]
    return kind(tuple(one for group in inner for one in group))


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
