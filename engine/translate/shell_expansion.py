"""Fill in what a shell expands in a word: variables, defaults, arrays, integers; and decide
``[ ... ]`` and ``[[ ... ]]``, where what only a shell knows, such as files, stays open."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from engine.base.masking import is_secret
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
_BLANKS = " \t\n"
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_ARGUMENT = re.compile(r"\$(?:([0-9])|\{([0-9]+)\})")
_NUMBERS: Mapping[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-gt": operator.gt,
    "-ge": operator.ge,
    "-lt": operator.lt,
    "-le": operator.le,
}
_EQUAL = ("=", "==", "!=")
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
        if isinstance(value, str) and is_secret(name, value) and not self.holes.reason(value):
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
        """The words that one word becomes: a list is several, and so is what a shell splits."""
        separators = self.state.values.get("IFS", _BLANKS)
        separators = separators if isinstance(separators, str) else _BLANKS
        blank = re.compile(f"[{re.escape(separators)}]+") if separators else None
        words, lines, has_empty_list = [list[str]()], [line], False
        for piece in pieces:
            value = self._of_piece(piece, line)
            items = value if isinstance(value, tuple) else (Argument(line, value),)
            has_empty_list = has_empty_list or not items
            is_split = splits and piece.kind != "text" and not piece.is_quoted
            for index, item in enumerate(items):
                parts = blank.split(item.text) if is_split and blank else [item.text]
                for number, part in enumerate(parts):
                    if index or number:
                        words.append([])
                        lines.append(line)
                    if part or not is_split:
                        words[-1].append(part)
                        lines[-1] = item.line or line
        # ``"$@"`` without arguments is no word, unlike other words without text.
        kept = ((at, parts, "".join(parts)) for at, parts in zip(lines, words, strict=True))
        return [
            Argument(at, text) for at, parts, text in kept if parts and (text or not has_empty_list)
        ]

    def _of_piece(self, piece: Piece, line: int) -> Value:
        if piece.kind == "text":
            return piece.text
        value = self._expansion(piece, line)
        self._expanded += sum(len(item.text) for item in listed(value))
        if self._expanded > _MOST_TEXT:  # A script that doubles a value again and again.
            raise ShellError(line, f"its variables expand to more than {_MOST_TEXT:,} characters")
        return value

    def _expansion(self, piece: Piece, line: int) -> Value:
        if piece.text in _WORKING_FOLDER:
            return self.state.values.get("PWD", "")
        if piece.kind == "executed" and piece.text.startswith("$((") and piece.text.endswith("))"):
            return self.number(piece.text[3:-2], piece.text)
        if piece.kind == "executed":
            body = piece.text[1 if piece.text.startswith("`") else 2 : -1]
            # A comment, as in ``a=1 `# one` \``.
            if body.lstrip()[:1] == "#" and not any(
                isinstance(token, Word) for token in read_tokens(body)
            ):
                return ""
            return self.holes.add(f"{piece.text} needs a shell", piece.text)
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
            if not (is_quoted and (name == "*" or subscript == "*")):
                return value
            between = self.state.values.get("IFS", " ")
            between = between[:1] if isinstance(between, str) else " "
            return between.join(item.text for item in value)
        index = subscript or "0"
        if not _SUBSCRIPT.fullmatch(index):
            index = self.number(index, f"${{{name}[{index}]}}")
            if not index.isdecimal():
                return index
        return value[int(index)].text if int(index) < len(value) else None

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
        return bool(value) and is_secret(name, value) and self.holes.reason(value) is None

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


def decide_test(expander: Expander, words: Sequence[Word]) -> bool | None:
    """``test``, ``[``: the words after its name."""
    with expander.testing():
        items = [item.text for word in words for item in expander.expand(word)]
    if items and items[-1] == "]":
        items.pop()
    return _of_items(expander, items)


def decide_double(expander: Expander, words: Sequence[Word]) -> bool | None:
    """The words of one comparison in ``[[ ... ]]``."""
    with expander.testing():
        items = [expander.text(word.line, word.pieces) for word in words]
    if len(words) == 3 and words[1].text in _EQUAL:
        pattern = expander.pattern(words[2].line, words[2].pieces)
        if pattern is None or expander.holes.reason(items[0]) is not None:
            return None
        return (pattern.fullmatch(items[0]) is not None) == (items[1] != "!=")
    return _of_items(expander, items)


def _of_items(expander: Expander, items: Sequence[str]) -> bool | None:
    """A text, ``-z text``, a comparison, or several of them."""
    for joint, decides in (("-o", True), ("-a", False)):
        if joint in items[1:-1] and len(items) > 3:
            at = items.index(joint, 1)
            sides = [_of_items(expander, side) for side in (items[:at], items[at + 1 :])]
            if decides in sides:
                return decides
            return None if None in sides else not decides
    if items[:1] == ["!"] and len(items) > 1:
        return negated(_of_items(expander, items[1:]))
    if expander.holes.reason("".join(items)) is not None:
        return None
    match items:
        case []:
            return False
        case [text]:
            return bool(text)
        case ["-z" | "-n" as sign, text]:
            return bool(text) == (sign == "-n")
        case [left, sign, right] if sign in _EQUAL:
            return (left == right) == (sign != "!=")
        case [left, sign, right] if sign in _NUMBERS:
            if _INTEGER.fullmatch(left) and _INTEGER.fullmatch(right):
                return _NUMBERS[sign](int(left), int(right))
    return None


def negated(decided: bool | None) -> bool | None:
    return None if decided is None else not decided


def compute(expression: str, find_value: Callable[[str], object]) -> str | None:
    """Return the value of what is between the brackets; None if a shell has to compute it.

    ``find_value`` returns the value of a variable.
    """
    try:
        # ``$1`` is no name of Python.
        filled = _ARGUMENT.sub(
            lambda match: f"({_known(match[1] or match[2], find_value)})", expression
        )
        tree = ast.parse(filled.replace("$", " ").strip(), mode="eval")
        return str(_integer(tree.body, find_value))
    except (SyntaxError, ValueError, ArithmeticError, LookupError, RecursionError):
        return None


def _known(name: str, find_value: Callable[[str], object]) -> int:
    value = find_value(name)
    if not isinstance(value, str) or not _INTEGER.fullmatch(value):
        raise ValueError("010 is octal, and text is another expression")
    return int(value)


def _integer(node: ast.expr, find_value: Callable[[str], object]) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return _known(node.id, find_value)
    match node:
        case ast.UnaryOp(ast.USub(), operand):
            return -_integer(operand, find_value)
        case ast.Compare(left, [sign], [right]) | ast.BinOp(left, sign, right):
            sides = (_integer(side, find_value) for side in (left, right))
            return int(_OPERATIONS[type(sign)](*sides))
    raise ValueError("not an integer")


def _quotient(left: int, right: int) -> int:
    """Division of a shell, which rounds towards 0."""
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


_OPERATIONS: Mapping[type[ast.AST], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _quotient,
    ast.Mod: lambda left, right: left - right * _quotient(left, right),
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
