"""Split a shell script into words and marks, with what a shell would expand in each word.

Nothing is executed. ``shlex`` drops the quotes that decide what is expanded, cuts ``a#b`` at its
``#``, and splits ``$(a b)``, so it cannot serve here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

Kind = Literal["text", "variable", "executed"]


class ShellError(Exception):
    """A script that no shell can read. ``line`` is where the problem begins."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line


@dataclass(frozen=True)
class Piece:
    """A part of a word. The ``text`` of a variable is what is between ``${`` and ``}``."""

    kind: Kind
    text: str
    is_quoted: bool = False


@dataclass(frozen=True)
class Word:
    line: int
    pieces: tuple[Piece, ...]
    raw: str
    """As it is written."""


@dataclass(frozen=True)
class Mark:
    """The end of a command, a bracket, or a redirection."""

    line: int
    text: str


@dataclass(frozen=True)
class Document:
    """A here-document, which follows the line of its ``<<``; ``pieces`` as those of a word."""

    line: int
    pieces: tuple[Piece, ...]


Token = Word | Mark | Document


DEEPEST = 50
"""Brackets in each other, and defaults in each other."""
TOO_DEEP = f"more than {DEEPEST} brackets are open"

_BLANKS = " \t\r"
_REDIRECTION = re.compile(r"&>>?|\d*(?:<<<|<<-?|>>|>&|<&|<>|>\||<|>)")
_OPERATOR = re.compile(r";;&?|;&|;|&&|&|\|\||\|&|\||\(|\)|\n")
_ENDS_WORD = frozenset(" \t\r\n;&|<>()")
_PLAIN_VARIABLE = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]", re.ASCII)
_ESCAPES_IN_QUOTES = frozenset('$`"\\')
_ESCAPES_IN_DOCUMENT = frozenset("$`\\\n")
_END_OF_TEXT = re.compile(r"[$`\\]")
_ANSI = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "e": "\x1b"}


def read_tokens(script: str, line: int = 1) -> Iterator[Token]:
    """Yield the words and marks of a script in order, and its here-documents before the end of the
    lines that begin them; comments are left out. ``line`` is that of its first line.

    Raises ShellError for a quote or bracket without an end.
    """
    return _Reader(script, line).tokens()


def read_text(text: str) -> tuple[Piece, ...]:
    """Return the pieces of the default in ``${NAME:-text}``."""
    reader = _Reader(text)
    pieces: list[Piece] = []
    while reader.at < len(text):
        if text[reader.at] in "'\"\\$`":
            pieces += reader.part()
        else:
            pieces.append(Piece("text", text[reader.at]))
            reader.at += 1
    return tuple(pieces)


def _read_document(text: str) -> tuple[Piece, ...]:
    """Return the pieces of a here-document, in which quotes are characters."""
    reader = _Reader(text)
    pieces: list[Piece] = []
    while reader.at < len(text):
        character, following = text[reader.at], text[reader.at + 1 : reader.at + 2]
        if character in "$`":
            pieces.append(reader.expansion(is_quoted=True))
        elif character == "\\" and following in _ESCAPES_IN_DOCUMENT:
            pieces.append(Piece("text", following.strip("\n"), is_quoted=True))
            reader.at += 2
        else:
            end = _END_OF_TEXT.search(text, reader.at + 1)
            stop = end.start() if end else len(text)
            pieces.append(Piece("text", text[reader.at : stop], is_quoted=True))
            reader.at = stop
    return tuple(pieces)


