"""Split a shell script into words and marks, with what a shell would expand in each word.

Nothing is executed. ``shlex`` drops the quotes that decide what is expanded, cuts ``a#b`` at its
``#``, and splits ``$(a b)``, so it cannot serve here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
    text: str
    """As it is written."""


@dataclass(frozen=True)
class Mark:
    """The end of a command, a bracket, or a redirection."""

    line: int
    text: str


Token = Word | Mark


DEEPEST = 50
"""Brackets in each other, and defaults in each other."""
TOO_DEEP = f"more than {DEEPEST} brackets are open"

_REDIRECTION = re.compile(r"&>>?|\d*(?:<<<|<<-?|>>|>&|<&|<>|>\||<|>)")
_OPERATOR = re.compile(r";;&?|;&|;|&&|&|\|\||\|&|\||\(|\)|\n")
_BEFORE_COMMAND = re.compile(rf"{_OPERATOR.pattern}|if|then|elif|else|while|until|do|!|\{{|time")
_ENDS_WORD = frozenset(" \t\n;&|<>()")
_PLAIN_VARIABLE = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]", re.ASCII)
_ESCAPES = "$`\\\n"
"""What a backslash escapes in a here-document; in double quotes also the quote."""
_CHARACTERS = re.compile(r'[^$`\\"]+')
_SINGLE = re.compile(r"'[^']*'")
_ANSI = re.compile(r"\$'(?:[^'\\]|\\.)*'", re.DOTALL)
_BACKTICKS = re.compile(r"`(?:[^`\\]|\\.)*`", re.DOTALL)
_ANSI_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "e": "\x1b"}


def read_tokens(script: str, line: int = 1) -> list[Token]:
    """Return the words and marks of a script in order, without comments. ``line``: its first one.

    The word after ``<<`` is the text of the here-document. ShellError for a quote or bracket
    without an end.
    """
    return _Reader(script.replace("\r\n", "\n"), line).tokens()


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


class _Reader:
    def __init__(self, text: str, line: int = 1, depth: int = 0) -> None:
        self.text = text
        self.at = 0
        self._lines_before = line - 1
        self._counted = 0
        self._depth = depth

    @property
    def line(self) -> int:
        """The line of the current place, from 1."""
        self._lines_before += self.text.count("\n", self._counted, self.at)
        self._counted = max(self._counted, self.at)
        return 1 + self._lines_before

    def tokens(self, *, is_nested: bool = False) -> list[Token]:
        """Read to the end, or to the bracket that closes ``$(``.

        The bracket after a pattern of ``case`` does not close it.
        """
        line, found, opened, documents = self.line, list[Token](), list[str](), list[int]()
        while self._skip_blanks():
            if self.text[self.at] == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
                continue
            before, token = found[-1] if found else Mark(line, "\n"), self._token()
            found.append(token)
            if isinstance(token, Word):
                if _DOCUMENT.fullmatch(before.text):
                    documents.append(len(found) - 1)
                elif token.text in ("case", "esac") and _BEFORE_COMMAND.fullmatch(before.text):
                    opened = [*opened, "case"] if token.text == "case" else opened[:-1]
            elif token.text == "(":
                opened.append("(")
            elif token.text == ")" and opened[-1:] != ["case"]:
                if is_nested and not opened:
                    return found
                del opened[-1:]
            elif token.text == "\n":
                for index in documents:
                    found[index] = self._document(found[index], found[index - 1].text)
                documents = []
        if is_nested:
            raise ShellError(line, "the bracket ( has no end")
        return found

    def _skip_blanks(self) -> bool:
        """Go to the next token; return whether there is one."""
        while self.at < len(self.text):
            if self._continues():
                self.at += 2
            elif self.text[self.at] in " \t\r":
                self.at += 1
            else:
                return True
        return False

    def _continues(self) -> bool:
        """Whether a backslash joins this line and the next one."""
        return self.text.startswith("\\\n", self.at)

    def _document(self, word: Token, mark: str) -> Word:
        """Read the text up to the line that ``word`` names; ``<<-`` drops its tabs."""
        assert isinstance(word, Word)
        line, lines = self.line, list[str]()
        end = "".join(piece.text for piece in word.pieces)
        while self.at < len(self.text):
            stop = self.text.find("\n", self.at)
            stop = len(self.text) if stop < 0 else stop
            text, self.at = self.text[self.at : stop], min(stop + 1, len(self.text))
            text = text.lstrip("\t") if mark.endswith("-") else text
            if text == end:
                break
            lines.append(f"{text}\n")
        whole = "".join(lines)
        pieces = [Piece("text", whole, is_quoted=True)]
        if not any(piece.is_quoted for piece in word.pieces):
            with suppress(ShellError):  # Text for another program, such as Markdown.
                pieces = _Reader(whole, depth=self._depth + 1).quoted()
        return Word(line, tuple(pieces), word.text)

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
                self.at += 2
            elif self.text[self.at] in _ENDS_WORD:
                break
            else:
                pieces += self.part()
        return Word(line, tuple(pieces), self.text[start : self.at])

    def part(self) -> list[Piece]:
        """Read a quoted text, an escaped character, an expansion, or plain characters."""
        character = self.text[self.at]
        if character == "'":
            return [Piece("text", self._match(_SINGLE, "'")[1:-1], is_quoted=True)]
        if character == '"' or self.text.startswith('$"', self.at):
            self.at += 1 + (character == "$")
            return [Piece("text", "", is_quoted=True), *self.quoted('"')]
        if character == "\\":
            self.at += 2
            return [Piece("text", self.text[self.at - 1 : self.at] or "\\", is_quoted=True)]
        if self.text.startswith("$'", self.at):
            text = self._match(_ANSI, "$'")[2:-1]
            text = re.sub(r"\\(.)", lambda found: _ANSI_ESCAPES.get(found[1], found[0]), text)
            return [Piece("text", text, is_quoted=True)]
        if character in "$`":
            return [self.expansion(is_quoted=False)]
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in _ENDS_PLAIN:
            self.at += 1
        return [Piece("text", self.text[start : self.at])]

    def quoted(self, end: str = "") -> list[Piece]:
        """Read up to the end of double quotes, or the whole text of a here-document."""
        line, pieces = self.line, list[Piece]()
        while self.at < len(self.text):
            character, following = self.text[self.at], self.text[self.at + 1 : self.at + 2]
            if character == end:
                self.at += 1
                return pieces
            if character in "$`":
                pieces.append(self.expansion(is_quoted=True))
            elif character == "\\" and following and following in _ESCAPES + end:
                pieces.append(Piece("text", following.strip("\n"), is_quoted=True))
                self.at += 2
            else:
                plain = _CHARACTERS.match(self.text, self.at)
                self.at = plain.end() if plain else self.at + 1
                pieces.append(Piece("text", plain[0] if plain else character, is_quoted=True))
        if end:
            raise ShellError(line, 'the quote " has no end')
        return pieces

    def _match(self, pattern: re.Pattern[str], quote: str) -> str:
        """Read the whole of what is quoted."""
        match = pattern.match(self.text, self.at)
        if match is None:
            raise ShellError(self.line, f"the quote {quote} has no end")
        self.at = match.end()
        return match[0]

    def expansion(self, *, is_quoted: bool) -> Piece:
        """Read what begins with ``$`` or a backtick; a ``$`` before nothing stands for itself."""
        if self.text[self.at] == "`":
            return Piece("executed", self._match(_BACKTICKS, "`"), is_quoted)
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

    def _commands(self, is_quoted: bool) -> Piece:
        """Read ``$(...)`` or ``<(...)``, with comments and here-documents of its own."""
        first = self.at
        self.at += 2
        with self._nested():
            self.tokens(is_nested=True)
        return Piece("executed", self.text[first : self.at], is_quoted)

    @contextmanager
    def _nested(self) -> Iterator[None]:
        """Refuse what only a program writes, before Python refuses to go deeper."""
        if self._depth >= DEEPEST:
            raise ShellError(self.line, TOO_DEEP)
        self._depth += 1
        yield
        self._depth -= 1

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


_DOCUMENT = re.compile(r"\d*<<-?")
_ENDS_PLAIN = _ENDS_WORD | frozenset("'\"\\$`")
