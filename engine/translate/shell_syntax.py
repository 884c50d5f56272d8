"""The commands of a shell script as a tree: lists, loops, conditions, functions, pipes.

What has no end (``if`` without ``fi``) ends with the script.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from engine.translate.shell_words import (
    DEEPEST,
    TOO_DEEP,
    Document,
    Mark,
    ShellError,
    Token,
    Word,
    read_tokens,
)

ASSIGNED = re.compile(r"([A-Za-z_]\w*)(\+?)=", re.ASCII)
ELEMENT = re.compile(r"([A-Za-z_]\w*)\[(.*?)\](\+?)=", re.ASCII | re.DOTALL)
"""``NAME[subscript]=``."""
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_ENDS = frozenset(("\n", ";", ";;", ";&", ";;&", "&", "&&", "||", "|", "|&", ")"))
_CASE_ENDS = frozenset((";;", ";&", ";;&"))


@dataclass(frozen=True)
class Simple:
    """A program, a command of the shell, or assignments. ``arrays``: by the index of their word."""

    line: int
    words: tuple[Word, ...]
    arrays: Mapping[int, tuple[Word, ...]]
    redirections: tuple[tuple[str, Word | Document], ...]


@dataclass(frozen=True)
class Test:
    """``[[ ... ]]``."""

    line: int
    tokens: tuple[Token, ...]


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
    branches: tuple[tuple[Node, Node], ...]
    otherwise: Node


@dataclass(frozen=True)
class Loop:
    """``while`` and ``until``, or a loop over numbers, which has no condition that is read."""

    line: int
    kind: str
    condition: Node
    body: Node


@dataclass(frozen=True)
class For:
    """``for`` and ``select``; without words, over the arguments."""

    line: int
    kind: str
    name: str
    words: tuple[Word, ...] | None
    body: Node


@dataclass(frozen=True)
class Case:
    line: int
    word: Word
    items: tuple[tuple[tuple[Word, ...], Node], ...]
    falls_through: bool


@dataclass(frozen=True)
class Function:
    line: int
    name: str
    body: Node


Node = Simple | Test | Series | Chain | Apart | Negated | If | Loop | For | Case | Function


def read_tree(script: str, line: int = 1) -> Node:
    """Return the commands of a script, whose first line has the number ``line``. ShellError."""
    return _Parser(list(read_tokens(script, line))).script()


def find_names(node: Any) -> Counter[str]:
    """The names that commands may set, at any depth; those that are only added to count 0."""
    names: Counter[str] = Counter()
    for each in _walk(node):
        if isinstance(each, For):
            names[each.name] += 1
        elif isinstance(each, Simple):
            _add_names(names, each)
    return names


def find_programs(node: Any) -> set[str]:
    """The first words of the commands, at any depth."""
    return {
        word.raw
        for each in _walk(node)
        if isinstance(each, Simple)
        for word in each.words[: 1 + sum(bool(ASSIGNED.match(word.raw)) for word in each.words)]
    }


def _add_names(names: Counter[str], command: Simple) -> None:
    sets_named = any(word.raw in SETTERS or word.raw.startswith("((") for word in command.words)
    for word in command.words:
        head = ASSIGNED.match(word.raw) or ELEMENT.match(word.raw)
        if head is not None:
            names[head[1]] += not head[head.lastindex or 0]
        elif sets_named:
            names.update(_NAME.findall(word.raw))
        names.update(
            found[0]
            for piece in word.pieces
            if piece.kind == "variable" and "=" in piece.text and (found := _NAME.match(piece.text))
        )


SETTERS = frozenset(("let", "read", "mapfile", "readarray", "getopts", "eval", "printf", "unset"))
"""Commands that set the variables that their words name."""


def _walk(node: Any) -> Iterator[Any]:
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, tuple):
            waiting += each
        elif is_dataclass(each) and not isinstance(each, Word | Document | Mark):
            yield each
            waiting += (getattr(each, field.name) for field in fields(each))


class _Parser:
    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.at = 0
        self._depth = 0
        self._documents = iter([token for token in tokens if isinstance(token, Document)])

    def script(self) -> Node:
        nodes = []
        while self.at < len(self.tokens):
            nodes.append(self._list())
            self.at += 1  # A word or bracket that closes nothing.
        return Series(tuple(nodes))

    def _peek(self) -> str:
        """The mark or word that follows; a here-document is met where its line ends."""
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            if not isinstance(token, Document):
                return token.raw if isinstance(token, Word) else token.text
            self.at += 1
        return ""

    @property
    def _line(self) -> int:
        return self.tokens[min(self.at, len(self.tokens) - 1)].line

    def _is_mark(self, *texts: str) -> bool:
        is_mark = self._peek() in texts and self.at < len(self.tokens)
        return is_mark and isinstance(self.tokens[self.at], Mark)

    def _skip(self, *texts: str) -> bool:
        """Go past one of these, if it follows."""
        is_there = self.at < len(self.tokens) and self._peek() in texts
        self.at += is_there
        return is_there

    def _skip_lines(self) -> None:
        while self._is_mark("\n", ";"):
            self.at += 1

    def _list(self, *ends: str) -> Node:
        """The commands up to a word or mark that ends them, which is not read."""
        nodes: list[Node] = []
        while True:
            self._skip_lines()
            if self.at >= len(self.tokens) or self._peek() in (*ends, ")", *_CASE_ENDS):
                return Series(tuple(nodes))
            if not ends and self._peek() in _CLOSING:
                return Series(tuple(nodes))
            node = self._chain()
            nodes.append(Apart((node,)) if self._skip("&") else node)

    def _chain(self) -> Node:
        line, parts = self._line, [("", self._pipe())]
        while self._is_mark("&&", "||"):
            sign = self._peek()
            self.at += 1
            self._skip_lines()
            parts.append((sign, self._pipe()))
        return Chain(line, tuple(parts)) if len(parts) > 1 else parts[0][1]

    def _pipe(self) -> Node:
        is_negated = False
        while self._peek() in ("!", "time") and self.at < len(self.tokens):
            is_negated ^= self._peek() == "!"
            self.at += 1
        nodes = [self._command()]
        while self._is_mark("|", "|&"):
            self.at += 1
            self._skip_lines()
            nodes.append(self._command())
        node = Apart(tuple(nodes)) if len(nodes) > 1 else nodes[0]
        return Negated(node) if is_negated else node

    def _command(self) -> Node:
        if self._depth == DEEPEST:
            raise ShellError(self._line, TOO_DEEP)
        self._depth += 1
        name, read = self._peek(), self._compound()
        if read is None:
            node = self._simple()
        else:
            self.at += 1
            node = read(name, self.tokens[self.at - 1].line)
            self._redirections()
        self._depth -= 1
        return node

    def _compound(self) -> Callable[[str, int], Node] | None:
        """What reads the command that follows; None for a simple one."""
        after = self.tokens[self.at + 1 : self.at + 3]
        marks = [token.text for token in after if isinstance(token, Mark)]
        is_word = isinstance(self.tokens[self.at], Word) and not ASSIGNED.fullmatch(self._peek())
        if marks == ["(", ")"] and is_word:
            return self._function
        readers: Mapping[str, Callable[[str, int], Node]] = {
            **dict.fromkeys(("{", "("), self._group),
            **dict.fromkeys(("while", "until"), self._loop),
            **dict.fromkeys(("for", "select"), self._for),
            "if": self._if,
            "case": self._case,
            "function": self._function,
            "[[": self._test,
        }
        return readers.get(self._peek())

    def _group(self, opening: str, line: int) -> Node:
        body = self._list("}" if opening == "{" else ")")
        self._skip("}", ")")
        return Apart((body,)) if opening == "(" else body

    def _if(self, _: str, line: int) -> Node:
        branches: list[tuple[Node, Node]] = []
        otherwise: Node = Series(())
        while True:
            condition = self._list("then")
            self._skip("then")
            branches.append((condition, self._list("elif", "else", "fi")))
            if not self._skip("elif"):
                break
        if self._skip("else"):
            otherwise = self._list("fi")
        self._skip("fi")
        return If(line, tuple(branches), otherwise)

    def _loop(self, kind: str, line: int) -> Node:
        condition = self._list("do")
        return Loop(line, kind, condition, self._body())

    def _body(self) -> Node:
        self._skip_lines()
        closing = "}" if self._skip("{") else "done"
        self._skip("do")
        body = self._list(closing)
        self._skip(closing)
        return body

    def _for(self, kind: str, line: int) -> Node:
        name, words = self._peek(), list[Word]()
        if name.startswith("(("):
            counter = Simple(line, self._words(), {}, ())
            return Loop(line, kind, counter, self._body())
        self.at += 1
        self._skip_lines()
        has_words = self._skip("in")
        if has_words:
            words += self._words()
        return For(line, kind, name, tuple(words) if has_words else None, self._body())

    def _words(self) -> tuple[Word, ...]:
        words: list[Word] = []
        while self.at < len(self.tokens) and isinstance(token := self.tokens[self.at], Word):
            words.append(token)
            self.at += 1
        return tuple(words)

    def _case(self, _: str, line: int) -> Node:
        token = self.tokens[self.at] if self.at < len(self.tokens) else None
        word = token if isinstance(token, Word) else Word(line, (), "")
        self.at += 1
        self._skip_lines()
        items: list[tuple[tuple[Word, ...], Node]] = []
        falls_through = False
        self._skip("in")
        self._skip_lines()
        while self.at < len(self.tokens) and self._peek() != "esac":
            start = self.at
            self._skip("(")
            patterns: list[Word] = [*self._words()]
            while self._skip("|"):
                patterns += self._words()
            self._skip(")")
            items.append((tuple(patterns), self._list("esac")))
            falls_through = falls_through or self._peek() in (";&", ";;&")
            self._skip(*_CASE_ENDS)
            self._skip_lines()
            self.at += self.at == start
        self._skip("esac")
        return Case(line, word, tuple(items), falls_through)

    def _function(self, name: str, line: int) -> Node:
        if name == "function":
            name = self._peek()
            self.at += 1
        if self._skip("("):
            self._skip(")")
        self._skip_lines()
        return Function(line, name, self._command())

    def _test(self, _: str, line: int) -> Node:
        tokens: list[Token] = []
        while self.at < len(self.tokens) and self._peek() != "]]":
            tokens.append(self.tokens[self.at])
            self.at += 1
        self._skip("]]")
        return Test(line, tuple(tokens))

    def _simple(self) -> Node:
        line, start = self._line, self.at
        words: list[Word] = []
        arrays: dict[int, tuple[Word, ...]] = {}
        redirections: list[tuple[str, Word | Document]] = []
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            if isinstance(token, Word):
                words.append(token)
                self.at += 1
            elif isinstance(token, Mark) and token.text == "(" and words:
                self.at += 1
                if ASSIGNED.fullmatch(words[-1].raw):
                    arrays[len(words) - 1] = self._array()
            elif isinstance(token, Mark) and token.text in _ENDS:
                break
            else:
                redirections += self._redirections()
        self.at += self.at == start
        return Simple(line, tuple(words), arrays, tuple(redirections))

    def _array(self) -> tuple[Word, ...]:
        words: list[Word] = []
        while self.at < len(self.tokens) and not self._is_mark(")"):
            if isinstance(token := self.tokens[self.at], Word):
                words.append(token)
            self.at += 1
        self._skip(")")
        return tuple(words)

    def _redirections(self) -> list[tuple[str, Word | Document]]:
        """``> file``, ``<<`` with its text: marks and what follows each."""
        found: list[tuple[str, Word | Document]] = []
        while self.at < len(self.tokens):
            mark = self.tokens[self.at]
            if isinstance(mark, Document):
                self.at += 1
                continue
            if not isinstance(mark, Mark) or mark.text in _ENDS or mark.text == "(":
                break
            self.at += 1
            target = self.tokens[self.at] if self.at < len(self.tokens) else mark
            if isinstance(target, Word):
                found.append((mark.text.lstrip("0123456789"), self._target(mark.text, target)))
                self.at += 1
        return found

    def _target(self, mark: str, target: Word) -> Word | Document:
        """The file; for a here-document its text, which follows in the order of the marks."""
        if not mark.lstrip("0123456789").startswith("<<") or mark.endswith("<<<"):
            return target
        return next(self._documents, target)


_CLOSING = frozenset(("then", "elif", "else", "fi", "do", "done", "esac", "}"))
