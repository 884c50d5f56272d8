"""Follow a shell script up to its commands: variables, defaults, arrays and exports, no programs.

What only a shell can know stays unknown: the output of a command, and a variable that is set in a
loop or under a condition. A word that contains it keeps the reason.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from engine.base.masking import is_secret_name, names_secret
from engine.translate.shell_arithmetic import compute
from engine.translate.shell_fields import Argument, Fields, Unknown
from engine.translate.shell_words import (
    DEEPEST,
    TOO_DEEP,
    Mark,
    Piece,
    ShellError,
    Word,
    read_text,
    read_tokens,
)


@dataclass(frozen=True)
class Export:
    """An exported variable. ``is_used``: a later word of the script contains its value."""

    line: int
    name: str
    value: str | Unknown
    is_used: bool = False


@dataclass(frozen=True)
class Command:
    """``exports``: variables that are set for this command alone."""

    line: int
    arguments: tuple[Argument, ...]
    exports: tuple[Export, ...] = ()


@dataclass(frozen=True)
class Script:
    commands: tuple[Command, ...]
    """Without assignments and what the shell does for itself (``set``, ``shift``)."""
    exports: tuple[Export, ...]
    secrets: frozenset[str] = frozenset()
    """Values of variables whose names say that they are secrets."""


_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(\+?)=", re.ASCII)
_ELEMENT = re.compile(r"([A-Za-z_]\w*)\[(.*?)\](\+?)=", re.ASCII | re.DOTALL)
"""``NAME[subscript]=``."""
_SUBSCRIPT = re.compile(r"0|[1-9][0-9]{0,5}")
_INDEXED = re.compile(r"\[.*?\]\+?=", re.DOTALL)
"""The head of an element in ``NAME=([subscript]=value)``."""
_VARIABLE = re.compile(r"([A-Za-z_]\w*|[0-9]+|[@*#])(\[[@*]\])?(?:(:?[-=?+])(.*))?", re.DOTALL)
_OPENING = frozenset(("if", "while", "until", "for", "select", "case", "function", "{"))
_HEADED = frozenset(("for", "select", "case", "function"))
"""Those that are followed by words that are no command."""
_BETWEEN = frozenset(("then", "elif", "else", "do", "!", "time"))
_CLOSING = frozenset(("fi", "done", "esac", "}"))
_ENDS = frozenset(("\n", ";", ";;", "&", "&&", "||", "|", "|&"))
_PIPES = frozenset(("|", "|&"))
_DECLARES = frozenset(("export", "declare", "local", "readonly", "typeset"))
_TESTS = frozenset(("[", "[[", "test"))
_QUIET = frozenset(("set", "shift", "unset", "echo", ":", "true", "exit", "wait", "shopt", "trap"))
SOURCES = frozenset(("source", "."))
"""Commands that execute a file in the shell of the script."""
_SURE = _DECLARES | {"set", "unset", "echo", ":", "true", "trap"}
"""Commands that succeed, so that what follows ``&&`` is executed."""

_CONDITION = "condition"
"""A group in braces after ``&&`` or ``||``."""
_SETTERS = frozenset(("let", "read", "mapfile", "readarray", "getopts", "eval"))
"""Commands that set the variables that their words name."""
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_WORKING_FOLDER = ("$(pwd)", "`pwd`")
"""A command that every shell has built in, and that only names its folder."""

_LONG_SECRET = 8
"""Characters."""
_MOST_TEXT = 10_000_000
"""Characters of all expansions; those of a long script are some 10,000."""

_Value = str | tuple[Argument, ...] | Unknown


def follow(script: str, arguments: Sequence[str], environment: Mapping[str, str]) -> Script:
    """Follow a script that is called with ``arguments``; ``environment`` has what may be expanded.

    Raises ShellError for a script that no shell can read.
    """
    given = [Argument(0, text) for text in arguments]
    follower = _Follower(given, dict(environment))
    follower.follow(list(read_tokens(script)))
    exports = tuple(
        Export(line, name, _as_text(follower.values.get(name, "")), name in follower.used)
        for name, line in follower.exported.items()
    )
    own = [export for command in follower.commands for export in command.exports]
    named = [*follower.values.items(), *((export.name, export.value) for export in own)]
    secrets = follower.secrets | {
        value for name, value in named if isinstance(value, str) and names_secret(name, value)
    }
    exports = tuple(_without_secret(export, secrets) for export in exports)
    return Script(tuple(follower.commands), exports, frozenset(secrets))


def holds_secret(text: str, secrets: Iterable[str]) -> bool:
    """Whether a text is a secret, or contains one that is long enough not to be there by chance."""
    return any(
        secret and (text == secret or (len(secret) >= _LONG_SECRET and secret in text))
        for secret in secrets
    )


def _without_secret(export: Export, secrets: Set[str]) -> Export:
    name, value = export.name, export.value
    if isinstance(value, str):
        is_secret = names_secret(name, value) or holds_secret(value, secrets)
    else:
        is_secret = is_secret_name(name)
    if is_secret:
        return replace(export, value=Unknown(f"a secret: set {name} in .env"), is_used=False)
    return export


def _as_text(value: _Value) -> str | Unknown:
    if not isinstance(value, tuple):
        return value
    return " ".join(argument.text for argument in value)


class _Follower:
    def __init__(self, arguments: list[Argument], environment: dict[str, str]) -> None:
        self.arguments = arguments
        self.values: dict[str, _Value] = dict(environment)
        self.exported: dict[str, int] = {}
        self.used: set[str] = set()
        self.commands: list[Command] = []
        self.secrets: set[str] = set()
        """Values that stand in the place of a secret, such as the default of its variable."""
        self._assigned: Counter[str] = Counter()
        """How often the script sets a variable, in any place."""
        self._has_exited = False
        self._is_apart = False
        """Whether the command runs in a process of its own: in a pipe, or in the background."""
        self._opened: list[tuple[str, int]] = []
        """Loops, conditions and functions around the place, with their lines."""
        self._expanded = 0
        self._depth = 0
        """Defaults of variables in each other."""
        self._unknown_arguments: str | None = None
        """Why the arguments are no longer known."""
        self._is_negated = False
        """Whether ``!`` is before the command."""
        self._sourced: list[tuple[str, int]] = []
        """Files that the script has read, with their lines."""
        self._is_uncertain = False
        """Whether ``&&`` or ``||`` decides about the next command."""

    def follow(self, tokens: list[Word | Mark]) -> None:
        heads = (_ASSIGNED.match(token.raw) for token in tokens if isinstance(token, Word))
        self._assigned.update(head[1] for head in heads if head)
        at = 0
        while at < len(tokens) and not self._has_exited:
            at = self._command(tokens, at)

    def _command(self, tokens: list[Word | Mark], at: int) -> int:
        """Follow the command that begins at a token; return where the next one begins."""
        words: list[Word] = []
        arrays: dict[int, list[Word]] = {}
        self._is_negated = False
        while at < len(tokens):
            token = tokens[at]
            at += 1
            if isinstance(token, Word):
                if not words and self._keyword(token):
                    self._is_negated = self._is_negated or token.raw == "!"
                    continue
                words.append(token)
                if words[0].raw == "[[" and token.raw != "[[":
                    at = _after_test(tokens, at)
            elif token.text == "(" and words and _ASSIGNED.fullmatch(words[-1].raw):
                arrays[len(words) - 1], at = _array(tokens, at)
            elif token.text == "(":
                at = self._bracket(words, tokens, at, token.line)
                words = []
            elif token.text == ")" and self._is_in("case"):
                words = []  # They are the pattern.
            elif token.text == ")":
                self._run(words, arrays)
                self._close()
                words = []
                break
            elif token.text == "|" and self._is_in("case") and len(words) == 1:
                words = []
            elif token.text in _ENDS:
                is_piped = token.text in _PIPES
                self._is_apart = self._is_apart or is_piped or token.text == "&"
                self._run(words, arrays)
                self._is_apart = is_piped
                self._note_end(token.text, words)
                return at
            else:
                at += 1  # The target of a redirection.
        self._run(words, arrays)
        self._is_apart = False
        self._note_end("", words)
        return at

    def _keyword(self, word: Word) -> bool:
        """Note a word that opens, divides or closes a loop, a condition or a group."""
        name = word.raw
        if name in _OPENING:
            is_group = name == "{" and self._is_uncertain
            self._opened.append((_CONDITION if is_group else name, word.line))
            return name not in _HEADED
        if name in _CLOSING:
            self._close()
            return True
        return name in _BETWEEN

    def _is_in(self, kind: str) -> bool:
        return bool(self._opened) and self._opened[-1][0] == kind

    def _close(self) -> None:
        if self._opened:
            self._opened.pop()

    def _bracket(self, words: list[Word], tokens: list[Word | Mark], at: int, line: int) -> int:
        """Note ``NAME()`` of a function, or the group of a subshell."""
        following = tokens[at] if at < len(tokens) else None
        if words and isinstance(following, Mark) and following.text == ")":
            # Its body follows in braces, perhaps in the next line.
            at += 1
            while at < len(tokens) and tokens[at] == Mark(tokens[at].line, "\n"):
                at += 1
            if at < len(tokens) and isinstance(tokens[at], Word):
                at += 1
            if words[0].raw != "function":  # Else it is noted already.
                self._opened.append(("function", line))
            return at
        self._opened.append(("(", line))
        return at

    def _note_end(self, mark: str, words: list[Word]) -> None:
        first = words[0].raw if words else ""
        pieces = (piece for word in words for piece in word.pieces)
        is_set = _is_assignment(first) and not any(piece.kind == "executed" for piece in pieces)
        is_sure = (first in _SURE or is_set) and not self._is_negated
        self._is_uncertain = mark == "||" or (mark == "&&" and not is_sure)

    def _uncertainty(self, line: int) -> str | None:
        """Why a variable that is set here may have another value, or none."""
        for kind, opened in self._opened:
            if kind != "{":
                return f"{_BLOCKS.get(kind, 'a block')} in line {opened} decides it"
        if self._is_apart:
            return f"a pipe or a background process in line {line} sets it for itself"
        return f"a condition in line {line} decides it" if self._is_uncertain else None

    def _run(self, words: list[Word], arrays: Mapping[int, list[Word]]) -> None:
        """Follow the assignments of a command, and keep what is a program."""
        count = 0
        while count < len(words) and _is_assignment(words[count].raw):
            count += 1
        if not words:
            return
        first = words[min(count, len(words) - 1)].raw
        if first.startswith("(("):
            self._forget(words, f"(( )) in line {words[0].line} may set it")
            return
        if count == len(words) or first in _DECLARES:
            self._assign(words, arrays, is_export=first == "export" and count < len(words))
        elif first in _HEADED:
            self._head(words)
        elif first in _TESTS:
            return
        elif first in _QUIET:
            self._shell_command(first, words[count:])
        elif first in _SETTERS or (first == "printf" and any(word.raw == "-v" for word in words)):
            self._forget(words[count + 1 :], f"{first} in line {words[0].line} may set it")
        elif arguments := [item for word in words[count:] for item in self._expand(word)]:
            own = [word for word in words[:count] if _ASSIGNED.match(word.raw)]
            exports = tuple(map(self._export, own))
            if first == "cd":
                self._change_folder(arguments[1:], words[count].line)
            elif first in SOURCES and len(arguments) > 1:
                self._sourced.append((arguments[1].text, words[count].line))
            self.commands.append(Command(words[count].line, tuple(arguments), exports))

    def _forget(self, words: Sequence[Word], reason: str) -> None:
        """The variables that these words name may have been set."""
        for name in _NAME.findall(" ".join(word.raw for word in words)):
            self.values[name] = Unknown(reason)

    def _change_folder(self, folders: Sequence[Argument], line: int) -> None:
        before, reason = self.values.get("PWD", ""), self._uncertainty(line)
        known = [item.text for item in folders if item.problem is None and item.text != "-"]
        if reason is None and len(known) == len(folders) == 1 and isinstance(before, str):
            self.values["PWD"] = posixpath.normpath(posixpath.join(before, known[0]))
        else:
            self.values["PWD"] = Unknown(reason or f"cd in line {line} decides it")

    def _head(self, words: list[Word]) -> None:
        """The first line of a loop: its variable has several values."""
        if words[0].raw in ("for", "select") and len(words) > 1:
            name = words[1].raw
            self.values[name] = Unknown(f"the loop in line {words[0].line} decides it")

    def _export(self, word: Word) -> Export:
        """A variable that is set before a command, for it alone."""
        match = _ASSIGNED.match(word.raw)
        assert match is not None
        return Export(word.line, match[1], _as_text(self._value(word, match[0], None)))

    def _shell_command(self, name: str, words: list[Word]) -> None:
        """Follow a command of the shell itself that changes arguments or variables."""
        if name == "exit":
            self._has_exited = not self._opened and not self._is_uncertain and not self._is_apart
        elif name == ":":
            for word in words[1:]:
                self._expand(word)  # ``: ${NAME:=value}`` sets it.
        if name in ("set", "shift") and (reason := self._uncertainty(words[0].line)):
            is_changed = name == "shift" or _sets_arguments(words)
            self._unknown_arguments = reason if is_changed else self._unknown_arguments
            return
        if name == "shift":
            given = [item for word in words[1:] for item in self._expand(word)]
            number = given[0].text if given else "1"
            if not number.isdecimal() or any(item.problem for item in given):
                self._unknown_arguments = f"shift in line {words[0].line} decides them"
            elif int(number) <= len(self.arguments):
                del self.arguments[: int(number)]
        elif name == "unset":
            for word in words[1:]:
                self.values.pop(word.raw, None)
        elif name == "set" and _sets_arguments(words):
            raw = [word.raw for word in words]
            after = words[raw.index("--") + 1 if "--" in raw else 1 :]
            self.arguments = [item for word in after for item in self._expand(word)]

    def _assign(
        self, words: list[Word], arrays: Mapping[int, list[Word]], *, is_export: bool
    ) -> None:
        for index, word in enumerate(words):
            match = _ASSIGNED.match(word.raw)
            if match is None and (element := _ELEMENT.match(word.raw)):
                self._set_element(word, element)
                continue
            if match is None:
                if is_export and word.raw.isidentifier():
                    self.exported.setdefault(word.raw, word.line)
                continue
            name, is_added = match[1], bool(match[2])
            value = self._value(word, match[0], arrays.get(index))
            reason = self._uncertainty(word.line)
            if reason is not None:
                value = Unknown(reason)
            elif is_added:
                value = _added(self.values.get(name, ""), value)
            self.values[name] = value
            if is_export:
                self.exported[name] = word.line
        if is_export:
            self.exported.pop("export", None)

    def _set_element(self, word: Word, match: re.Match[str]) -> None:
        """``NAME[1]=value``, where the script has the number and all elements before it."""
        name, subscript, is_added = match[1], match[2], bool(match[3])
        before, reason = self.values.get(name, ()), self._uncertainty(word.line)
        is_number = _SUBSCRIPT.fullmatch(subscript) and word.pieces[0].text.startswith(match[0])
        if reason is None and (is_added or not is_number or isinstance(before, Unknown)):
            reason = f"line {word.line} sets an element of it"
        elements = () if isinstance(before, Unknown) else _listed(before)
        if reason is None and int(subscript) > len(elements):
            reason = f"line {word.line} sets an element of it that is not the next"
        if reason is not None:
            self.values[name] = Unknown(reason)
            return
        value, at = _as_text(self._value(word, match[0], None)), int(subscript)
        if isinstance(value, Unknown):
            element = Argument(word.line, word.raw, value.reason)
        else:
            element = Argument(word.line, value)
        self.values[name] = (*elements[:at], element, *elements[at + 1 :])

    def _value(self, word: Word, head: str, array: list[Word] | None) -> _Value:
        if array is not None and any(_INDEXED.match(part.raw) for part in array):
            return Unknown(f"its elements in line {word.line} have subscripts")
        if array is not None:
            return tuple(item for part in array for item in self._expand(part))
        pieces = _without_head(word, head)
        value, home = self._fields(word, pieces, splits=False).value(), self.values.get("HOME")
        begins = pieces[0].text.partition("/")[0] == "~" and not pieces[0].is_quoted
        if begins and isinstance(value, str) and isinstance(home, str):
            return home + value[1:]
        return value

    def _expand(self, word: Word) -> list[Argument]:
        return self._fields(word, word.pieces, splits=True).arguments()

    def _fields(self, word: Word, pieces: Sequence[Piece], *, splits: bool) -> Fields:
        fields = Fields(word)
        for piece in pieces:
            if piece.kind == "text":
                fields.add(piece.text)
                continue
            value = self._of_piece(piece, word)
            self._count(value, word.line)
            if isinstance(value, Unknown):
                fields.add_problem(value.reason)
            elif isinstance(value, tuple):
                fields.add_several(value, is_quoted=piece.is_quoted or not splits)
            elif piece.is_quoted or not splits:
                fields.add(value)
            else:
                fields.add_split(value)
        return fields

    def _count(self, value: _Value, line: int) -> None:
        """Raise ShellError for a script that doubles a value again and again."""
        arguments = value if isinstance(value, tuple) else [_as_text(value)]
        self._expanded += sum(len(str(argument)) for argument in arguments)
        if self._expanded > _MOST_TEXT:
            raise ShellError(line, f"its variables expand to more than {_MOST_TEXT:,} characters")

    def _of_piece(self, piece: Piece, word: Word) -> _Value:
        if piece.text in _WORKING_FOLDER:
            return self.values.get("PWD", "")
        if piece.kind == "executed":
            if _is_comment(piece.text):
                return ""
            number = None
            if piece.text.startswith("$((") and piece.text.endswith("))"):
                number = compute(piece.text[3:-2], self._of_name)
            return Unknown(f"{piece.text} needs a shell") if number is None else number
        match = _VARIABLE.fullmatch(piece.text)
        if match is None:
            return Unknown(f"${{{piece.text}}} needs a shell")
        name, subscript, sign, default = (group or "" for group in match.groups())
        value = self._of_name(name)
        if isinstance(value, tuple):
            value = self._of_array(value, name, subscript, is_quoted=piece.is_quoted)
        is_set = value is not None and not (sign.startswith(":") and value in ("", ()))
        if sign.endswith("+"):
            return self._default(word, default) if is_set else ""
        if value is not None and (is_set or not sign):
            return value
        if sign.endswith(("-", "=")):
            chosen = self._default(word, default)
            if isinstance(chosen, str) and names_secret(name, chosen):
                self.secrets.add(chosen)
                return Unknown(f"{name} is a secret: set it in .env")
            if sign.endswith("="):
                reason = self._uncertainty(word.line)
                self.values[name] = chosen if reason is None else Unknown(reason)
            return chosen
        if name.isdecimal():
            return Unknown(f"it is argument {name} of the script; give it after the file")
        files = [f"; {file}, which line {line} reads, may set it" for file, line in self._sourced]
        return Unknown(f"{name} is not set in the script{''.join(files[-1:])}")

    def _of_array(
        self, array: tuple[Argument, ...], name: str, subscript: str, *, is_quoted: bool
    ) -> _Value:
        """``$A`` is the first element, ``"${A[*]}"`` all of them as one word."""
        if name != "@" and name != "*" and not subscript:
            array = array[:1]
        elif not is_quoted or (name != "*" and subscript != "[*]"):
            return array
        problem = next((item.problem for item in array if item.problem), None)
        if problem is not None:
            return Unknown(problem)
        between = self.values.get("IFS", " ")
        if not isinstance(between, str):
            return Unknown("IFS decides it")
        return between[:1].join(item.text for item in array)

    def _of_name(self, name: str) -> _Value | None:
        """The value of a variable; None if it has none."""
        if name in ("@", "*", "#") or name.isdecimal():
            return self._argument(name)
        self.used.add(name)
        value = self.values.get(name)
        for kind, line in self._opened:
            if kind == "function" and self._assigned[name] > 1:
                return Unknown(f"{name} may be set again before the function in line {line} runs")
        if isinstance(value, str) and names_secret(name, value):
            return Unknown(f"{name} is a secret: set it in .env")
        return value

    def _argument(self, name: str) -> _Value | None:
        """The value of ``$1``, ``$@`` or ``$#``; in a function, they are those of its call."""
        for kind, line in self._opened:
            if kind == "function":
                return Unknown(f"it is an argument of the function in line {line}")
        if self._unknown_arguments is not None:
            return Unknown(self._unknown_arguments)
        if name == "#":
            return str(len(self.arguments))
        if not name.isdecimal():
            return tuple(self.arguments)
        number = int(name)
        if not 0 < number <= len(self.arguments):
            return None
        argument = self.arguments[number - 1]
        return argument.text if argument.problem is None else Unknown(argument.problem)

    def _default(self, word: Word, text: str) -> str | Unknown:
        if self._depth == DEEPEST:
            raise ShellError(word.line, TOO_DEEP)
        self._depth += 1
        value = self._fields(word, read_text(text), splits=False).value()
        self._depth -= 1
        return value


_BLOCKS = {
    "function": "the function",
    "case": "the case",
    "(": "the subshell",
    _CONDITION: "a condition",
} | {
    name: f"the loop '{name}'" if name in ("for", "while", "until") else f"the '{name}'"
    for name in ("for", "while", "until", "if", "select")
}


def _is_assignment(text: str) -> bool:
    return bool(_ASSIGNED.match(text) or _ELEMENT.match(text))


def _sets_arguments(words: Sequence[Word]) -> bool:
    """Whether ``set`` gets arguments of the script: after ``--``, or at once."""
    raw = [word.raw for word in words[1:]]
    return "--" in raw or (bool(raw) and not raw[0].startswith(("-", "+")))


def _added(before: _Value, value: _Value) -> _Value:
    """``NAME+=value``."""
    if isinstance(before, Unknown) or isinstance(value, Unknown):
        return before if isinstance(before, Unknown) else value
    if isinstance(before, str) and isinstance(value, str):
        return before + value
    if isinstance(before, tuple) and isinstance(value, str):  # It is added to the first element.
        first = before[0] if before else Argument(0, "")
        return (replace(first, text=first.text + value), *before[1:])
    return _listed(before) + _listed(value)


def _listed(value: str | tuple[Argument, ...]) -> tuple[Argument, ...]:
    if isinstance(value, tuple):
        return value
    return (Argument(0, value),) if value else ()


def _is_comment(executed: str) -> bool:
    """Whether what a shell would execute is a comment, as in ``a=1 `# one` \\``."""
    body = executed[1:-1] if executed.startswith("`") else executed[2:-1]
    return body.lstrip().startswith("#") and not any(
        isinstance(token, Word) for token in read_tokens(body)
    )


def _without_head(word: Word, head: str) -> tuple[Piece, ...]:
    """The pieces of an assignment after ``NAME=``, which is in its first piece."""
    first, *others = word.pieces
    rest = first.text.removeprefix(head)
    return (Piece("text", rest, first.is_quoted), *others)


def _array(tokens: Sequence[Word | Mark], at: int) -> tuple[list[Word], int]:
    """The words up to the closing bracket, and where the next token is."""
    words: list[Word] = []
    while at < len(tokens):
        token = tokens[at]
        at += 1
        if isinstance(token, Word):
            words.append(token)
        elif token.text == ")":
            break
    return words, at


def _after_test(tokens: Sequence[Word | Mark], at: int) -> int:
    """Where ``[[ ... ]]`` has ended."""
    while at < len(tokens):
        token = tokens[at]
        at += 1
        if isinstance(token, Word) and token.raw == "]]":
            break
    return at
