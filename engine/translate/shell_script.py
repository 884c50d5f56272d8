"""Follow a shell script up to its commands: variables, branches, loops, functions, no programs.

A branch is taken where its condition is known. Where it is not, every branch is followed, and what
they do not leave alone stays unknown, as does what only a shell can know: the output of a program.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from engine.base.masking import is_placeholder, is_secret_name, names_secret
from engine.translate.shell_conditions import decide_double, decide_test, negated
from engine.translate.shell_expansion import Expander, is_output_known, listed, without_head
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
    ELEMENT,
    SETTERS,
    Apart,
    Case,
    Chain,
    For,
    Function,
    If,
    Loop,
    Negated,
    Node,
    Series,
    Simple,
    Test,
    find_names,
    find_programs,
    read_tree,
)
from engine.translate.shell_words import DEEPEST, TOO_DEEP, Document, ShellError, Word


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
_DECLARES = frozenset(("export", "declare", "local", "readonly", "typeset"))
_QUIET = frozenset(("wait", "shopt", "trap", "true", "chmod", "mkdir"))
_STOPS = frozenset(("exit", "return", "break", "continue"))
_MOVES_ARGUMENTS = frozenset(("shift", "set", "getopts"))
_PATTERN = re.compile(r"[*?\[]|\{[^{}]*(?:,|\.\.)[^{}]*\}")
"""What a shell replaces by file names, or by several words."""
_LONG_SECRET = 8
"""Characters."""
_MOST_TURNS = 1000
_MOST_STEPS = 20_000
"""Commands; from then on, loops stay undecided."""


class _UndecidedError(Exception):
    """Whether a loop or a function goes on is not known."""


@dataclass
class _Call:
    """A command, and the words of the script that it was expanded from."""

    line: int
    source: tuple[str, ...]
    arguments: tuple[Argument, ...]
    exports: tuple[tuple[int, str, str], ...] = field(default=())


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


def _without_secret(export: Export, secrets: Set[str]) -> Export:
    name, value = export.name, export.value
    if isinstance(value, str):
        is_named = is_secret_name(name) and is_placeholder(value)
        is_secret = is_named or names_secret(name, value) or holds_secret(value, secrets)
    else:
        is_secret = is_secret_name(name)
    if is_secret:
        return replace(export, value=Unknown(f"a secret: set {name} in .env"), is_used=False)
    return export


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
        self._decides = False
        """Whether a loop or function around the place can still become undecided."""
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
            self._either([partial(self.run, function.body)], _reason(function))
            self.state = before
        for path, (line, text) in list(self._unread.items()):
            if _SHELL_FILE.fullmatch(path) or re.match(r"#!.*sh\b", text):
                self._child((), text, line, ())
        self.state = end

    def result(self) -> Script:
        """Also without the values of secrets."""
        values, secrets = self._inner_values | self.state.values, self.words.secrets
        own = [(name, text) for call in self.calls for _, name, text in call.exports]
        secrets |= {text for name, text in own if names_secret(name, text)}
        exports = (
            Export(line, name, self._exported(values.get(name, "")), name in self.words.used)
            for name, line in self.state.exported.items()
        )
        known = tuple(_without_secret(export, secrets) for export in exports)
        return Script(tuple(self._commands()), known, frozenset(secrets))

    def _exported(self, value: Value) -> str | Unknown:
        return self.holes.value(" ".join(item.text for item in listed(value)))

    def _commands(self) -> Iterator[Command]:
        """The commands; one that runs several times has what is the same each time."""
        groups: dict[tuple[int, tuple[str, ...]], list[_Call]] = {}
        for call in self.calls:
            groups.setdefault((call.line, call.source), []).append(call)
        for (line, _), group in groups.items():
            arguments = tuple(map(self._shown, self._same(group, line)))
            exports = (
                Export(at, name, self.holes.value(text)) for at, name, text in group[0].exports
            )
            yield Command(line, arguments, tuple(exports))

    def _same(self, calls: Sequence[_Call], line: int) -> tuple[Argument, ...]:
        hole = self.holes.add(
            f"line {line} is executed several times, with another value each time", "…"
        )
        lists = [call.arguments for call in calls]
        if len({len(each) for each in lists}) > 1:
            return join_lists(lists, lambda text: text + hole)
        return tuple(
            items[0] if len({item.text for item in items}) == 1 else _differing(items, hole)
            for items in zip(*lists, strict=True)
        )

    def _shown(self, argument: Argument) -> Argument:
        text = argument.text
        return Argument(argument.line, self.holes.shown(text), self.holes.reason(text))

    def run(self, node: Node) -> bool | None:
        """Follow commands; return whether the last one succeeds, None if only a shell knows."""
        if self.state.stop:
            return None
        self._steps += 1
        match node:
            case Series(nodes):
                status: bool | None = True
                for each in nodes:
                    status = self.run(each) if not self.state.stop else None
                return status
            case Simple():
                return self._simple(node)
            case Test(_, tokens):
                return decide_double(self.words, tokens)
            case Negated(inner):
                return negated(self.run(inner))
            case Chain():
                return self._chain(node)
            case Apart(nodes):
                return self._apart(nodes)
            case If():
                return self._if(node, 0)
            case Case():
                return self._case(node)
            case Loop():
                return self._repeat(node, self._loop)
            case For():
                return self._repeat(node, self._for)
            case Function():
                self.state.functions[node.name] = self._uncalled[node.name] = node
                return True

    def _chain(self, node: Chain) -> bool | None:
        status = self.run(node.parts[0][1])
        for sign, part in node.parts[1:]:
            if status is None:
                branches = (partial(self.run, part), _nothing)
                self._either(branches, f"a condition in line {node.line} decides it")
            elif status == (sign == "&&"):
                status = self.run(part)
        return status

    def _apart(self, nodes: Sequence[Node]) -> bool | None:
        """What such commands set is gone with their process."""
        status: bool | None = None
        for node in nodes:
            before = self.state.copy()
            status = self.run(node)
            before.files = self.state.files
            self.state = before
        return status if len(nodes) == 1 else None

    def _if(self, node: If, index: int) -> bool | None:
        if index == len(node.branches):
            return self.run(node.otherwise)
        condition, body = node.branches[index]
        status = self.run(condition)
        if status is None:
            branches = (partial(self.run, body), partial(self._if, node, index + 1))
            self._either(branches, _reason(node))
            return None
        return self.run(body) if status else self._if(node, index + 1)

    def _case(self, node: Case) -> bool | None:
        if node.falls_through:
            self._undecided(node)
            return None
        self.words.is_test = True
        text = self.words.text(node.line, node.word.pieces)
        self.words.is_test = False
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
        self._either([partial(self.run, body) for body in chosen], _reason(node))
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

    def _either(self, branches: Iterable[Callable[[], object]], reason: str) -> None:
        """Follow every branch from the same place; one that ends the script does not go on."""
        before, ends = self.state, list[State]()
        self._open += 1
        for branch in branches:
            self.state = before.copy()
            branch()
            ends.append(self.state)
        self._open -= 1
        going = [end for end in ends if end.stop != "exit"] or ends
        if any(end.stop != going[0].stop for end in going):
            if self._decides:
                raise _UndecidedError
            for end in going:
                end.stop = ""
        self.state = join_states(going, reason, self.holes)

    def _repeat(self, node: Loop | For, turns: Callable[..., Iterator[None]]) -> bool | None:
        """Follow a loop turn by turn; once, with open values, if their number is not known."""
        before, count = self.state.copy(), len(self.calls)
        decides, opened = self._decides, self._open
        self._decides = True
        self._loops += 1
        try:
            for number, _ in enumerate(turns(node)):
                if number == _MOST_TURNS or self._steps > _MOST_STEPS:
                    raise _UndecidedError
                self.run(node.body)
                stop = self.state.stop
                if stop in ("break", "continue"):
                    self.state.stop = ""
                if stop not in ("", "continue"):
                    break
        except _UndecidedError:
            self.state, self._decides, self._open = before, decides, opened
            del self.calls[count:]
            self._undecided(node)
            return None
        finally:
            self._loops -= 1
        self._decides = decides
        return True

    def _loop(self, node: Loop) -> Iterator[None]:
        while True:
            status = None if node.kind == "for" else self.run(node.condition)
            if status is None:
                raise _UndecidedError
            if status == (node.kind == "until"):
                return
            yield

    def _for(self, node: For) -> Iterator[None]:
        if node.words is None:
            items = list(self.state.arguments)
            is_open = self.state.lost is not None
        else:
            items = [item for word in node.words for item in self.words.expand(word)]
            pieces = [piece for word in node.words for piece in word.pieces]
            plain = "".join(each.text for each in pieces if not each.is_quoted)
            is_open = _PATTERN.search(plain) is not None
        is_open = is_open or any(self.holes.reason(item.text) for item in items)
        if is_open or node.kind == "select":
            raise _UndecidedError
        for item in items:
            self.words.set(node.name, item.text)
            yield

    def _undecided(self, node: Loop | For | Case | Function) -> None:
        """Follow once, where what it sets has no known value before, in it, or after it."""
        reason = _reason(node)
        before, decides = self.state.copy(), self._decides
        names, programs = self._set_in(node)
        for name, count in names.items():
            if count:
                self.state.values[name] = self.holes.add(reason, f"${name}")
        if programs & _MOVES_ARGUMENTS:
            self.state.lost = reason
        if "cd" in programs:
            self.state.values["PWD"] = self.holes.add(reason, "$PWD")
        self._decides = False
        self._open += 1
        for part in _parts_of(node):
            self.run(part)
            self.state.stop = ""
        self._open -= 1
        self._decides = decides
        self.state = join_states([before, self.state], reason, self.holes)

    def _set_in(self, node: Node) -> tuple[Counter[str], set[str]]:
        """The names that commands and the functions they call set, and their programs."""
        names, programs = find_names(node), find_programs(node)
        waiting, seen = list(programs), set(programs)
        while waiting:
            function = self.state.functions.get(waiting.pop())
            if function is not None:
                names += find_names(function)
                waiting += find_programs(function) - seen
                seen |= find_programs(function)
        return names, seen

    def _call(self, function: Function, arguments: Sequence[Argument]) -> bool | None:
        if function.name in self._active:
            return None
        self._uncalled.pop(function.name, None)
        before, count = self.state.copy(), len(self.calls)
        decides, opened, loops = self._decides, self._open, self._loops
        self._loops = 0
        self._active.append(function.name)
        self._locals.append({})
        self._decides = True
        self.state.arguments, self.state.lost = tuple(arguments), None
        self.state.is_called = True
        try:
            status = self.run(function.body)
        except _UndecidedError:
            self.state, self._open, status = before.copy(), opened, None
            del self.calls[count:]
            self.state.arguments, self.state.lost = tuple(arguments), None
            self._decides = decides
            self._undecided(function)
        self._decides, self._loops = decides, loops
        self._active.pop()
        for name, value in self._locals.pop().items():
            self.state.values.pop(name, None)
            if value is not None:
                self.state.values[name] = value
        after = self.state
        after.arguments, after.lost = before.arguments, before.lost
        after.is_called = before.is_called
        after.stop = "" if after.stop == "return" else after.stop
        return status

    def _simple(self, node: Simple) -> bool | None:
        """Follow assignments and commands of the shell, and keep what is a program."""
        words, count = node.words, 0
        while count < len(words) and _head(words[count]):
            count += 1
        if not words:
            return True
        if count == len(words):
            self._assign(node)
            return True if is_output_known(node) else None
        first = words[count].raw
        if first.startswith("(("):
            return self._double_brackets(words[count])
        known = self._shell_command(first, node, words[count:])
        if known is not _NO_COMMAND:
            return known if isinstance(known, bool) else None
        arguments = [item for word in words[count:] for item in self.words.expand(word)]
        if not arguments:
            return True
        return self._program(node, arguments, count)

    def _program(self, node: Simple, arguments: list[Argument], count: int) -> bool | None:
        name, line = arguments[0].text, node.words[count].line
        if (function := self.state.functions.get(name)) is not None:
            return self._call(function, arguments[1:])
        if name in SOURCES and len(arguments) > 1:
            return self._source(arguments, line, node)
        if name == "cd":
            self._change_folder(arguments[1:], line)
        if name in ("cat", "tee") and self._write(node, arguments):
            return True
        own = [word for word in node.words[:count] if ASSIGNED.match(word.raw)]
        exports = tuple(self._export(word) for word in own)
        if not self._inner(node, arguments, exports):
            self._keep(node, arguments, exports, line)
        return None

    def _keep(
        self,
        node: Simple,
        arguments: Sequence[Argument],
        exports: tuple[tuple[int, str, str], ...],
        line: int,
    ) -> None:
        source = tuple(word.raw for word in node.words)
        self.calls.append(_Call(line, source, (*self._launchers, *arguments), exports))

    def _export(self, word: Word) -> tuple[int, str, str]:
        """A variable that is set before a command, for it alone."""
        match = ASSIGNED.match(word.raw)
        assert match is not None
        value = self._value(word, match[0], None)
        return word.line, match[1], " ".join(item.text for item in listed(value))

    def _inner(
        self,
        node: Simple,
        arguments: Sequence[Argument],
        exports: tuple[tuple[int, str, str], ...],
    ) -> bool:
        """Follow the script that a shell gets: ``bash -c TEXT``, ``bash FILE``, ``sbatch <<E``.

        Returns whether there is one. It knows the variables that are exported.
        """
        found = self._find_inner(node, [item.text for item in arguments])
        if found is None:
            return False
        before_shell, (line, text), following = found
        line = line or arguments[0].line
        if self.holes.reason(text.strip()[:1]) is not None:
            return False
        own = {name: value for _, name, value in exports}
        launchers = tuple(arguments[:before_shell])
        own |= {
            match[1]: item.text.removeprefix(match[0])
            for item in launchers
            if (match := ASSIGNED.match(item.text))
        }
        return self._child(launchers, text, line, arguments[following:], own)

    def _find_inner(
        self, node: Simple, texts: Sequence[str]
    ) -> tuple[int, tuple[int, str], int] | None:
        """How many words are before the shell, its script with the line, and where the arguments
        of the script begin."""
        document = self._input(node)
        for index, text in enumerate(texts):
            if _NEVER_INSIDE.fullmatch(text):
                return None
            path = posixpath.normpath(text)
            if path in self.state.files:
                self._unread.pop(path, None)
                return index, self.state.files[path], index + 1
            if text == "--wrap" and index + 1 < len(texts):
                return index, (0, texts[index + 1]), len(texts)
            if text.startswith("--wrap="):
                return index, (0, text.removeprefix("--wrap=")), len(texts)
            if not _SHELL.fullmatch(text):
                continue
            at, has_text = index + 1, False
            while at < len(texts) and _OPTION.fullmatch(texts[at]):
                is_short = not texts[at].startswith("--")
                has_text = has_text or (is_short and "c" in texts[at])
                at += 2 if is_short and texts[at][-1] in "oO" else 1
            if has_text and at < len(texts):
                return index, (0, texts[at]), at + 2
            if at < len(texts) and posixpath.normpath(texts[at]) in self.state.files:
                path = posixpath.normpath(texts[at])
                self._unread.pop(path, None)
                return index, self.state.files[path], at + 1
            if at >= len(texts) and document is not None:
                return index, document, len(texts)
            return None
        if document is not None and _SUBMITS & set(texts):
            return len(texts), document, len(texts)
        return None

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
        before, launched = self.state.copy(), self._launchers
        names = self.inherited | self.state.exported.keys()
        values = {name: value for name, value in self.state.values.items() if name in names}
        self.state.values = {**values, **own}
        self.state.arguments, self.state.lost = tuple(arguments), None
        self._launchers = (*launched, *launchers)
        self._nested(tree, line)
        self._launchers = launched
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
            if isinstance(target, Document) or mark == "<<<":
                return target.line, self.words.text(target.line, target.pieces)
        return None

    def _write(self, node: Simple, arguments: Sequence[Argument]) -> bool:
        """Keep the text that ``cat``, ``tee`` or ``echo`` writes to a file; return if one does."""
        targets = [
            (mark, self.words.text(target.line, target.pieces))
            for mark, target in node.redirections
            if mark in (">", ">>", ">|", "&>") and isinstance(target, Word)
        ]
        words = [item.text for item in arguments[1:] if not item.text.startswith("-")]
        text = self._input(node)
        if arguments[0].text == "tee":
            mark = ">" if len(arguments) == len(words) + 1 else ">>"
            targets = [(mark, word) for word in words]
        elif arguments[0].text == "echo":
            text = (node.line, f"{' '.join(words)}\n")
        if text is None or not targets:
            return False
        mark, path = targets[-1]
        path = posixpath.normpath(path)
        before = self.state.files.get(path, (text[0], "")) if mark == ">>" else (text[0], "")
        self.state.files[path] = self._unread[path] = (before[0], before[1] + text[1])
        return True

    def _source(self, arguments: Sequence[Argument], line: int, node: Simple) -> bool | None:
        path = posixpath.normpath(arguments[1].text)
        if path in self.state.files:
            self._unread.pop(path, None)
            first, text = self.state.files[path]
            return self._nested(read_tree(text, first), line)
        self.words.sourced.append((arguments[1].text, line))
        self._keep(node, arguments, (), line)
        return None

    def _shell_command(self, name: str, node: Simple, words: Sequence[Word]) -> object:
        """Follow a command of the shell itself; ``_NO_COMMAND`` if it is none."""
        if name in _DECLARES:
            self._declare(name, node)
            return True if is_output_known(node) else None
        if name in ("[", "test"):
            return decide_test(self.words, words[1:])
        if name in _STOPS:
            self._stop(name, words)
            return None
        if name in ("shift", "set"):
            return self._shift(words) if name == "shift" else self._set_options(words)
        if name == "getopts":
            return self._getopts(words)
        if name == "eval":
            return self._eval(words)
        if name == "unset":
            for word in words[1:]:
                self.state.values.pop(word.raw, None)
            return True
        if name in ("echo", ":", "false"):
            items = [item for word in words for item in self.words.expand(word)]
            if name == "echo":
                self._write(node, items)
            return name != "false"
        if name in SETTERS and (name != "printf" or any(word.raw == "-v" for word in words)):
            self._forget(words[1:], f"{name} in line {words[0].line} may set it")
            return None
        if name in _QUIET or name == "printf":
            return True if name in ("true", "trap") else None
        return _NO_COMMAND

    def _stop(self, name: str, words: Sequence[Word]) -> None:
        """``exit`` with a failure is a message about the arguments, which import may not have."""
        given = [item.text for word in words[1:2] for item in self.words.expand(word)]
        is_failure = name == "exit" and given[:1] != ["0"] and "".join(given).isdecimal()
        if is_failure and not self._open and self.has_arguments:
            line = words[0].line
            raise ShellError(line, f"with these arguments, the script ends here: exit {given[0]}")
        is_inside = bool(self._active if name == "return" else self._loops) or name == "exit"
        if is_inside and (not is_failure or self._open):
            self.state.stop = name

    def _forget(self, words: Sequence[Word], reason: str) -> None:
        """The variables that these words name may have been set."""
        for name in re.findall(r"[A-Za-z_]\w*", " ".join(word.raw for word in words), re.ASCII):
            self.state.values[name] = self.holes.add(reason, f"${name}")

    def _double_brackets(self, word: Word) -> bool | None:
        if re.search(r"\+\+|--|(?<![=<>!])=(?!=)|<<=|>>=", word.raw):
            self._forget([word], f"(( )) in line {word.line} may set it")
            return None
        self.words.is_test = True
        number = self.words.number(word.raw[2:-2], word.raw)
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

    def _shift(self, words: Sequence[Word]) -> bool | None:
        given = [item.text for word in words[1:] for item in self.words.expand(word)]
        number = given[0] if given else "1"
        if not number.isdecimal():
            self.state.lost = f"shift in line {words[0].line} decides them"
        elif int(number) > len(self.state.arguments):
            return False
        else:
            self.state.arguments = self.state.arguments[int(number) :]
        return True

    def _set_options(self, words: Sequence[Word]) -> bool:
        """``set`` gets arguments of the script after ``--``, or at once."""
        raw = [word.raw for word in words[1:]]
        if "--" in raw or (raw and not raw[0].startswith(("-", "+"))):
            after = words[raw.index("--") + 2 if "--" in raw else 1 :]
            items = [item for word in after for item in self.words.expand(word)]
            self.state.arguments, self.state.lost = tuple(items), None
        return True

    def _getopts(self, words: Sequence[Word]) -> bool | None:
        """``getopts SPEC NAME``: one option each time."""
        index, spec = self.state.values.get("OPTIND", "1"), words[1].raw.strip("'\"")
        texts = [item.text for item in self.state.arguments]
        is_known = isinstance(index, str) and index.isdecimal() and self.state.lost is None
        if len(words) != 3 or not is_known or self.holes.reason("".join(texts)):
            self._forget(words[2:], f"getopts in line {words[0].line} may set it")
            return None
        at, name = int(str(index)) - 1, words[2].raw
        option = texts[at] if at < len(texts) else ""
        if not option.startswith("-") or option in ("-", "--"):
            self.words.set(name, "?")
            return False
        if len(option) > 2 and f"{option[1]}:" not in spec:
            raise _UndecidedError  # Several options in one word.
        at += 1
        is_known = option[1] in spec.replace(":", "")
        if f"{option[1]}:" in spec:
            value = option[2:]
            if not value and at < len(texts):
                value, at = texts[at], at + 1
            self.words.set("OPTARG", value)
        self.words.set(name, option[1] if is_known else "?")
        self.words.set("OPTIND", str(at + 1))
        return True

    def _eval(self, words: Sequence[Word]) -> bool | None:
        text = " ".join(item.text for word in words[1:] for item in self.words.expand(word))
        with suppress(ShellError):
            if self.holes.reason(text.strip()[:1]) is None:
                return self._nested(read_tree(text, words[0].line), words[0].line)
        self._forget(words[1:], f"eval in line {words[0].line} may set it")
        return None

    def _declare(self, name: str, node: Simple) -> None:
        is_own = name in ("local", "declare", "typeset") and self._locals
        for word in node.words:
            head = _head(word)
            declared = head[1] if head else word.raw
            if is_own and declared.isidentifier() and declared != name:
                self._locals[-1].setdefault(declared, self.state.values.get(declared))
            if name == "export" and declared.isidentifier() and declared != name:
                self.state.exported[declared] = word.line
        self._assign(node)

    def _assign(self, node: Simple) -> None:
        for index, word in enumerate(node.words):
            match = ASSIGNED.match(word.raw)
            if match is None and (element := ELEMENT.match(word.raw)):
                self._set_element(word, element)
            if match is None:
                continue
            value = self._value(word, match[0], node.arrays.get(index))
            if match[2]:
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
        if array is not None and any(re.match(r"\[.*?\]\+?=", part.raw) for part in array):
            reason = f"its elements in line {word.line} have subscripts"
            return self.holes.add(reason, f"${head.rstrip('+=')}")
        if array is not None:
            return tuple(item for part in array for item in self.words.expand(part))
        pieces = without_head(word, head).pieces
        value, home = self.words.text(word.line, pieces), self.state.values.get("HOME")
        begins = pieces[0].text.partition("/")[0] == "~" and not pieces[0].is_quoted
        return home + value[1:] if begins and isinstance(home, str) else value


_NO_COMMAND = object()


def _nothing() -> None:
    return None


def _head(word: Word) -> re.Match[str] | None:
    return ASSIGNED.match(word.raw) or ELEMENT.match(word.raw)


def _reason(node: If | Loop | For | Case | Function) -> str:
    """Why a value that it sets is not known."""
    match node:
        case Loop(line, kind) | For(line, kind):
            name = f"loop '{kind}'"
        case If(line):
            name = "'if'"
        case Case(line):
            name = "case"
        case Function(line):
            name = "function"
    return f"the {name} in line {line} decides it"


def _parts_of(node: Loop | For | Case | Function) -> tuple[Node, ...]:
    match node:
        case Loop(_, _, condition, body):
            return condition, body
        case Case():
            return tuple(body for _, body in node.items)
        case For() | Function():
            return (node.body,)


def _differing(items: Sequence[Argument], hole: str) -> Argument:
    """What differs from one time to the next; its key does not."""
    keys = {item.text.partition("=")[0] for item in items}
    return replace(items[0], text=f"{keys.pop()}={hole}" if len(keys) == 1 else hole)


def _added(before: Value, value: Value) -> Value:
    """``NAME+=value``."""
    if isinstance(before, str) and isinstance(value, str):
        return before + value
    if isinstance(before, tuple) and isinstance(value, str):  # It is added to the first element.
        first = before[0] if before else Argument(0, "")
        return (replace(first, text=first.text + value), *before[1:])
    return listed(before) + listed(value)
