"""Read and run a workflow: a small part of Python, which this module interprets itself.

A workflow is a function of the problem that calls operators and returns text. It may use
assignments, ``if``, ``for`` over a list or ``range``, lists, f-strings, comparisons and ``await``,
but no imports, attributes or builtins.
"""

from __future__ import annotations

import ast
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Domain = Literal["math", "qa", "code"]
DOMAINS: tuple[Domain, ...] = ("math", "qa", "code")


@dataclass(frozen=True)
class Operator:
    """``instruction`` is what the executor is told. Without one, no model is asked."""

    name: str
    parameters: tuple[str, ...]
    summary: str
    instruction: str | None = None
    domains: tuple[Domain, ...] = DOMAINS


OPERATORS = {
    operator.name: operator
    for operator in (
        Operator(
            "custom",
            ("input", "instruction"),
            "follow an instruction",
            "Follow the instruction for the input.",
        ),
        Operator(
            "answer_generate",
            ("input",),
            "answer step by step",
            "Think step by step. End with the answer alone in the last line.",
            ("math", "qa"),
        ),
        Operator(
            "programmer",
            ("problem", "instruction"),
            "write a Python program",
            "Write a Python program that solves the problem. Answer with its code only.",
            ("code",),
        ),
        Operator(
            "review",
            ("problem", "solution"),
            "say what is wrong with a solution, or ok",
            "Review the solution. Answer ok if it is right; otherwise say what is wrong.",
        ),
        Operator(
            "revise",
            ("problem", "solution", "feedback"),
            "correct a solution",
            "Correct the solution by the feedback. Answer with the new solution only.",
        ),
        Operator("sc_ensemble", ("solutions",), "the most frequent of a list of solutions"),
        Operator("test", ("solution",), "run the tests: passed or failed", domains=("code",)),
    )
}


Ask = Callable[[Operator, dict[str, Any]], Awaitable[str]]
"""Calls an operator with its arguments by name."""

_LONGEST = 20_000
_MOST_STEPS = 500
_MOST_CALLS = 20
_MOST_TURNS = 10
_MOST_ITEMS = 100


class WorkflowError(Exception):
    """Why a workflow cannot be run, or failed."""


@dataclass(frozen=True)
class Workflow:
    """``problems``: what is wrong with its structure although it runs."""

    parameter: str
    body: Sequence[ast.stmt]
    operators: tuple[Operator, ...]
    problems: tuple[str, ...]

    def fits(self, domain: Domain) -> bool:
        """Whether every operator is made for the domain."""
        return all(domain in operator.domains for operator in self.operators)


def parse_workflow(code: str) -> Workflow:
    """The workflow in ``def workflow(problem)`` or ``async def``. WorkflowError for other code."""
    try:
        tree = ast.parse(code) if len(code) <= _LONGEST else None
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise WorkflowError(f"not Python: {error}") from error
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    functions = [node for node in (tree.body if tree else ()) if isinstance(node, kinds)]
    if len(functions) != 1 or functions[0].name != "workflow" or len(functions[0].args.args) != 1:
        raise WorkflowError("no function workflow(problem)")
    [function] = functions
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    names = [node.func.id for node in calls if isinstance(node.func, ast.Name)]
    operators = tuple(OPERATORS[name] for name in dict.fromkeys(names) if name in OPERATORS)
    problems = tuple(_find_problems(function))
    return Workflow(function.args.args[0].arg, function.body, operators, problems)


