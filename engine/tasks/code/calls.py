"""What passes between a program and its test: data, never objects, over a socket.

The program runs in one process (``serve``), the test in another (``run_test``). The names that the
test takes from the program are there as ``Remote``: calls, attributes and operators are asked for
and answered as JSON. The verdict is the test's. An object that is no data stays in the program's
process; it never equals data. Only the standard library is imported, as in guard.py.
"""

import ast
import builtins
import collections
import datetime
import decimal
import fractions
import importlib
import json
import operator
import os
import socket
import struct
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, cast

PASSED, ERROR, FAILED, SYNTAX_ERROR = 0, 1, 10, 11
"""Exit codes of a test's process; any other is an error."""

_LONGEST = 64 << 20
_LARGEST_INT = 1 << 62
_ALIASES = {"np": "numpy", "numpy": "numpy", "pd": "pandas"}
_BUILT_IN = vars(builtins)
_SHAPES: dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    int: (hex, lambda text: int(text, 16)),
    bytes: (bytes.hex, bytes.fromhex),
    bytearray: (bytearray.hex, bytearray.fromhex),
    complex: (lambda value: [value.real, value.imag], lambda pair: complex(*pair)),
    decimal.Decimal: (str, decimal.Decimal),
    fractions.Fraction: (str, fractions.Fraction),
    range: (lambda value: [value.start, value.stop, value.step], lambda ends: range(*ends)),
    datetime.date: (datetime.date.isoformat, datetime.date.fromisoformat),
    datetime.datetime: (datetime.datetime.isoformat, datetime.datetime.fromisoformat),
}
_GROUPS: tuple[type, ...] = (tuple, set, frozenset, collections.deque)
_BY_NAME = {shape.__name__: shape for shape in (*_SHAPES, *_GROUPS)}
_MUTABLE = (list, dict, set, bytearray, collections.deque)


class Wire:
    """One end: asks the other, and answers what the other asks meanwhile."""

    def __init__(self, end: socket.socket, answer: Callable[..., Any]) -> None:
        self._end, self._answer = end, answer
        self._kept: list[Any] = []
        self._raised: dict[str, type[BaseException]] = {}

    def ask(self, name: str, *args: Any, **options: Any) -> Any:
        """What the other end gives back, or raises. If it is gone, this process ends."""
        before = [self._encode(value) for value in args]
        self._send(["ask", name, before, {key: self._encode(v) for key, v in options.items()}])
        while (message := self.receive())[0] == "ask":
            self.reply(message)
        if message[0] == "raised":
            raise self._decode(message[1])(*self._decode(message[2]))
        for index, value in message[2]:
            _replace(args[index], self._decode(value))
        return self._decode(message[1])

    def reply(self, message: Any) -> None:
        _, name, given, options = message
        try:
            args = [self._decode(value) for value in given]
            result = self._answer(name, *args, **{k: self._decode(v) for k, v in options.items()})
            pairs = enumerate(zip(args, given, strict=True))
            changed = [
                [index, after]
                for index, (value, before) in pairs
                if type(value) in _MUTABLE and (after := self._encode(value)) != before
            ]
            self._send(["value", self._encode(result), changed])
        except BaseException as error:
            data = all(isinstance(value, str | int | float) for value in error.args)
            args = list(error.args) if data else [str(error)]
            self._send(["raised", self._encode(type(error)), self._encode(args)])

    def _send(self, message: Any) -> None:
        text = json.dumps(message).encode()
        self._end.sendall(struct.pack("!Q", len(text)) + text)

    def receive(self) -> Any:
        (size,) = struct.unpack("!Q", self._read(8))
        if size > _LONGEST:
            os._exit(ERROR)
        return json.loads(self._read(size))

    def _read(self, size: int) -> bytes:
        text = bytearray()
        while len(text) < size:
            part = self._end.recv(min(size - len(text), 1 << 20))
            if not part:
                os._exit(ERROR)  # No exception: the test may catch all of them.
            text += part
        return bytes(text)

    def _encode(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind in (bool, float, str):
            return value
        if kind is int and -_LARGEST_INT < value < _LARGEST_INT:
            return value
        if kind is list:
            return [self._encode(item) for item in value]
        if kind in _SHAPES:
            return {kind.__name__: _SHAPES[kind][0](value)}
        if kind in _GROUPS:
            return {kind.__name__: [self._encode(item) for item in value]}
        if kind in (dict, collections.defaultdict, collections.OrderedDict, collections.Counter):
            return {"dict": [[self._encode(key), self._encode(v)] for key, v in value.items()]}
        if kind is Remote:
            return {"yours": object.__getattribute__(value, "_number")}
        if kind.__module__ == "numpy" and getattr(value, "dtype", value).kind in "biufc":
            return {"numpy": [value.dtype.str, self._encode(value.tolist())]}
        if isinstance(value, type) and issubclass(value, BaseException):
            bases = [base.__name__ for base in value.__mro__ if base.__module__ == "builtins"]
            return {"exception": [value.__name__, *bases]}
        self._kept.append(value)
        return {"mine": len(self._kept) - 1}

    def _decode(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        [(name, inner)] = value.items()
        match name:
            case "dict":
                return {self._decode(key): self._decode(item) for key, item in inner}
            case "yours":
                return self._kept[inner]
            case "mine":
                return Remote(self, inner)
            case "exception":
                return self._exception(*inner)
            case "numpy":
                return importlib.import_module("numpy").array(self._decode(inner[1]), inner[0])[()]
        shape = _BY_NAME[name]
        return _SHAPES[shape][1](inner) if shape in _SHAPES else shape(map(self._decode, inner))

    def _exception(self, name: str, *bases: str) -> type[BaseException]:
        if name in bases:
            return _exception_class(name)
        return self._raised.setdefault(name, type(name, (_exception_class(bases[0]),), {}))


class Remote:
    """An object of the other process. With data it is never equal, larger or smaller."""

    def __init__(self, wire: Wire, number: int) -> None:
        object.__setattr__(self, "_wire", wire)
        object.__setattr__(self, "_number", number)

    def __getattr__(self, name: str) -> Any:
        return _ask(self, "getattr", name)

    def __setattr__(self, name: str, value: Any) -> None:
        _ask(self, "setattr", name, value)

    def __call__(self, *args: Any, **options: Any) -> Any:
        return _ask(self, "call", *args, **options)

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, Remote) and _ask(value, "isinstance", self) is True

    def __contains__(self, value: Any) -> bool:
        if isinstance(value, Remote):
            return _ask(self, "contains", value) is True
        return any(item == value for item in self)

    def __iter__(self) -> Iterator[Any]:
        return cast(Iterator[Any], _ask(self, "iter"))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Remote) and _ask(self, "eq", other) is True

    def __hash__(self) -> int:
        return int(_ask(self, "hash"))


