"""Follow a shell script up to its commands: variables, branches, loops, functions, no programs.

A branch is taken where its condition is known. Where it is not, every branch is followed, and what
they do not leave alone stays unknown, as does what only a shell can know: the output of a program.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial

from engine.base.masking import is_placeholder, is_secret, is_secret_name
from engine.translate.shell_expansion import (
    Expander,
    decide_double,
    decide_test,
    is_output_known,
    listed,
    negated,
)
from engine.translate.shell_state import (
    Argument,
    Holes,
    State,
    Unknown,
    Value,
    join_lists,
    join_states,
)
from engine.translate.shell_syntax import (
    ASSIGNED,
    Apart,
    Case,
    Chain,
    Function,
    If,
    Loop,
    Negated,
    Node,
    Series,
    Simple,
    read_tree,
)
from engine.translate.shell_words import DEEPEST, TOO_DEEP, Piece, ShellError, Word


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


SOURCES = frozenset(("source", "."))
"""Commands that execute a file in the shell of the script."""
_SHELL = re.compile(r"(?:.*/)?(?:ba|z|da|k)?sh")
_SHELL_FILE = re.compile(r".*\.(?:sh|bash|zsh|slurm|sbatch|job|pbs)")
_SUBMITS = frozenset(("sbatch", "qsub"))
"""Programs that run a script."""
_OPTION = re.compile(r"[-+][A-Za-z]+|--\w[\w-]*")
_NEVER_INSIDE = re.compile(r"(?:.*/)?(?:python[\d.]*|torchrun|accelerate|deepspeed)")
_PATTERN = re.compile(r"[*?\[]|\{[^{}]*(?:,|\.\.)[^{}]*\}")
"""What a shell replaces by file names, or by several words."""
_LONG_SECRET = 8
"""Characters."""
_MOST_TURNS = 1000
_MANY_STEPS = 20_000
"""Commands; from then on, loops stay undecided."""
_MOST_STEPS = 50_000
"""Those of a script that puts dozens of loops into each other are without end."""


@dataclass(frozen=True)
class _Call:
    """A command, and the words of the script that it was expanded from."""

    line: int
    source: tuple[str, ...]
    arguments: tuple[Argument, ...]
    exports: tuple[tuple[int, str, str], ...] = ()


def follow(script: str, arguments: Sequence[str], environment: Mapping[str, str]) -> Script:
    """Follow a script that is called with ``arguments``; ``environment`` has what may be expanded.

    Raises ShellError for a script that no shell can read, and one that refuses its arguments.
    """
    given = tuple(Argument(0, text) for text in arguments)
    follower = _Follower(State(dict(environment), given))
    follower.follow(script)
    return follower.result()


def holds_secret(text: str, secrets: Iterable[str]) -> bool:
    """Whether a text is a secret, or contains one that is long enough not to be there by chance."""
    return any(
        secret and (text == secret or (len(secret) >= _LONG_SECRET and secret in text))
        for secret in secrets
    )


class _Follower:
    def __init__(self, state: State) -> None:
        self.holes = Holes()
        self.words = Expander(state, self.holes)
        self.inherited = frozenset(state.values)
        self.has_arguments = bool(state.arguments)
        self.calls: list[_Call] = []
        self._launchers: tuple[Argument, ...] = ()
        """The words before the shell that executes the text."""
        self._uncalled: dict[str, Function] = {}
        self._unread: dict[str, tuple[int, str]] = {}
        """Files of the script that it has not executed."""
        self._inner_values: dict[str, Value] = {}
        """Variables of scripts in processes of their own."""
        self._active: list[str] = []
        """The functions that are being followed."""
        self._locals: list[dict[str, Value | None]] = []
        self._left: list[State] = []
        """Where branches end that may have left the function or the turn of the loop."""
        self._open = 0
        """Branches around the place that may not be taken."""
        self._loops = 0
        self._steps = 0
        self._depth = 0

    @property
    def state(self) -> State:
        return self.words.state

    @state.setter
    def state(self, state: State) -> None:
        self.words.state = state

    def follow(self, script: str) -> None:
        self.run(read_tree(script))
        end = self.state.copy()
        self.state.stop = ""
        for function in list(self._uncalled.values()):
            before = self.state.copy()
            self.state.lost = f"it is an argument of the function in line {function.line}"
            self._either([partial(self.run, function.body)], _reason("function", function))
            self.state = before
        for path, (line, text) in list(self._unread.items()):
            if _SHELL_FILE.fullmatch(path) or re.match(r"#!.*sh\b", text):
                self._child((), text, line, ())
        self.state = end

    def result(self) -> Script:
        """Also without the values of secrets."""
        values, secrets = self._inner_values | self.state.values, self.words.secrets
        own = [(name, text) for call in self.calls for _, name, text in call.exports]
        secrets |= {text for name, text in own if is_secret(name, text)}
        exports: list[Export] = []
        for name, line in self.state.exported.items():
            value = self.holes.value(_joined(values.get(name, "")))
            if isinstance(value, str):
                is_named = is_secret_name(name) and is_placeholder(value)
                hidden = is_named or is_secret(name, value) or holds_secret(value, secrets)
            else:
                hidden = is_secret_name(name)
            secret = Export(line, name, Unknown(f"a secret: set {name} in .env"))
            known = Export(line, name, value, name in self.words.used)
            exports.append(secret if hidden else known)
        return Script(tuple(self._commands()), tuple(exports), frozenset(secrets))

    def _commands(self) -> Iterator[Command]:
        """The commands; one that runs several times has what is the same each time."""
        groups: dict[tuple[int, tuple[str, ...]], list[_Call]] = {}
        for call in self.calls:
            groups.setdefault((call.line, call.source), []).append(call)
        for (line, _), calls in groups.items():
            why = f"line {line} is executed several times, with another value each time"
            hole = self.holes.add(why, "…")
            lists = [call.arguments for call in calls]
            if len({len(each) for each in lists}) > 1:
                same = join_lists(lists, hole)
            else:
                same = tuple(_same(items, hole) for items in zip(*lists, strict=True))
            arguments = (
                Argument(item.line, self.holes.shown(item.text), self.holes.reason(item.text))
                for item in same
            )
            exports = (
                Export(at, name, self.holes.value(text)) for at, name, text in calls[0].exports
            )
            yield Command(line, tuple(arguments), tuple(exports))

    def run(self, node: Node) -> bool | None:
        """Follow commands; return whether the last one succeeds, None if only a shell knows."""
        if self.state.stop:
            return None
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise ShellError(1, f"it has more than {_MOST_STEPS:,} steps")
        match node:
            case Series(nodes):
                status: bool | None = True
                for each in nodes:
                    status = self.run(each) if not self.state.stop else None
                return status
            case Simple():
                return self._simple(node)
            case Negated(inner):
                return negated(self.run(inner))
            case Chain():
                return self._chain(node)
            case Apart(nodes):
                return self._apart(nodes)
            case If():
                return self._if(node)
            case Case():
                return self._case(node)
            case Loop():
                with self._going_on("break", reason := _reason(f"loop '{node.kind}'", node)):
                    self._loops += 1
                    self._loop(node, reason)
                    self._loops -= 1
                return None
            case Function():
                self.state.functions[node.name] = self._uncalled[node.name] = node
                return True

    def _chain(self, node: Chain) -> bool | None:
        status = self.run(node.parts[0][1])
        for sign, part in node.parts[1:]:
            decides = sign == "||"
            if status is None:
                branches = (partial(self.run, part), lambda: None)
                found = self._either(branches, f"a condition in line {node.line} decides it")
                status = decides if found[0] == decides else None
            elif status != decides:
                status = self.run(part)
        return status

    def _apart(self, nodes: Sequence[Node]) -> bool | None:
        """What such commands set is gone with their process."""
        status: bool | None = None
        for node in nodes:
            before, left = self.state.copy(), self._left
            self._left = []
            status = self.run(node)
            before.files = self.state.files
            self.state, self._left = before, left
        return status if len(nodes) == 1 else None

    def _if(self, node: If) -> bool | None:
        status = self.run(node.condition)
        branches = (node.body, node.otherwise)
        if status is not None:
            return self.run(branches[not status])
        self._either([partial(self.run, branch) for branch in branches], _reason("'if'", node))
        return None

    def _case(self, node: Case) -> bool | None:
        with self.words.testing():
            text = self.words.text(node.line, node.word.pieces)
        chosen: list[Node] = []
        for patterns, body in node.items:
            is_chosen = self._matches(patterns, text)
            if is_chosen is not False:
                chosen.append(body)
            if is_chosen:
                break
        else:
            chosen.append(Series(()))
        if len(chosen) == 1:
            return self.run(chosen[0])
        self._either([partial(self.run, body) for body in chosen], _reason("case", node))
        return None

    def _matches(self, patterns: Sequence[Word], text: str) -> bool | None:
        is_open = False
        for word in patterns:
            pattern = self.words.pattern(word.line, word.pieces)
            is_known = pattern is not None and self.holes.reason(text) is None
            is_readable = is_known or (pattern is not None and pattern.pattern == ".*")
            if pattern is not None and is_readable and pattern.fullmatch(text):
                return True
            is_open = is_open or not is_known
        return None if is_open else False

    def _either(
        self, branches: Iterable[Callable[[], bool | None]], reason: str
    ) -> list[bool | None]:
        """Follow every branch from the same place; one that ends the script does not go on."""
        before, ends, found = self.state, list[State](), list[bool | None]()
        self._open += 1
        for branch in branches:
            self.state = before.copy()
            found.append(branch())
            ends.append(self.state)
        self._open -= 1
        stops = {end.stop for end in ends}
        if len(stops) > 1:
            self._left += [end for end in ends if end.stop not in ("", "exit")]
            ends = [end for end in ends if not end.stop] or [replace(ends[0], stop="exit")]
        self.state = join_states(ends, reason, self.holes)
        return found

    @contextmanager
    def _going_on(self, stop: str, reason: str) -> Iterator[None]:
        """The script goes on after what ``stop`` has ended, on some branches or on all."""
        outer, self._left = self._left, []
        yield
        ends = [each for each in self._left if each.stop == stop]
        outer += [each for each in self._left if each.stop != stop]
        self._left = outer
        if self.state.stop in ("", stop):
            ends.append(self.state)
        if ends:
            going = [replace(each, stop="") for each in ends]
            self.state = join_states(going, reason, self.holes)

    def _loop(self, node: Loop, reason: str) -> None:
        """Follow a loop turn by turn, as long as a shell does for certain."""
        turns = self._conditions(node) if not node.name else self._items(node)
        for number, is_known in enumerate(turns):
            if not is_known or number == _MOST_TURNS or self._steps > _MANY_STEPS:
                self._either((partial(self._turns, node, reason), lambda: None), reason)
                return
            self._turn(node, reason)
            if self.state.stop:
                return

    def _turn(self, node: Loop, reason: str) -> None:
        with self._going_on("continue", reason):
            self.run(node.body)

    def _conditions(self, node: Loop) -> Iterator[bool]:
        """Whether each turn is known to be followed."""
        while (status := self.run(node.condition) if node.condition else None) is not None:
            if status == (node.kind == "until"):
                return
            yield True
        yield False

    def _items(self, node: Loop) -> Iterator[bool]:
        if node.words is None:
            items, is_open = list(self.state.arguments), self.state.lost is not None
        else:
            items = [item for word in node.words for item in self.words.expand(word)]
            pieces = [piece for word in node.words for piece in word.pieces]
            plain = "".join(each.text for each in pieces if not each.is_quoted)
            is_open = _PATTERN.search(plain) is not None
        is_open = is_open or any(self.holes.reason(item.text) for item in items)
        if is_open or node.kind == "select":
            yield False
        for item in items:
            self.words.set(node.name, item.text)
            yield True

    def _turns(self, node: Loop, reason: str) -> None:
        """Follow any turn: what one changes is not known before it, however often it takes."""
        while not self.state.stop:
            if node.name:
                self.state.values[node.name] = self.holes.add(reason, f"${node.name}")
            before, count, left = self.state.copy(), len(self.calls), len(self._left)
            self._turn(node, reason)
            if node.condition:
                self.run(node.condition)
            changed = {
                name
                for name in before.values.keys() | self.state.values.keys()
                if _is_changed(before.values.get(name), self.state.values.get(name))
                and before.values.get(name) != self.holes.add(reason, f"${name}")
            }
            arguments = (before.arguments, before.lost), (self.state.arguments, self.state.lost)
            is_moved = arguments[0] != arguments[1] and before.lost != reason
            if self.state.stop or not (changed or is_moved):
                return
            del self.calls[count:], self._left[left:]
            before.values |= {name: self.holes.add(reason, f"${name}") for name in changed}
            before.lost = reason if is_moved else before.lost
            self.state = before

    def _call(self, function: Function, arguments: Sequence[Argument]) -> bool | None:
        if function.name in self._active:
            return None
        self._uncalled.pop(function.name, None)
        before, loops = self.state.copy(), self._loops
        self._loops = 0
        self._active.append(function.name)
        self._locals.append({})
        self.state.arguments, self.state.lost = tuple(arguments), None
        self.state.is_called = True
        with self._going_on("return", _reason("function", function)):
            status = self.run(function.body)
            status = status if not self._left else None
        self._loops = loops
        self._active.pop()
        for name, value in self._locals.pop().items():
            self.state.values.pop(name, None)
            if value is not None:
                self.state.values[name] = value
        after = self.state
        after.arguments, after.lost = before.arguments, before.lost
        after.is_called = before.is_called
        return status

    def _simple(self, node: Simple) -> bool | None:
        """Follow assignments and commands of the shell, and keep what is a program."""
        words, count = node.words, 0
        while count < len(words) and ASSIGNED.match(words[count].text):
            count += 1
        if count == len(words):
            self._assign(node)
            return True if is_output_known(node) else None
        first, words = words[count], words[count:]
        if first.text.startswith("(("):
            return self._double_brackets(first)
        if first.text in ("[", "test", "[["):
            decide = decide_double if first.text == "[[" else decide_test
            return decide(self.words, words[1:])
        if first.text in ("export", "declare", "local", "readonly", "typeset"):
            self._declare(first.text, node)
            return True if is_output_known(node) else None
        if first.text in _SETTERS or (
            first.text == "printf" and words[1:2] and words[1].text == "-v"
        ):
            self._forget(words[1:], f"{first.text} in line {first.line} may set it")
            return None
        if first.text == "unset":
            for word in words[1:]:
                self.state.values.pop(word.text, None)
            return True
        arguments = [item for word in words for item in self.words.expand(word)]
        if not arguments:
            return True
        if (builtin := _BUILTINS.get(first.text)) is not None:
            return builtin(self, words, arguments)
        return self._program(node, arguments, count)

    def _program(self, node: Simple, arguments: list[Argument], count: int) -> bool | None:
        name, line = arguments[0].text, node.words[count].line
        if (function := self.state.functions.get(name)) is not None:
            return self._call(function, arguments[1:])
        if name in SOURCES and len(arguments) > 1:
            path = posixpath.normpath(arguments[1].text)
            if path in self.state.files:
                first, text = self._read(path)
                return self._nested(read_tree(text, first), line)
            self.words.sourced.append((arguments[1].text, line))
        if name == "cd":
            self._change_folder(arguments[1:], line)
        if name in ("cat", "tee") and self._write(node, arguments):
            return True
        own = [(word, match) for word in node.words[:count] if (match := ASSIGNED.match(word.text))]
        exports = tuple(
            (word.line, match[1], _joined(self._value(word, match[0], None))) for word, match in own
        )
        # The script that a shell gets knows the variables that are exported.
        if (inner := self._find_inner(node, [item.text for item in arguments])) is not None:
            before_shell, (first, text), following = inner
            launchers = tuple(arguments[:before_shell])
            named = {name: value for _, name, value in exports} | {
                match[1]: item.text.removeprefix(match[0])
                for item in launchers
                if (match := ASSIGNED.match(item.text))
            }
            is_known = self.holes.reason(text.strip()[:1]) is None
            rest = arguments[following:]
            if is_known and self._child(launchers, text, first or arguments[0].line, rest, named):
                return None
        source = tuple(word.text for word in node.words)
        self.calls.append(_Call(line, source, (*self._launchers, *arguments), exports))
        return None

    def _find_inner(
        self, node: Simple, texts: Sequence[str]
    ) -> tuple[int, tuple[int, str], int] | None:
        """The script that a shell gets: ``bash -c TEXT``, ``bash FILE``, ``sbatch <<E``.

        How many words are before the shell, its script with the line, and where the arguments of
        the script begin.
        """
        document = self._input(node)
        for index, text in enumerate(texts):
            if _NEVER_INSIDE.fullmatch(text):
                return None
            if text == "--wrap" or text.startswith("--wrap="):
                wrapped = text.partition("=")[2] or "".join(texts[index + 1 : index + 2])
                return index, (0, wrapped), len(texts)
            at, has_text, reads_input = index, False, False
            is_shell = bool(_SHELL.fullmatch(text))
            at += is_shell
            while is_shell and at < len(texts) and _OPTION.fullmatch(texts[at]):
                is_short = not texts[at].startswith("--")
                has_text = has_text or (is_short and "c" in texts[at])
                reads_input = reads_input or (is_short and "s" in texts[at])
                at += 2 if is_short and texts[at][-1] in "oO" else 1
            if has_text and at < len(texts):
                return index, (0, texts[at]), at + 2
            path = posixpath.normpath(texts[at]) if at < len(texts) else ""
            if path in self.state.files:
                return index, self._read(path), at + 1
            if is_shell:
                takes_input = reads_input or not path
                return (index, document, at) if document is not None and takes_input else None
        if document is not None and _SUBMITS & set(texts):
            return len(texts), document, len(texts)
        return None

    def _read(self, path: str) -> tuple[int, str]:
        self._unread.pop(path, None)
        return self.state.files[path]

    def _child(
        self,
        launchers: tuple[Argument, ...],
        text: str,
        line: int,
        arguments: Sequence[Argument],
        own: Mapping[str, str] = {},
    ) -> bool:
        """Follow a script in a process of its own; return whether it can be read."""
        try:
            tree = read_tree(text, line)
        except ShellError:
            return False
        before, launched, left = self.state.copy(), self._launchers, self._left
        names = self.inherited | self.state.exported.keys()
        values = {name: value for name, value in self.state.values.items() if name in names}
        self.state.values = {**values, **own}
        self.state.arguments, self.state.lost = tuple(arguments), None
        self._launchers, self._left = (*launched, *launchers), []
        self._nested(tree, line)
        self._launchers, self._left = launched, left
        before.exported = self.state.exported | before.exported
        before.files = self.state.files
        self._inner_values |= self.state.values
        self.state = before
        return True

    def _nested(self, tree: Node, line: int) -> bool | None:
        if self._depth == DEEPEST:
            raise ShellError(line, TOO_DEEP)
        self._depth += 1
        status = self.run(tree)
        self._depth -= 1
        return status

    def _input(self, node: Simple) -> tuple[int, str] | None:
        """The text that a command reads: a here-document, or a word after ``<<<``."""
        for mark, target in node.redirections:
            if mark.startswith("<<"):
                return target.line, self.words.text(target.line, target.pieces)
        return None

    def _write(self, node: Simple, arguments: Sequence[Argument]) -> bool:
        """Keep the here-document that ``cat`` or ``tee`` writes to a file; return if one does."""
        targets = [
            (mark, self.words.text(target.line, target.pieces))
            for mark, target in node.redirections
            if mark in (">", ">>", ">|", "&>")
        ]
        if arguments[0].text == "tee":
            words = [item.text for item in arguments[1:]]
            targets = [(">>" if "-a" in words else ">", word) for word in words if word != "-a"]
        written = self._input(node)
        if written is None or not targets:
            return False
        mark, path = targets[-1][0], posixpath.normpath(targets[-1][1])
        line, text = self.state.files.get(path, (written[0], ""))
        both = (line, text + written[1]) if mark == ">>" else written
        self.state.files[path] = self._unread[path] = both
        return True

    def _stop(self, words: Sequence[Word], arguments: Sequence[Argument]) -> bool | None:
        """``exit`` with a failure is a message about the arguments, which import may not have."""
        name, given = arguments[0].text, arguments[1].text if arguments[1:] else ""
        is_failure = name == "exit" and given != "0" and given.isdecimal()
        if is_failure and not self._open and self.has_arguments:
            line = words[0].line
            raise ShellError(line, f"with these arguments, the script ends here: exit {given}")
        is_inside = bool(self._active if name == "return" else self._loops) or name == "exit"
        if is_inside and (not is_failure or self._open):
            self.state.stop = name
        return None

    def _forget(self, words: Sequence[Word], reason: str) -> None:
        """The variables that these words name may have been set."""
        for name in re.findall(r"[A-Za-z_]\w*", " ".join(word.text for word in words), re.ASCII):
            self.state.values[name] = self.holes.add(reason, f"${name}")

    def _double_brackets(self, word: Word) -> bool | None:
        if re.search(r"\+\+|--|(?<![=<>!])=(?!=)|<<=|>>=", word.text):
            self._forget([word], f"(( )) in line {word.line} may set it")
            return None
        self.words.is_test = True
        number = self.words.number(word.text[2:-2], word.text)
        self.words.is_test = False
        return None if self.holes.reason(number) else number != "0"

    def _change_folder(self, folders: Sequence[Argument], line: int) -> None:
        before = self.state.values.get("PWD", "")
        known = [each.text for each in folders if each.text != "-"]
        text = "".join([*known, before if isinstance(before, str) else ""])
        if len(known) == len(folders) == 1 and self.holes.reason(text) is None:
            folder = posixpath.normpath(posixpath.join(str(before), known[0]))
        else:
            folder = self.holes.add(f"cd in line {line} decides it", "$PWD")
        self.state.values["PWD"] = folder

    def _shift(self, words: Sequence[Word], arguments: Sequence[Argument]) -> bool | None:
        number = arguments[1].text if arguments[1:] else "1"
        if not number.isdecimal():
            self.state.lost = f"shift in line {words[0].line} decides them"
        elif int(number) > len(self.state.arguments):
            return False
        else:
            self.state.arguments = self.state.arguments[int(number) :]
        return True

    def _set_options(self, words: Sequence[Word], arguments: Sequence[Argument]) -> bool:
        """``set`` gets arguments of the script after ``--``, or at once."""
        texts = [item.text for item in arguments]
        start = texts.index("--") + 1 if "--" in texts else 1
        if start > 1 or (words[1:] and not words[1].text.startswith(("-", "+"))):
            self.state.arguments, self.state.lost = tuple(arguments[start:]), None
        return True

    def _getopts(self, words: Sequence[Word], arguments: Sequence[Argument]) -> bool | None:
        """``getopts SPEC NAME``: one option each time, in words of its own."""
        index, texts = (
            self.state.values.get("OPTIND", "1"),
            [each.text for each in self.state.arguments],
        )
        is_known = isinstance(index, str) and index.isdecimal() and self.state.lost is None
        at = int(str(index)) if is_known else len(texts) + 1
        option = texts[at - 1] if at <= len(texts) else ""
        is_plain = re.fullmatch(r"-\w|[^-].*|", option, re.DOTALL) is not None
        if len(words) != 3 or not is_known or not is_plain or self.holes.reason("".join(texts)):
            self._forget(words[2:], f"getopts in line {words[0].line} may set it")
            return None
        spec, name = arguments[1].text, arguments[2].text
        if not option.startswith("-"):
            self.words.set(name, "?")
            return False
        if f"{option[1]}:" in spec:
            self.words.set("OPTARG", texts[at] if at < len(texts) else "")
            at += 1
        self.words.set(name, option[1] if option[1] in spec.replace(":", "") else "?")
        self.words.set("OPTIND", str(at + 1))
        return True

    def _eval(self, words: Sequence[Word], arguments: Sequence[Argument]) -> bool | None:
        text = " ".join(item.text for item in arguments[1:])
        with suppress(ShellError):
            if self.holes.reason(text.strip()[:1]) is None:
                return self._nested(read_tree(text, words[0].line), words[0].line)
        self._forget(words[1:], f"eval in line {words[0].line} may set it")
        return None

    def _declare(self, name: str, node: Simple) -> None:
        is_own = name in ("local", "declare", "typeset") and self._locals
        for word in node.words:
            head = ASSIGNED.match(word.text)
            declared = head[1] if head else word.text
            if is_own and declared.isidentifier() and declared != name:
                self._locals[-1].setdefault(declared, self.state.values.get(declared))
            if name == "export" and declared.isidentifier() and declared != name:
                self.state.exported[declared] = word.line
        self._assign(node)

    def _assign(self, node: Simple) -> None:
        for word in node.words:
            match = ASSIGNED.match(word.text)
            if match is None:
                continue
            if match[2] is not None:
                self._set_element(word, match)
                continue
            value = self._value(word, match[0], node.arrays.get(word))
            if match[3]:
                value = _added(self.state.values.get(match[1], ""), value)
            self.words.set(match[1], value)

    def _set_element(self, word: Word, match: re.Match[str]) -> None:
        """``NAME[1]=value``, where the script has the number and all elements before it."""
        name, subscript, is_added = match[1], match[2], bool(match[3])
        before, reason = self.state.values.get(name, ()), None
        is_number = subscript.isdecimal() and word.pieces[0].text.startswith(match[0])
        elements = listed(before)
        if is_added or not is_number or self.holes.reason(str(before)):
            reason = f"line {word.line} sets an element of it"
        elif int(subscript) > len(elements):
            reason = f"line {word.line} sets an element of it that is not the next"
        if reason is not None:
            self.state.values[name] = self.holes.add(reason, f"${name}")
            return
        at, value = int(subscript), listed(self._value(word, match[0], None))
        element = Argument(word.line, " ".join(item.text for item in value))
        self.state.values[name] = (*elements[:at], element, *elements[at + 1 :])

    def _value(self, word: Word, head: str, array: Sequence[Word] | None) -> Value:
        if array is not None and any(re.match(r"\[.*?\]\+?=", part.text) for part in array):
            reason = f"its elements in line {word.line} have subscripts"
            return self.holes.add(reason, f"${head.rstrip('+=')}")
        if array is not None:
            return tuple(item for part in array for item in self.words.expand(part))
        # ``NAME=`` is in the first piece of the word.
        first, *others = word.pieces
        pieces = (Piece("text", first.text.removeprefix(head), first.is_quoted), *others)
        value, home = self.words.text(word.line, pieces), self.state.values.get("HOME")
        begins = pieces[0].text.partition("/")[0] == "~" and not pieces[0].is_quoted
        return home + value[1:] if begins and isinstance(home, str) else value


_Builtin = Callable[[_Follower, Sequence[Word], Sequence[Argument]], bool | None]
_BUILTINS: Mapping[str, _Builtin] = {
    **dict.fromkeys(("exit", "return", "break", "continue"), _Follower._stop),
    **dict.fromkeys(("echo", ":", "true", "trap"), lambda *_: True),
    **dict.fromkeys(("wait", "shopt", "chmod", "mkdir", "printf"), lambda *_: None),
    "false": lambda *_: False,
    "shift": _Follower._shift,
    "set": _Follower._set_options,
    "getopts": _Follower._getopts,
    "eval": _Follower._eval,
}
"""Commands of the shell itself, and programs that a config does not need."""
_SETTERS = frozenset(("let", "read", "mapfile", "readarray"))
"""Commands that set the variables that their words name."""


def _reason(name: str, node: If | Loop | Case | Function) -> str:
    """Why a value that it sets is not known."""
    return f"the {name} in line {node.line} decides it"


def _is_changed(before: Value | None, after: Value | None) -> bool:
    """Whether a turn has changed a value by more than further words at its end."""
    if isinstance(before, str) and before and isinstance(after, str):
        return before != after and not after.startswith(f"{before} ")
    if isinstance(after, tuple) and not isinstance(before, str):
        return after[: len(before or ())] != (before or ())
    return before != after


def _joined(value: Value) -> str:
    return " ".join(item.text for item in listed(value))


def _same(items: Sequence[Argument], hole: str) -> Argument:
    """What is the same from one time to the next: the word, or its key."""
    texts = {item.text for item in items}
    keys = {text.partition("=")[0] for text in texts}
    if len(texts) == 1:
        return items[0]
    return replace(items[0], text=f"{keys.pop()}={hole}" if len(keys) == 1 else hole)


def _added(before: Value, value: Value) -> Value:
    """``NAME+=value``."""
    if isinstance(before, str) and isinstance(value, str):
        return before + value
    if isinstance(before, tuple) and isinstance(value, str):  # It is added to the first element.
        first = before[0] if before else Argument(0, "")
        return (replace(first, text=first.text + value), *before[1:])
    return listed(before) + listed(value)
