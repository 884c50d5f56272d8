"""The commands of a shell script as a tree: lists, loops, conditions, functions, pipes.

What has no end (``if`` without ``fi``) ends with the script.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from engine.translate.shell_words import (
    DEEPEST,
    TOO_DEEP,
    Mark,
    ShellError,
    Token,
    Word,
    read_tokens,
)

ASSIGNED = re.compile(r"([A-Za-z_]\w*)(?:\[(.*?)\])?(\+?)=", re.ASCII | re.DOTALL)
"""``NAME=`` or ``NAME[subscript]=``."""
_ENDS = frozenset(("\n", ";", ";;", ";&", ";;&", "&", "&&", "||", "|", "|&", ")"))
_CASE_ENDS = (";;", ";&", ";;&")
_CLOSING = ("then", "elif", "else", "fi", "do", "done", "esac", "}")


@dataclass(frozen=True)
class Simple:
    """A program, a command of the shell, ``[[``, or assignments. ``arrays``: by their words."""

    line: int
    words: tuple[Word, ...]
    arrays: Mapping[Word, tuple[Word, ...]]
    redirections: tuple[tuple[str, Word], ...] = ()


@dataclass(frozen=True)
class Series:
    """Commands one after another."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Chain:
    """Commands with ``&&`` or ``||`` before each; the first has none."""

    line: int
    parts: tuple[tuple[str, Node], ...]


@dataclass(frozen=True)
class Apart:
    """Commands in processes of their own: a pipe, a subshell, or the background."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Negated:
    node: Node


@dataclass(frozen=True)
class If:
    line: int
    condition: Node
    body: Node
    otherwise: Node


@dataclass(frozen=True)
class Loop:
    """``while`` and ``until``, which have a condition; ``for`` and ``select``, which have a name.

    Without words, ``for`` is over the arguments; a loop over numbers has neither.
    """

    line: int
    kind: str
    body: Node
    condition: Node | None = None
    name: str = ""
    words: tuple[Word, ...] | None = None


@dataclass(frozen=True)
class Case:
    line: int
    word: Word
    items: tuple[tuple[tuple[Word, ...], Node], ...]


@dataclass(frozen=True)
class Function:
    line: int
    name: str
    body: Node


Node = Simple | Series | Chain | Apart | Negated | If | Loop | Case | Function


def read_tree(script: str, line: int = 1) -> Node:
    """Return the commands of a script, whose first line has the number ``line``. ShellError."""
    return _Parser(read_tokens(script, line)).script()


class _Parser:
    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.at = 0
        self._depth = 0

    def script(self) -> Node:
        nodes = []
        while self.at < len(self.tokens):
            nodes.append(self._list())
            self.at += 1  # A word or bracket that closes nothing.
        return Series(tuple(nodes))

    @property
    def _next(self) -> Token:
        """The mark or word that follows; an empty mark after the last one."""
        last = Mark(self.tokens[-1].line if self.tokens else 1, "")
        return self.tokens[self.at] if self.at < len(self.tokens) else last

    def _skip(self, *texts: str) -> bool:
        """Go past one of these, if it follows."""
        is_there = self.at < len(self.tokens) and self._next.text in texts
        self.at += is_there
        return is_there

    def _skip_lines(self) -> None:
        while isinstance(self._next, Mark) and self._skip("\n", ";"):
            pass

    @contextmanager
    def _nested(self) -> Iterator[None]:
        if self._depth == DEEPEST:
            raise ShellError(self._next.line, TOO_DEEP)
        self._depth += 1
        yield
        self._depth -= 1

    def _list(self, *ends: str) -> Node:
        """The commands up to a word or mark that ends them, which is read."""
        nodes: list[Node] = []
        while True:
            self._skip_lines()
            stops = ends or _CLOSING
            if self.at >= len(self.tokens) or self._next.text in (*stops, ")", *_CASE_ENDS):
                return Series(tuple(nodes))
            node = self._chain(self._pipe, "&&", "||")
            nodes.append(Apart((node,)) if self._skip("&") else node)

    def _chain(self, read: Callable[[], Node], *signs: str) -> Node:
        line, parts = self._next.line, [("", read())]
        while isinstance(self._next, Mark) and self._next.text in signs:
            sign = self._next.text
            self.at += 1
            self._skip_lines()
            parts.append((sign, read()))
        return Chain(line, tuple(parts)) if len(parts) > 1 else parts[0][1]

    def _pipe(self) -> Node:
        is_negated = False
        while self._next.text in ("!", "time"):
            is_negated ^= self._next.text == "!"
            self.at += 1
        nodes = [self._command()]
        while isinstance(self._next, Mark) and self._skip("|", "|&"):
            self._skip_lines()
            nodes.append(self._command())
        node = Apart(tuple(nodes)) if len(nodes) > 1 else nodes[0]
        return Negated(node) if is_negated else node

    def _command(self) -> Node:
        readers: Mapping[str, Callable[[str, int], Node]] = {
            **dict.fromkeys(("{", "("), self._group),
            **dict.fromkeys(("while", "until", "for", "select"), self._loop),
            "if": self._if,
            "case": self._case,
            "function": self._function,
            "[[": self._test,
        }
        first, after = self._next, self.tokens[self.at + 1 : self.at + 3]
        is_named = isinstance(first, Word) and not ASSIGNED.fullmatch(first.text)
        is_function = is_named and [mark.text for mark in after if isinstance(mark, Mark)] == [
            *"()"
        ]
        read = self._function if is_function else readers.get(first.text)
        with self._nested():
            if read is None:
                return self._simple()
            self.at += 1
            node = read(first.text, first.line)
            self._redirections()
            return node

    def _group(self, opening: str, _: int) -> Node:
        body = self._list("}" if opening == "{" else ")")
        self._skip("}", ")")
        return Apart((body,)) if opening == "(" else body

    def _if(self, _: str, line: int) -> Node:
        condition = self._list("then")
        self._skip("then")
        body = self._list("elif", "else", "fi")
        otherwise: Node = Series(())
        following = self._next
        if self._skip("elif"):
            with self._nested():
                return If(line, condition, body, self._if("", following.line))
        if self._skip("else"):
            otherwise = self._list("fi")
        self._skip("fi")
        return If(line, condition, body, otherwise)

    def _loop(self, kind: str, line: int) -> Node:
        if kind in ("while", "until"):
            condition = self._list("do")
            return Loop(line, kind, self._body(), condition)
        name, words = self._next.text, None
        self.at += 1
        self._skip_lines()
        if self._skip("in"):
            words = self._words()
        name = "" if name.startswith("((") else name
        return Loop(line, kind, self._body(), name=name, words=words)

    def _body(self) -> Node:
        self._skip_lines()
        closing = "}" if self._skip("{") else "done"
        self._skip("do")
        body = self._list(closing)
        self._skip(closing)
        return body

    def _words(self) -> tuple[Word, ...]:
        words: list[Word] = []
        while isinstance(token := self._next, Word):
            words.append(token)
            self.at += 1
        return tuple(words)

    def _case(self, _: str, line: int) -> Node:
        token = self._next
        word = token if isinstance(token, Word) else Word(line, (), "")
        self.at += 1
        self._skip_lines()
        self._skip("in")
        self._skip_lines()
        read: list[tuple[tuple[Word, ...], Node, str]] = []
        while self.at < len(self.tokens) and not self._skip("esac"):
            start = self.at
            self._skip("(")
            patterns = self._words()
            while self._skip("|"):
                patterns += self._words()
            self._skip(")")
            read.append((patterns, self._list("esac"), self._next.text))
            self._skip(*_CASE_ENDS)
            self._skip_lines()
            self.at += self.at == start
        items: list[tuple[tuple[Word, ...], Node]] = []
        for patterns, body, end in reversed(read):
            if end == ";&" and items:
                body = Series((body, items[0][1]))
            if end == ";;&":
                body = Series((body, Case(line, word, tuple(items))))
            items.insert(0, (patterns, body))
        return Case(line, word, tuple(items))

    def _function(self, name: str, line: int) -> Node:
        if name == "function":
            name = self._next.text
            self.at += 1
        if self._skip("("):
            self._skip(")")
        self._skip_lines()
        return Function(line, name, self._command())

    def _test(self, opening: str, line: int) -> Node:
        """``[[ ... ]]``, or brackets in it: a chain of commands ``[[`` with two or three words."""
        node = self._chain(lambda: self._chain(self._operand, "&&"), "||")
        self._skip("]]" if opening == "[[" else ")")
        return node

    def _operand(self) -> Node:
        line, words = self._next.line, [Word(self._next.line, (), "[[")]
        with self._nested():
            if self._skip("!"):
                return Negated(self._operand())
            if self._skip("("):
                return self._test("(", line)
        opened = 0
        while self.at < len(self.tokens) and self._next.text not in ("&&", "||", "]]"):
            token = self._next
            opened += {"(": 1, ")": -1}.get(token.text, 0)
            if opened < 0:
                break
            if token.text != "\n":  # A mark is ``<``, or a part of a pattern after ``=~``.
                words.append(token if isinstance(token, Word) else Word(line, (), token.text))
            self.at += 1
        return Simple(line, tuple(words), {})

    def _simple(self) -> Node:
        line, start = self._next.line, self.at
        words: list[Word] = []
        arrays: dict[Word, tuple[Word, ...]] = {}
        redirections: list[tuple[str, Word]] = []
        while self.at < len(self.tokens):
            words += self._words()
            if self._next.text == "(":
                self.at += 1
                if words and ASSIGNED.fullmatch(words[-1].text):
                    elements: tuple[Word, ...] = ()
                    while self.at < len(self.tokens) and not self._skip(")"):
                        elements += self._words()
                        self.at += isinstance(self._next, Mark) and self._next.text != ")"
                    arrays[words[-1]] = elements
            elif self._next.text in _ENDS:
                break
            else:
                redirections += self._redirections()
        self.at += self.at == start
        return Simple(line, tuple(words), arrays, tuple(redirections))

    def _redirections(self) -> list[tuple[str, Word]]:
        """``> file``, ``<<`` with its text: marks and what follows each."""
        found: list[tuple[str, Word]] = []
        while isinstance(mark := self._next, Mark) and mark.text not in ("", "(", *_ENDS):
            self.at += 1
            if isinstance(target := self._next, Word):
                found.append((mark.text.lstrip("0123456789"), target))
                self.at += 1
        return found