def _ask(asked: Remote, name: str, *args: Any, **options: Any) -> Any:
    return object.__getattribute__(asked, "_wire").ask(name, asked, *args, **options)


def _forwarded(name: str) -> Callable[..., Any]:
    return lambda self, *args: _ask(self, name, *args)


def _compared(name: str) -> Callable[..., Any]:
    return lambda a, b: _ask(a, name, b) if isinstance(b, Remote) else NotImplemented


def _reflected(name: str) -> Callable[..., Any]:
    return lambda a, b: object.__getattribute__(a, "_wire").ask(name, b, a)


_FORWARDED = "next len bool str repr float int index neg abs getitem setitem delitem"
_ARITHMETIC = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift"
for _name in _FORWARDED.split():
    setattr(Remote, f"__{_name}__", _forwarded(_name))
for _name in _ARITHMETIC.split():
    setattr(Remote, f"__{_name}__", _forwarded(f"__{_name}__"))
    setattr(Remote, f"__r{_name}__", _reflected(f"__{_name}__"))
for _name in ("lt", "le", "gt", "ge"):
    setattr(Remote, f"__{_name}__", _compared(_name))


def serve(program: str, given: str, end: socket.socket) -> NoReturn:
    """Run a program, and ``given`` in its module; then do what the test asks."""
    module = types.ModuleType("program")
    sys.modules["program"] = module

    def answer(name: str, *args: Any, **options: Any) -> Any:
        match name:
            case "define":
                try:
                    code = compile(program, "<program>", "exec")
                except (SyntaxError, ValueError, MemoryError, RecursionError):
                    return SYNTAX_ERROR
                exec(code, module.__dict__)
                exec(compile(given, "<setup>", "exec"), module.__dict__)
                return [key for key in args[0] if key in module.__dict__]
            case "global":
                return module.__dict__[args[0]]
            case "call":
                return args[0](*args[1:], **options)
        return (_BUILT_IN.get(name) or getattr(operator, name))(*args)

    wire = Wire(end, answer)
    while True:
        wire.reply(wire.receive())


def run_test(test: str, end: socket.socket) -> int:
    """The exit code that says how a test came out. An error of the program is one of the test."""
    wire = Wire(end, lambda name, called, *args, **options: called(*args, **options))
    try:
        code = compile(test, "<test>", "exec")
        used = sorted(_names(code))
        defined = wire.ask("define", used)
        if not isinstance(defined, list):
            return SYNTAX_ERROR
        scope: dict[str, Any] = {"__name__": "test"}
        scope |= _modules(test)
        own = [name for name in defined if name in used and name not in scope]
        if any(name not in _BUILT_IN for name in own):
            own = [name for name in own if name not in _BUILT_IN]
        scope |= {name: wire.ask("global", name) for name in own}
        exec(code, scope)
    except AssertionError:
        return FAILED
    except BaseException:
        return ERROR
    return PASSED


def _names(code: types.CodeType) -> set[str]:
    inner = [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return set(code.co_names).union(*map(_names, inner))


def _modules(test: str) -> dict[str, Any]:
    """Modules of the library that a test names as such (``math.isclose``): never the program's."""
    used: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(test)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used.setdefault(node.value.id, set()).add(node.attr)
    found = {
        name: importlib.import_module(_ALIASES.get(name, name))
        for name in used
        if name in sys.stdlib_module_names or name in _ALIASES
    }
    return {name: found[name] for name in found if used[name] <= {*dir(found[name])}}


def _exception_class(name: str) -> type[BaseException]:
    found = _BUILT_IN.get(name)
    return found if isinstance(found, type) and issubclass(found, BaseException) else Exception


def _replace(value: Any, new: Any) -> None:
    """Give a value of this process the content that it has in the other one."""
    if type(value) is not type(new) or type(value) not in _MUTABLE:
        return
    value.clear()
    (value.update if isinstance(value, dict | set) else value.extend)(new)