class _Reader:
    def __init__(self, text: str, line: int = 1) -> None:
        self.text = text
        self.at = 0
        self._lines_before = line - 1
        self._counted = 0
        self._depth = 0

    @property
    def line(self) -> int:
        """The line of the current place, from 1."""
        self._lines_before += self.text.count("\n", self._counted, self.at)
        self._counted = max(self._counted, self.at)
        return 1 + self._lines_before

    def tokens(self) -> Iterator[Token]:
        documents: list[tuple[Word, bool]] = []
        is_document: str | None = None
        while self._skip_blanks():
            if self.text[self.at] == "#":
                self._skip_comment()
                continue
            token = self._token()
            if is_document is not None and isinstance(token, Word):
                documents.append((token, is_document.endswith("-")))
                is_document = None
            elif isinstance(token, Mark):
                is_document = (
                    token.text if token.text.lstrip("0123456789")[:3] in _DOCUMENT else None
                )
                if token.text == "\n":
                    for end, is_indented in documents:
                        yield self._document(end, is_indented)
                    documents = []
            yield token

    def _skip_blanks(self) -> bool:
        """Go to the next token; return whether there is one."""
        while self.at < len(self.text):
            if self.text[self.at] in _BLANKS:
                self.at += 1
            elif self._continues():
                self.at = self.text.index("\n", self.at) + 1
            else:
                return True
        return False

    def _continues(self) -> bool:
        """Whether a backslash joins this line and the next one."""
        return self.text.startswith(("\\\n", "\\\r\n"), self.at)

    def _skip_comment(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def _document(self, word: Word, is_indented: bool) -> Document:
        line, lines = self.line, list[str]()
        end = "".join(piece.text for piece in word.pieces)
        while self.at < len(self.text):
            stop = self.text.find("\n", self.at)
            stop = len(self.text) if stop < 0 else stop
            text = self.text[self.at : stop].rstrip("\r")
            self.at = min(stop + 1, len(self.text))
            text = text.lstrip("\t") if is_indented else text
            if text == end:
                break
            lines.append(f"{text}\n")
        text = "".join(lines)
        plain = (Piece("text", text, is_quoted=True),)
        if any(piece.is_quoted for piece in word.pieces):
            return Document(line, plain)
        try:
            return Document(line, _read_document(text))
        except ShellError:  # Text for another program, such as Markdown.
            return Document(line, plain)

    def _token(self) -> Word | Mark:
        line = self.line
        if self.text.startswith("((", self.at):
            return self._word()
        if self.text[self.at] not in "<>" or self.text[self.at + 1 : self.at + 2] != "(":
            for pattern in (_REDIRECTION, _OPERATOR):
                if match := pattern.match(self.text, self.at):
                    self.at = match.end()
                    return Mark(line, match[0])
        return self._word()

    def _word(self) -> Word:
        line, start = self.line, self.at
        pieces: list[Piece] = []
        if self.text.startswith("((", self.at):
            pieces.append(self._bracketed("(", ")", self.at))
        elif self.text.startswith(("<(", ">("), self.at):
            pieces.append(self._commands(is_quoted=False))
        while self.at < len(self.text):
            if self._continues():
                self.at = self.text.index("\n", self.at) + 1
            elif self.text[self.at] in _ENDS_WORD:
                break
            else:
                pieces += self.part()
        return Word(line, tuple(pieces), self.text[start : self.at])

    def part(self) -> list[Piece]:
        """Read a quoted text, an escaped character, an expansion, or plain characters."""
        character = self.text[self.at]
        if character == "'":
            return [Piece("text", self._until_quote(self.at + 1), is_quoted=True)]
        if character == '"':
            return self._double_quoted()
        if character == "\\":
            self.at += 2
            return [Piece("text", self.text[self.at - 1 : self.at] or "\\", is_quoted=True)]
        if self.text.startswith("$'", self.at):
            return [Piece("text", self._ansi_quoted(), is_quoted=True)]
        if self.text.startswith('$"', self.at):
            self.at += 1
            return self._double_quoted()
        if character in "$`":
            return [self.expansion(is_quoted=False)]
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in _ENDS_PLAIN:
            self.at += 1
        return [Piece("text", self.text[start : self.at])]

    def _until_quote(self, start: int) -> str:
        end = self.text.find("'", start)
        if end < 0:
            raise ShellError(self.line, "the quote ' has no end")
        self.at = end + 1
        return self.text[start:end]

    def _ansi_quoted(self) -> str:
        match = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL).match(self.text, self.at)
        if match is None:
            raise ShellError(self.line, "the quote $' has no end")
        self.at = match.end()
        return re.sub(r"\\(.)", lambda found: _ANSI.get(found[1], found[0]), match[1])

    def _double_quoted(self) -> list[Piece]:
        line = self.line
        self.at += 1
        pieces = [Piece("text", "", is_quoted=True)]
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == '"':
                self.at += 1
                return pieces
            if self._continues():
                self.at = self.text.index("\n", self.at) + 1
            elif character in "$`":
                pieces.append(self.expansion(is_quoted=True))
            else:
                following = self.text[self.at + 1 : self.at + 2]
                is_escaped = character == "\\" and following in _ESCAPES_IN_QUOTES
                pieces.append(Piece("text", following if is_escaped else character, is_quoted=True))
                self.at += 2 if is_escaped else 1
        raise ShellError(line, 'the quote " has no end')

    def expansion(self, *, is_quoted: bool) -> Piece:
        """Read what begins with ``$`` or a backtick; a ``$`` before nothing stands for itself."""
        if self.text[self.at] == "`":
            return self._backticks(is_quoted)
        following = self.text[self.at + 1 : self.at + 2]
        if self.text.startswith("$((", self.at):
            return self._bracketed("(", ")", self.at + 1, is_quoted)
        if following == "(":
            return self._commands(is_quoted)
        if following == "{":
            piece = self._bracketed("{", "}", self.at + 1, is_quoted)
            return Piece("variable", piece.text[2:-1], is_quoted)
        if match := _PLAIN_VARIABLE.match(self.text, self.at + 1):
            self.at = match.end()
            return Piece("variable", match[0], is_quoted)
        self.at += 1
        return Piece("text", "$", is_quoted)

    def _backticks(self, is_quoted: bool) -> Piece:
        match = re.compile(r"`(?:[^`\\]|\\.)*`", re.DOTALL).match(self.text, self.at)
        if match is None:
            raise ShellError(self.line, "the quote ` has no end")
        self.at = match.end()
        return Piece("executed", match[0], is_quoted)

    def _commands(self, is_quoted: bool) -> Piece:
        """Read ``$(...)`` or ``<(...)`` as a script, with comments and here-documents of its own.

        The bracket after a pattern of ``case`` does not close it.
        """
        with self._nested():
            return self._read_commands(is_quoted)

    @contextmanager
    def _nested(self) -> Iterator[None]:
        """Refuse what only a program writes, before Python refuses to go deeper."""
        if self._depth == DEEPEST:
            raise ShellError(self.line, TOO_DEEP)
        self._depth += 1
        yield
        self._depth -= 1

    def _read_commands(self, is_quoted: bool) -> Piece:
        first, line = self.at, self.line
        self.at += 2
        opened: list[str] = []
        begins = True
        for token in self.tokens():
            if isinstance(token, Mark):
                if token.text == "(":
                    opened.append("(")
                elif token.text == ")" and not opened:
                    return Piece("executed", self.text[first : self.at], is_quoted)
                elif token.text == ")" and opened[-1] == "(":
                    opened.pop()
                begins = bool(_OPERATOR.fullmatch(token.text))
            elif isinstance(token, Document):
                continue
            elif begins and token.raw == "case":
                opened.append("case")
                begins = False
            elif begins and token.raw == "esac" and opened[-1:] == ["case"]:
                opened.pop()
            else:
                begins = begins and token.raw in _BEFORE_COMMAND
        raise ShellError(line, "the bracket ( has no end")

    def _bracketed(self, opening: str, closing: str, start: int, is_quoted: bool = False) -> Piece:
        """Read up to the bracket that closes the one at ``start``; brackets in quotes do not."""
        first, line, depth = self.at, self.line, 0
        self.at = start
        while self.at < len(self.text):
            character = self.text[self.at]
            if character in "'\"\\`" or self.text.startswith("$(", self.at):
                if character == "'" and opening == "{" and is_quoted:
                    self.at += 1  # In "${NAME:-it's}", a quote is a character.
                else:
                    with self._nested():
                        self.part()
                continue
            self.at += 1
            depth += (character == opening) - (character == closing)
            if not depth:
                return Piece("executed", self.text[first : self.at], is_quoted)
        raise ShellError(line, f"the bracket {opening} has no end")


_DOCUMENT = ("<<", "<<-")
_BEFORE_COMMAND = frozenset(
    ("if", "then", "elif", "else", "while", "until", "do", "!", "{", "time")
)
_ENDS_PLAIN = _ENDS_WORD | frozenset("'\"\\$`")
