"""Compute ``$((...))`` of integers and variables."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping

_ARGUMENT = re.compile(r"\$(?:([0-9])|\{([0-9]+)\})")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")


def compute(expression: str, find_value: Callable[[str], object]) -> str | None:
    """Return the value of what is between the brackets; None if a shell has to compute it.

    ``find_value`` returns the value of a variable.
    """
    try:
        filled = _ARGUMENT.sub(
            lambda match: _argument(match[1] or match[2], find_value), expression
        )
        tree = ast.parse(filled.replace("$", " ").strip(), mode="eval")
        return str(_integer(tree.body, find_value))
    except (SyntaxError, ValueError, ArithmeticError, LookupError, RecursionError):
        return None


def _argument(number: str, find_value: Callable[[str], object]) -> str:
    """The value of ``$1``, which is no name."""
    value = find_value(number)
    if not isinstance(value, str) or not _INTEGER.fullmatch(value):
        raise ValueError("not an integer")
    return f"({value})"


def _integer(node: ast.expr, find_value: Callable[[str], object]) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name) and isinstance(value := find_value(node.id), str):
        if not _INTEGER.fullmatch(value):  # 010 is octal, and text is another expression.
            raise ValueError("not an integer")
        return int(value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_integer(node.operand, find_value)
    match node:
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
