"""Fill in what a shell expands in a word: variables, defaults, arrays, integers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from engine.base.masking import names_secret
from engine.translate.shell_arithmetic import compute
from engine.translate.shell_state import Argument, Holes, State, Value
from engine.translate.shell_syntax import Simple
from engine.translate.shell_words import (
    DEEPEST,
    TOO_DEEP,
    Piece,
    ShellError,
    Word,
    read_text,
    read_tokens,
)

_VARIABLE = re.compile(
    r"(#?)([A-Za-z_]\w*|[0-9]+|[@*#])(?:\[(.*?)\])?(?:(:?[-=?+]|##?|%%?|\^\^|,,)(.*))?",
    re.DOTALL | re.ASCII,
)
_PLAIN = re.compile(r"[A-Za-z_]\w*|[0-9@*#]", re.ASCII)
_SUBSCRIPT = re.compile(r"0|[1-9][0-9]{0,5}")
_WORKING_FOLDER = ("$(pwd)", "`pwd`")
"""A command that every shell has built in, and that only names its folder."""
_ALL = ("@", "*")
_MOST_TEXT = 10_000_000
"""Characters of all expansions; those of a long script are some 10,000."""


class Expander:
    """Expands words in a state, which the commands of the script change."""

    def __init__(self, state: State, holes: Holes) -> None:
        self.state = state
        self.holes = holes
        self.used: set[str] = set()
        self.secrets: set[str] = set()
        """Values of variables whose names say that they are secrets."""
        self.sourced: list[tuple[str, int]] = []
        """Files that the script has read, with their lines."""
        self.is_test = False
        """Whether a condition is expanded: an argument that is not there is empty in it."""
        self._expanded = 0
        self._depth = 0

    @contextmanager
    def testing(self) -> Iterator[None]:
        self.is_test = True
        yield
        self.is_test = False

    def set(self, name: str, value: Value) -> None:
        if isinstance(value, str) and names_secret(name, value) and not self.holes.reason(value):
            self.secrets.add(value)
        self.state.values[name] = value

    def expand(self, word: Word) -> list[Argument]:
        """The words that one word becomes."""
        return self._fields(word.line, word.pieces, splits=True)

    def text(self, line: int, pieces: Sequence[Piece]) -> str:
        """What a word is where the shell does not split it, as in an assignment."""
        return " ".join(item.text for item in self._fields(line, pieces, splits=False))

    def pattern(self, line: int, pieces: Sequence[Piece]) -> re.Pattern[str] | None:
        """What a word matches in ``case`` and ``[[``; None if only a shell knows."""
        parts: list[str] = []
        for piece in pieces:
            text = self.text(line, [piece])
            if self.holes.reason(text) is not None:
                return None
            parts.append(re.escape(text) if piece.is_quoted else _glob(text))
        return re.compile("".join(parts), re.DOTALL)

    def _fields(self, line: int, pieces: Sequence[Piece], *, splits: bool) -> list[Argument]:
        fields = _Fields(line, self.state.values.get("IFS"))
        for piece in pieces:
            if piece.kind == "text":
                fields.add(piece.text)
                continue
            value = self._of_piece(piece, line)
            self._count(value, line)
            if isinstance(value, tuple):
                fields.add_several(value, is_split=splits and not piece.is_quoted)
            elif piece.is_quoted or not splits:
                fields.add(value)
            else:
                fields.add_split(value)
        return fields.arguments()

    def _count(self, value: Value, line: int) -> None:
        """Raise ShellError for a script that doubles a value again and again."""
        self._expanded += sum(len(item.text) for item in listed(value))
        if self._expanded > _MOST_TEXT:
            raise ShellError(line, f"its variables expand to more than {_MOST_TEXT:,} characters")

    def _of_piece(self, piece: Piece, line: int) -> Value:
        if piece.text in _WORKING_FOLDER:
            return self.state.values.get("PWD", "")
        if piece.kind == "executed" and piece.text.startswith("$((") and piece.text.endswith("))"):
            return self.number(piece.text[3:-2], piece.text)
        if piece.kind == "executed":
            needs = self.holes.add(f"{piece.text} needs a shell", piece.text)
            return "" if _is_comment(piece.text) else needs
        shown = f"${piece.text}" if _PLAIN.fullmatch(piece.text) else f"${{{piece.text}}}"
        match = _VARIABLE.fullmatch(piece.text)
        if match is None:
            return self.holes.add(f"{shown} needs a shell", shown)
        counts, name, subscript, sign, operand = (group or "" for group in match.groups())
        value = self._value(name, match[3], is_quoted=piece.is_quoted)
        if counts:
            return self._length(value, subscript, shown)
        if sign and sign[-1] in "-=?+":
            value = self._or_default(value, name, sign, operand, line)
        elif sign and value is not None:
            value = self._cut(value, sign, operand, line, shown)
        if value is not None:
            hidden = isinstance(value, str) and self._hides(name, value)
            return self._secret(name, shown) if hidden else value
        return self._missing(name, shown)

    def number(self, expression: str, shown: str) -> str:
        """The integer of ``$((...))``; what is not known names the variable."""
        problems: list[str] = []

        def find(name: str) -> str | None:
            value = self._value(name, None, is_quoted=True)
            text = value if isinstance(value, str) else self._missing(name, name)
            if (reason := self.holes.reason(text)) is not None:
                problems.append(reason if name in reason else f"{name} in {shown}: {reason}")
                return None
            return text

        computed = compute(expression, find)
        reason = next(iter(problems), f"{shown} needs a shell")
        return self.holes.add(reason, shown) if computed is None else computed

    def _missing(self, name: str, shown: str) -> str:
        if name.isdecimal():
            reason = f"it is argument {name} of the script; give it after the file"
            is_empty = self.is_test or self.state.is_called
            return "" if is_empty else self.holes.add(reason, shown)
        files = [f"; {file}, which line {line} reads, may set it" for file, line in self.sourced]
        return self.holes.add(f"{name} is not set in the script{''.join(files[-1:])}", shown)

    def _value(self, name: str, subscript: str | None, *, is_quoted: bool) -> Value | None:
        """The value of a variable or one of its elements; None if it has none."""
        if name in (*_ALL, "#") or name.isdecimal():
            value = self._argument(name)
        else:
            self.used.add(name)
            value = self.state.values.get(name)
        if isinstance(value, str) and subscript in _ALL:
            value = (Argument(0, value),)
        if isinstance(value, str):
            is_whole = subscript in (None, "0") or self.holes.reason(value) is not None
            return value if is_whole else None
        if value is None:
            return None
        if name in _ALL or subscript in _ALL:
            is_one_word = is_quoted and (name == "*" or subscript == "*")
            return self._joined(value) if is_one_word else value
        index = subscript or "0"
        if not _SUBSCRIPT.fullmatch(index):
            index = self.number(index, f"${{{name}[{index}]}}")
            if not index.isdecimal():
                return index
        return value[int(index)].text if int(index) < len(value) else None

    def _joined(self, items: Sequence[Argument]) -> str:
        between = self.state.values.get("IFS", " ")
        between = between[:1] if isinstance(between, str) else " "
        return between.join(item.text for item in items)

    def _argument(self, name: str) -> Value | None:
        """``$1``, ``$@`` or ``$#``."""
        if self.state.lost is not None:
            return self.holes.add(self.state.lost, f"${name}")
        if name == "#":
            return str(len(self.state.arguments))
        if not name.isdecimal():
            return self.state.arguments
        number = int(name)
        known = 0 < number <= len(self.state.arguments)
        return self.state.arguments[number - 1].text if known else None

    def _hides(self, name: str, value: str) -> bool:
        return bool(value) and names_secret(name, value) and self.holes.reason(value) is None

    def _secret(self, name: str, shown: str) -> str:
        return self.holes.add(f"{name} is a secret: set it in .env", shown)

    def _or_default(
        self, value: Value | None, name: str, sign: str, operand: str, line: int
    ) -> Value | None:
        is_set = value is not None and not (sign.startswith(":") and value in ("", ()))
        if sign[-1] == "+":
            return self._default(operand, line) if is_set else ""
        if is_set or sign[-1] == "?":
            return value if is_set else None
        chosen = self._default(operand, line)
        if self._hides(name, chosen):
            self.secrets.add(chosen)
            chosen = self._secret(name, f"${name}")
        if sign[-1] == "=":
            self.set(name, chosen)
        return chosen

    def _default(self, text: str, line: int) -> str:
        if self._depth == DEEPEST:
            raise ShellError(line, TOO_DEEP)
        self._depth += 1
        value = self.text(line, read_text(text))
        self._depth -= 1
        return value

    def _length(self, value: Value | None, subscript: str, shown: str) -> str:
        if value is None:
            return "0" if subscript else self.holes.add(f"{shown} needs a shell", shown)
        reasons = (self.holes.reason(item.text) for item in listed(value))
        if (reason := next(filter(None, reasons), None)) is not None:
            return self.holes.add(reason, shown)
        return str(len(value))

    def _cut(self, value: Value, sign: str, operand: str, line: int, shown: str) -> Value:
        """``${NAME#pattern}``, ``${NAME%%pattern}``, ``${NAME^^}``, ``${NAME,,}``."""
        pattern = self.pattern(line, read_text(operand))
        if not isinstance(value, str) or pattern is None:
            return self.holes.add(f"{shown} needs a shell", shown)
        if (reason := self.holes.reason(value)) is not None:
            return self.holes.add(reason, shown)
        if sign in ("^^", ",,"):
            return value.upper() if sign == "^^" else value.lower()
        sizes = range(len(value) + 1)
        for size in sizes if len(sign) == 1 else reversed(sizes):
            if sign[0] == "#" and pattern.fullmatch(value[:size]):
                return value[size:]
            if sign[0] == "%" and pattern.fullmatch(value[len(value) - size :]):
                return value[: len(value) - size]
        return value


def is_output_known(command: Simple) -> bool:
    """Whether the success of assignments is: no program gives one its value."""
    return not any(piece.kind == "executed" for word in command.words for piece in word.pieces)


def listed(value: Value) -> tuple[Argument, ...]:
    """The elements of a list; a text is its only one, and an empty text none."""
    if isinstance(value, tuple):
        return value
    return (Argument(0, value),) if value else ()


def _glob(text: str) -> str:
    """A pattern of a shell as a regular expression."""
    parts: list[str] = []
    at = 0
    while at < len(text):
        end = text.find("]", at + 2) if text[at] == "[" else -1
        if end > 0:
            inner = text[at + 1 : end].replace("\\", r"\\")
            parts.append(f"[{'^' if inner[0] in '!^' else ''}{inner.lstrip('!^')}]")
            at = end
        else:
            parts.append({"*": ".*", "?": "."}.get(text[at], re.escape(text[at])))
        at += 1
    return "".join(parts)


def _is_comment(executed: str) -> bool:
    """Whether what a shell would execute is a comment, as in ``a=1 `# one` \\``."""
    body = executed[1:-1] if executed.startswith("`") else executed[2:-1]
    return body.lstrip().startswith("#") and not any(
        isinstance(token, Word) for token in read_tokens(body)
    )


class _Fields:
    """The words that one word becomes."""

    def __init__(self, line: int, separators: Value | None) -> None:
        self._line = line
        self._word_line = line
        self._done: list[Argument] = []
        self._current: str | None = None
        self._separators = separators if isinstance(separators, str) else " \t\n"
        self._is_nothing = False
        """Whether a list without elements is in it: ``"$@"`` alone is no word then."""

    def add(self, text: str) -> None:
        self._current = (self._current or "") + text

    def add_split(self, text: str) -> None:
        """Add an expansion without quotes: the shell splits it at its blanks."""
        if not self._separators:
            return self.add(text) if text else None
        blank = re.compile(f"[{re.escape(self._separators)}]+")
        words = [word for word in blank.split(text) if word]
        if blank.match(text):
            self._end()
        for index, word in enumerate(words):
            if index:
                self._end()
            self.add(word)
        if words and blank.fullmatch(text[-1:]):
            self._end()
        return None

    def add_several(self, arguments: Sequence[Argument], *, is_split: bool) -> None:
        self._is_nothing = not arguments
        for index, argument in enumerate(arguments):
            if index:
                self._end()
            self._line = argument.line or self._word_line
            if is_split:
                self.add_split(argument.text)
            else:
                self.add(argument.text)

    def _end(self) -> None:
        if self._current is not None and not (self._is_nothing and not self._current):
            self._done.append(Argument(self._line, self._current))
        self._current = None

    def arguments(self) -> list[Argument]:
        self._end()
        return self._done


def without_head(word: Word, head: str) -> Word:
    """What is after ``NAME=``, which is in the first piece of the word."""
    first, *others = word.pieces
    rest = first.text.removeprefix(head)
    return replace(word, pieces=(Piece("text", rest, first.is_quoted), *others))
