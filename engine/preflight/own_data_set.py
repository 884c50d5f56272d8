"""Construct the data set class that a config names, as verl will, to know its rows."""

from __future__ import annotations

import ast
from pathlib import Path

from engine.base.errors import UsageError, nearest
from engine.preflight.check import Subject
from engine.preflight.token_view import NoModelError, ask_trainer
from engine.recipe.executed import code_objection
from engine.recipe.steps import OWN_DATA_SET, own_data_set


def count_own_rows(subject: Subject) -> int | None:
    """The length of the class's training data; None where it cannot be told here: somebody else
    could have written the code, or the model is not on this disk.

    UsageError, with file and line, for a class that cannot be constructed.
    """
    recipe = subject.recipe
    file = Path(str(own_data_set(recipe))).expanduser()
    if "://" not in str(own_data_set(recipe)):
        _require_class(file, str(recipe.get(f"{OWN_DATA_SET}.name")))
    if code_objection(recipe) is not None:
        return None
    try:
        value = ask_trainer(recipe, "length", "train")
    except NoModelError:
        return None
    return None if value["rows"] is None else int(value["rows"])


def _require_class(file: Path, name: str) -> None:
    """UsageError for a file that is not Python, and for one that does not define the name."""
    try:
        body = ast.parse(file.read_text(encoding="utf-8")).body
    except OSError as error:
        raise UsageError(f"{OWN_DATA_SET}.path={file}: {error.strerror}") from error
    except (SyntaxError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) else ""
        raise UsageError(f"{file}{line}: {type(error).__name__}: {error}") from error
    classes = [node.name for node in body if isinstance(node, ast.ClassDef)]
    names = {target.id for node in ast.walk(ast.Module(body, [])) for target in _targets(node)}
    imported = {alias.asname or alias.name for node in body for alias in _aliases(node)}
    if name in {*classes, *names, *imported} or "*" in imported:
        return
    close = nearest(name, classes)
    hint = f"; did you mean {close}?" if close else f"; it has {', '.join(classes) or 'no class'}"
    raise UsageError(f"{file} has no class '{name}' ({OWN_DATA_SET}.name){hint}")


def _targets(node: ast.AST) -> list[ast.Name]:
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [target for target in targets if isinstance(target, ast.Name)]


def _aliases(node: ast.AST) -> list[ast.alias]:
    return node.names if isinstance(node, ast.Import | ast.ImportFrom) else []
