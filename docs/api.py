"""Write api.md, the reference of ``engine`` in Python, from docstrings and signatures.

python docs/api.py
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import engine
from engine.base import typed
from engine.base.tables import markdown_table
from engine.run.finding import Change, Evidence, Finding, Fix
from engine.run.history.reward_records import Position, RewardRecord, ScoringError, Tokens
from engine.run.manifest import (
    AttemptRecord,
    FileFacts,
    FullManifest,
    Manifest,
    Override,
    Parent,
    Setting,
    Surroundings,
)
from engine.run.run import Attempt, Run

PAGE = Path(__file__).with_suffix(".md")

FUNCTIONS = (engine.list_runs, engine.open_run)
CLASSES: tuple[type, ...] = (
    engine.OpenedRun,
    *(Run, Attempt),
    *(FullManifest, Manifest, Surroundings, Setting, Override, Parent, AttemptRecord, FileFacts),
    *(Finding, Evidence, Fix, Change),
    *(RewardRecord, Position, ScoringError, Tokens),
)
"""Each before what it is made of."""


@dataclass(frozen=True)
class Member:
    """A function, or a field or property of a class, with its docstring."""

    name: str
    arguments: str
    type: str
    text: str


def page() -> str:
    """The page in Markdown."""
    functions = [member for function in FUNCTIONS for member in _members(_parse(function).body)]
    parts = [
        "# Python API",
        "`make generated` writes this page from the docstrings.",
        _markdown(inspect.getdoc(engine) or ""),
        *(
            f"## `{each.name}{each.arguments} -> {each.type}`\n\n{_markdown(each.text)}"
            for each in functions
        ),
        *map(_section, CLASSES),
        "## Types of fields",
        markdown_table(
            ("type", "values"), ((f"`{each.name}`", _markdown(each.text)) for each in types())
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _section(kind: type) -> str:
    """What a class adds to its bases."""
    names = [base.__name__ for base in kind.__bases__ if base in CLASSES]
    rows = (
        (f"`{member.name}{member.arguments}`", f"`{member.type}`", _markdown(member.text))
        for member in members(kind)
    )
    parts = [
        f"## `{kind.__name__}`",
        _markdown(inspect.getdoc(kind) or ""),
        *(f"It also has the members of [`{name}`](#{name.lower()})." for name in names),
        markdown_table(("member", "type", "description"), rows),
    ]
    return "\n\n".join(parts)


def members(kind: type) -> list[Member]:
    """The public members that a class adds to its bases, in the order of its source."""
    [node] = _parse(kind).body
    assert isinstance(node, ast.ClassDef)
    return list(_members(node.body))


def types() -> list[Member]:
    """The types of fields that have a docstring in ``engine.base.typed``."""
    tops = _parse(typed).body
    body = [each for top in tops for each in (top.body if isinstance(top, ast.If) else [top])]
    return [each for each in _members(body) if each.text and not each.arguments]


def _parse(documented: Any) -> ast.Module:
    return ast.parse(textwrap.dedent(inspect.getsource(documented)))


def _members(body: list[ast.stmt]) -> Iterator[Member]:
    for node, after in zip_longest(body, body[1:]):
        match node:
            case ast.FunctionDef(name=name):
                member = _function(node)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=kind):
                member = Member(name, "", ast.unparse(kind), _text(after))
            case ast.Assign(targets=[ast.Name(id=name)]):
                member = Member(name, "", "", _text(after))
            case _:
                continue
        if not name.startswith("_"):
            yield member


def _function(node: ast.FunctionDef) -> Member:
    """A method without ``self``, or a property."""
    is_property = any(ast.unparse(each).endswith("property") for each in node.decorator_list)
    arguments = ast.unparse(node.args).removeprefix("self").removeprefix(", ")
    return Member(
        node.name,
        "" if is_property else f"({arguments})",
        ast.unparse(node.returns) if node.returns else "",
        ast.get_docstring(node) or "",
    )


def _text(node: ast.stmt | None) -> str:
    """The docstring of the field before it."""
    match node:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return inspect.cleandoc(text)
    return ""


def _markdown(text: str) -> str:
    return text.replace("``", "`")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
