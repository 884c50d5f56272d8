"""The filter language of runs and rollouts: its grammar. ``query_fields`` compares values.

    filter := all ("or" all)*            all := term+
    term   := ("!" | "-") term | "(" filter ")" | field operator value | word

Quotes keep spaces and signs together: ``reason:"out of memory"``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from engine.base.errors import UsageError

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
