"""Rules that are code, read as text: every ``Finding(...)`` they can make, with holes for numbers.

Nothing is run. A title such as ``f"The loss stays at {figure(last)}"`` reads "The loss stays at …".
So the table has every rule that exists, and cannot say anything else than the rule does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from engine.doctor.catalogue.entry import HOLE, Entry, Shape

_FIELDS = {
    "Finding": ("id", "severity", "title", "cause", "evidence", "remedies"),
    "finding": ("id", "title", "cause", "remedies", "severity"),
}
"""Arguments by place: of a finding, and of the methods that complete one (``flat.py``)."""
_TITLE_AT = {"Remedy": 0, "setting": 3, "scaled": 3, "sounder": 4}
_USUAL = "error"
"""The severity that ``finding`` gives when it is told none."""


@dataclass(frozen=True)
class Source:
    """A rule file, and the remedies that it may take from elsewhere."""

    path: Path
    tree: ast.Module
    shared: tuple[ast.Module, ...]

    @classmethod
    def read(cls, path: Path, shared: Sequence[Path]) -> Source:
        return cls(path, _parsed(path), tuple(map(_parsed, shared)))

    @property
    def name(self) -> str:
        return f"{self.path.parent.name}/{self.path.stem}"

    def shape(self) -> Shape:
        head, _, text = (ast.get_docstring(self.tree) or "").partition("\n\n")
        return Shape(self.name, " ".join(head.split()), text.strip())

    def entries(self) -> Iterator[Entry]:
        """One for each finding whose id stands in the source."""
        for function in (one for one in self.tree.body if isinstance(one, ast.FunctionDef)):
            for call in (one for one in ast.walk(function) if isinstance(one, ast.Call)):
                if given := _arguments(call):
                    yield from self._made_of(given, function)

    def _made_of(self, given: dict[str, ast.expr], function: ast.FunctionDef) -> Iterator[Entry]:
        """One, or one for each kind that the last part of its id may be."""
        id = self._text(given["id"], function).replace(HOLE, "*")
        if id == "*":
            return  # A variable: these rules are data, and told as such.
        for kind in _kinds(given["id"], function, self.tree) or ["*"]:
            last = id.removesuffix("*") + kind if id.endswith("*") else id
            yield self._entry(last, given, function)

    def _entry(self, id: str, given: dict[str, ast.expr], function: ast.FunctionDef) -> Entry:
        remedies = given.get("remedies")
        titles = dict.fromkeys(self._remedies(remedies, function)) if remedies else {}
        return Entry(
            id,
            self._severity(given.get("severity"), function),
            self._text(given["title"], function),
            self._text(given["cause"], function),
            tuple(title for title in titles if title != HOLE),
            shape=self.name,
        )

    def _severity(self, node: ast.expr | None, function: ast.FunctionDef) -> str:
        """The severities that are named; where none is, those of who decides on one."""
        if node is None:
            return _USUAL
        deciding = (one for one in self.tree.body if isinstance(one, ast.FunctionDef))
        decided = [one for one in deciding if one.returns and _severity_in(one.returns)]
        scopes: list[ast.AST] = [node, function, ast.Module(list(decided), [])]
        return " or ".join(next(filter(None, map(_severities, scopes)), []))

    def _text(self, node: ast.AST, function: ast.FunctionDef) -> str:
        """A string expression; what is not known before a run is a hole."""
        if isinstance(node, ast.Constant):
            return str(node.value)
        if isinstance(node, ast.JoinedStr):
            return "".join(self._text(part, function) for part in node.values)
        if isinstance(node, ast.FormattedValue):
            return self._text(node.value, function)
        if isinstance(node, ast.IfExp):
            return self._text(node.body, function)
        if isinstance(node, ast.Name):
            values = _assigned(node.id, function) or _assigned(node.id, self.tree)
            if len(values) == 1 and isinstance(values[0], ast.Constant | ast.JoinedStr):
                return self._text(values[0], function)
        return HOLE

    def _remedies(self, node: ast.AST, function: ast.FunctionDef, depth: int = 4) -> Iterator[str]:
        """Titles of the remedies in an expression, and in the functions that make them."""
        for part in ast.walk(node):
            if isinstance(part, ast.Call):
                yield from self._made_by(part, function, depth)
            elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load) and depth:
                values = _assigned(part.id, function) or _assigned(part.id, self.tree)
                for value in values:
                    yield from self._remedies(value, function, depth - 1)

    def _made_by(self, call: ast.Call, function: ast.FunctionDef, depth: int) -> Iterator[str]:
        name = _name(call)
        if name in _TITLE_AT:
            place = _TITLE_AT[name]
            if len(call.args) > place:
                yield self._text(call.args[place], function).replace("{}", HOLE)
            return
        for tree in (self.tree, *self.shared):
            for maker in _functions(tree, name) if depth else ():
                yield from self._remedies(ast.Module(maker.body, []), maker, depth - 1)


def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _arguments(call: ast.Call) -> dict[str, ast.expr] | None:
    """The arguments of a finding by name; None for a call of something else."""
    fields = _FIELDS.get(_name(call), ())
    given = dict(zip(fields, call.args, strict=False))
    given |= {one.arg: one.value for one in call.keywords if one.arg}
    return given if {"id", "title", "cause"} <= given.keys() else None


def _kinds(id: ast.expr, function: ast.FunctionDef, tree: ast.Module) -> list[str]:
    """The literals that the last part of an id is declared to be one of."""
    last = id.values[-1] if isinstance(id, ast.JoinedStr) else None
    made = last.value if isinstance(last, ast.FormattedValue) else None
    declared = [node for node in _declared(made, function, tree) if isinstance(node, ast.Subscript)]
    return [
        str(part.value)
        for literal in declared
        for part in ast.walk(literal.slice)
        if isinstance(part, ast.Constant)
    ]


def _declared(
    made: ast.expr | None, function: ast.FunctionDef, tree: ast.Module
) -> list[ast.expr | None]:
    """The types of a call's result, of a parameter, or of a name with an annotation."""
    if isinstance(made, ast.Call):
        return [one.returns for one in _functions(tree, _name(made))]
    if not isinstance(made, ast.Name):
        return []
    parameters = [one.annotation for one in function.args.args if one.arg == made.id]
    notes = [one for one in ast.walk(function) if isinstance(one, ast.AnnAssign)]
    return [*parameters, *(one.annotation for one in notes if made.id in _targets(one))]


def _severity_in(node: ast.AST) -> bool:
    return any(getattr(part, "id", "") == "Severity" for part in ast.walk(node))


def _severities(node: ast.AST) -> list[str]:
    """Those that are named, the worst first."""
    order = ("critical", "error", "warning", "info")
    found = {
        part.attr.lower()
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute) and getattr(part.value, "id", "") == "Severity"
    }
    return [one for one in order if one in found]


def _assigned(name: str, scope: ast.Module | ast.FunctionDef) -> list[ast.expr]:
    """What is assigned to a name in a function, or at the top of a module."""
    return _assignments(scope).get(name, [])


@lru_cache(maxsize=1024)  # Each scope is asked for every name that the rules below it use.
def _assignments(scope: ast.Module | ast.FunctionDef) -> dict[str, list[ast.expr]]:
    nodes = scope.body if isinstance(scope, ast.Module) else ast.walk(scope)
    values: dict[str, list[ast.expr]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for name in dict.fromkeys(_targets(node)):
                values.setdefault(name, []).append(node.value)
    return values


def _targets(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [part.id for one in targets for part in ast.walk(one) if isinstance(part, ast.Name)]


def _functions(tree: ast.Module, name: str) -> Iterator[ast.FunctionDef]:
    return (one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == name)