def _find_problems(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterable[str]:
    if not isinstance(function.body[-1], ast.Return):
        yield "the last statement is no return"
    for node in ast.walk(function):
        if isinstance(node, ast.Expr) and _operator_of(node.value) is not None:
            yield f"the result of {_operator_of(node.value)} is not used"


def _operator_of(node: ast.expr) -> str | None:
    call = node.value if isinstance(node, ast.Await) else node
    is_call = isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    return call.func.id if is_call and call.func.id in OPERATORS else None  # type: ignore[attr-defined]


async def run_workflow(workflow: Workflow, problem: str, ask: Ask) -> str:
    """What the workflow returns. WorkflowError where it fails by itself, also for results that are
    no text; what ``ask`` raises passes through."""
    run = _Run({workflow.parameter: problem}, ask)
    try:
        await run.execute(workflow.body)
    except _Returned as returned:
        if isinstance(returned.value, str):
            return returned.value
        raise WorkflowError("it returns no text") from None
    except RecursionError:
        raise WorkflowError("too many levels") from None
    raise WorkflowError("it returns nothing")


class _Returned(Exception):  # noqa: N818 - ends the run, is no error
    def __init__(self, value: Any) -> None:
        self.value = value


class _Run:
    """The variables of a run, and how much it has done."""

    def __init__(self, names: dict[str, Any], ask: Ask) -> None:
        self._names = names
        self._ask = ask
        self._steps = 0
        self._calls = 0

    async def execute(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self._count_step()
            match statement:
                case ast.Return(value=value):
                    raise _Returned(None if value is None else await self._value(value))
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self._names[name] = await self._value(value)
                case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value):
                    self._names[name] = _add(self._read(name), await self._value(value))
                case ast.If(test=test, body=then, orelse=otherwise):
                    await self.execute(then if await self._value(test) else otherwise)
                case ast.For(target=ast.Name(id=name), iter=items, body=inner, orelse=[]):
                    for item in await self._items(items):
                        self._names[name] = item
                        await self.execute(inner)
                case ast.Expr(value=value):
                    await self._value(value)
                case ast.Pass():
                    pass
                case _:
                    raise WorkflowError(f"{type(statement).__name__} is not part of a workflow")

    async def _value(self, node: ast.expr) -> Any:
        self._count_step()
        match node:
            case ast.Await(value=value):
                return await self._value(value)
            case ast.Constant(value=str() | int() | None as value):
                if isinstance(value, int) and value > _LONGEST:
                    raise WorkflowError("a number that is too large")
                return value
            case ast.Name(id=name):
                return self._read(name)
            case ast.List(elts=items):
                return [_scalar(await self._value(item)) for item in items]
            case ast.JoinedStr(values=parts):
                return _limited("".join([str(_scalar(await self._value(part))) for part in parts]))
            case ast.FormattedValue(value=value, format_spec=None):
                return await self._value(value)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return _add(await self._value(left), await self._value(right))
            case ast.BoolOp(op=operator, values=values):
                return await self._bool(operator, values)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not await self._value(operand)
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                return _compare(await self._value(left), operator, await self._value(right))
            case ast.Subscript(value=value, slice=index):
                return _item(await self._value(value), await self._value(index))
            case ast.Call():
                return await self._call(node)
        raise WorkflowError(f"{type(node).__name__} is not part of a workflow")

    async def _bool(self, operator: ast.boolop, values: Sequence[ast.expr]) -> Any:
        value: Any = None
        for node in values:
            value = await self._value(node)
            if bool(value) == isinstance(operator, ast.Or):
                break
        return value

    async def _items(self, node: ast.expr) -> Sequence[Any]:
        match node:
            case ast.Call(func=ast.Name(id="range"), args=[count], keywords=[]):
                number = await self._value(count)
                if not isinstance(number, int) or number > _MOST_TURNS:
                    raise WorkflowError(f"range() is at most {_MOST_TURNS}")
                return range(number)
        items = await self._value(node)
        if not isinstance(items, list):
            raise WorkflowError("for needs a list or range()")
        return list(items)

    async def _call(self, call: ast.Call) -> Any:
        match call:
            case ast.Call(func=ast.Name(id=name)) if name in OPERATORS:
                return await self._call_operator(OPERATORS[name], call)
            case ast.Call(func=ast.Attribute(value=value, attr="append"), args=[item], keywords=[]):
                items = await self._value(value)
                if not isinstance(items, list) or len(items) >= _MOST_ITEMS:
                    raise WorkflowError(f"append() needs a list of less than {_MOST_ITEMS} items")
                items.append(_scalar(await self._value(item)))
                return None
        called = ast.unparse(call.func)[:40]
        raise WorkflowError(f"{called} is no operator")

    async def _call_operator(self, operator: Operator, call: ast.Call) -> str:
        self._calls += 1
        if self._calls > _MOST_CALLS:
            raise WorkflowError(f"more than {_MOST_CALLS} calls of operators")
        names = [*operator.parameters[: len(call.args)], *(word.arg for word in call.keywords)]
        nodes = [*call.args, *(word.value for word in call.keywords)]
        if len(call.args) > len(operator.parameters) or sorted(map(str, names)) != sorted(
            operator.parameters
        ):
            raise WorkflowError(f"{operator.name} takes {', '.join(operator.parameters)}")
        values = [await self._value(node) for node in nodes]
        arguments = dict(zip(map(str, names), values, strict=True))
        return _limited(await self._ask(operator, arguments))

    def _read(self, name: str) -> Any:
        if name not in self._names:
            raise WorkflowError(f"{name[:40]} has no value")
        return self._names[name]

    def _count_step(self) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise WorkflowError(f"more than {_MOST_STEPS} steps")


def _add(left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, str):
        return _limited(left + right)
    if isinstance(left, list) and isinstance(right, list) and len(left) + len(right) <= _MOST_ITEMS:
        return left + right
    raise WorkflowError("+ joins two texts or two lists")


def _compare(left: Any, operator: ast.cmpop, right: Any) -> bool:
    match operator:
        case ast.Eq() | ast.Is():
            return bool(left == right)
        case ast.NotEq() | ast.IsNot():
            return bool(left != right)
        case ast.In() | ast.NotIn() if isinstance(right, str | list):
            if isinstance(right, list) or isinstance(left, str):
                return (left in right) == isinstance(operator, ast.In)
    raise WorkflowError(f"{type(operator).__name__} does not compare these values")


def _item(value: Any, index: Any) -> Any:
    if not isinstance(value, list) or not isinstance(index, int):
        raise WorkflowError("only lists have items, by number")
    try:
        return value[index]
    except IndexError:
        raise WorkflowError(f"a list has no item {index}") from None


def _scalar(value: Any) -> Any:
    """Lists in lists would double with every step."""
    if isinstance(value, list):
        raise WorkflowError("a list where a text is needed")
    return value


def _limited(text: str) -> str:
    if len(text) > _LONGEST:
        raise WorkflowError(f"a text of more than {_LONGEST} characters")
    return text
