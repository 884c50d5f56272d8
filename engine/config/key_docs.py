"""What a key of a config means, and which values it takes, as far as somebody wrote it down.

The meaning comes from the comments of verl's YAML files, which the snapshot holds, and from the
docstrings of our own sections. The values are those that loading a config checks.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from engine.config import allowed
from engine.config.keys import expected_type, verl_comments, verl_defaults
from engine.config.schema import own_sections
from engine.run.kinds import GRPO, Kind

_BOUNDS = {"ge": "at least {:g}", "gt": "above {:g}", "le": "at most {:g}", "lt": "below {:g}"}


@dataclass(frozen=True)
class KeyDoc:
    """Texts of one line, never markup; empty where nobody wrote anything."""

    meaning: str = ""
    values: str = ""
    """What the value must be, such as ``at least 0``."""


def describe_key(key: str, kind: Kind) -> KeyDoc:
    """Return what is known about a key of a config of this kind; also of an unknown key."""
    docs = _docs(kind)
    return docs[key] if key in docs else KeyDoc(values=allowed.expected(key) or "")


@cache
def _docs(kind: Kind) -> dict[str, KeyDoc]:
    docs = {}
    if kind == GRPO:
        comments = verl_comments()
        for key, default in verl_defaults().items():
            values = allowed.expected(key) or expected_type(key, default) or ""
            docs[key] = KeyDoc(comments.get(key, ""), values)
    return docs | dict(_own_docs(own_sections(kind), ""))


def _own_docs(model: type[BaseModel], section: str) -> Iterator[tuple[str, KeyDoc]]:
    meanings = _attribute_docstrings(model)
    for name, field in model.model_fields.items():
        key = f"{section}{name}"
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _own_docs(field.annotation, f"{key}.")
        else:
            values = allowed.expected(key) or _field_values(key, field)
            yield key, KeyDoc(meanings.get(name, ""), values)


def _field_values(key: str, field: FieldInfo) -> str:
    """``at least 0 and at most 1``, ``one of cpu, cuda``, or the type of the default."""
    bounds = [
        text.format(getattr(bound, name))
        for bound in field.metadata
        for name, text in _BOUNDS.items()
        if getattr(bound, name, None) is not None
    ]
    if bounds:
        return " and ".join(bounds)
    if get_origin(field.annotation) is Literal:
        return f"one of {', '.join(map(str, get_args(field.annotation)))}"
    default: Any = field.get_default(call_default_factory=False)
    return expected_type(key, default) or ""


def _attribute_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """The string below each field; Pydantic would read the source at every import."""
    (definition,) = ast.parse(inspect.getsource(model)).body
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id: " ".join(inspect.cleandoc(below.value.value).split()).replace("``", "")
        for field, below in pairwise(definition.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }
