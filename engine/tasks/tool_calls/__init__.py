"""Answers that are tool calls, and answers that are JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from engine.base.typed import to_json
from engine.tasks.task import Column, Example, RecordError, Task, Values, text_of
from engine.tasks.tool_calls.calls import parse_json, read_calls
from engine.tasks.tool_calls.schemas import find_problem, require_schema, schema_of_parameters
from engine.tasks.tool_calls.score import are_valid

_CALL = (
    'Answer with the calls, each as <tool_call>{"name": "...", "arguments": {...}}</tool_call>. '
    "If no tool fits, answer with []."
)
_ONLY_JSON = "Answer with JSON only."


def _read_tool_calls(values: Values) -> Example:
    tools = _read_tools(_parse(values, "tools"))
    try:
        calls = read_calls(_parse(values, "calls"))
    except ValueError as error:
        raise RecordError(f"calls: {error}") from error
    listed = "\n".join(_dump(tool) for tool in tools.values())
    schemas = _dump({name: _schema(tool) for name, tool in tools.items()})
    for call in calls:
        if not are_valid([call], schemas):
            raise RecordError(f"a call of {call.name[:40]!r} does not fit the tools")
    content = f"You can call these tools:\n{listed}\n\n{_question(values)}\n\n{_CALL}"
    truth = _dump(calls)
    return Example(({"role": "user", "content": content},), truth, {"tools": schemas})


def _read_json_answer(values: Values) -> Example:
    truth = _parse(values, "answer")
    lines = [_question(values), ""]
    schema = "" if values.get("schema") is None else _dump(_parse(values, "schema"))
    if schema:
        try:
            problem = find_problem(schema, truth)
        except ValueError as error:
            raise RecordError(f"the schema is none: {error}") from error
        if problem is not None:
            raise RecordError(f"the answer does not fit the schema: {problem}")
        lines += [f"JSON schema of the answer:\n{schema}", ""]
    content = "\n".join([*lines, _ONLY_JSON])
    return Example(({"role": "user", "content": content},), _dump(truth), {"schema": schema})


def _read_tools(value: Any) -> dict[str, Mapping[str, Any]]:
    """The declarations by name, as ``{"name", "parameters"}`` or inside OpenAI's ``function``."""
    tools: dict[str, Mapping[str, Any]] = {}
    for item in value if isinstance(value, list) else [value]:
        nested = item.get("function") if isinstance(item, Mapping) else None
        tool = nested if isinstance(nested, Mapping) else item
        if not isinstance(tool, Mapping) or not isinstance(tool.get("name"), str):
            raise RecordError("a tool has no name")
        if tool["name"] in tools:
            raise RecordError(f"two tools are called {tool['name'][:40]!r}")
        tools[tool["name"]] = tool
    return tools


def _schema(tool: Mapping[str, Any]) -> str:
    try:
        schema = _dump(schema_of_parameters(tool.get("parameters")))
        require_schema(schema)
    except ValueError as error:
        raise RecordError(f"parameters of the tool {tool['name'][:40]!r}: {error}") from error
    return schema


def _question(values: Values) -> str:
    return text_of(values.get("question"), "question").strip()


def _parse(values: Values, name: str) -> Any:
    """A value of JSON, which files hold as such or as its text."""
    value = values.get(name)
    if value is None:
        raise RecordError(f"the {name} is empty")
    try:
        parsed = parse_json(value if isinstance(value, str) else _dump(value))
        _dump(parsed).encode()  # Half of a surrogate pair is in no file.
    except (TypeError, ValueError) as error:
        raise RecordError(f"the {name} is not JSON: {error}") from error
    return parsed


def _dump(value: Any) -> str:
    return json.dumps(to_json(value), ensure_ascii=False)


def _right_calls(truth: str, _: Mapping[str, str]) -> str:
    try:
        calls = read_calls(parse_json(truth))
    except ValueError:
        return truth
    return "\n".join(f"<tool_call>{_dump(call)}</tool_call>" for call in calls) or "[]"


TOOL_CALLS = Task(
    name="tool_calls",
    summary="tool calls: the right tools with the right arguments, in any order",
    scorer="engine.tasks.tool_calls.score:score_calls",
    columns={
        "question": Column(("query", "question", "prompt", "input", "instruction")),
        "tools": Column(("tools", "functions", "available_tools", "function")),
        "calls": Column(("answers", "calls", "tool_calls", "answer", "ground_truth", "expected")),
    },
    read=_read_tool_calls,
    extra=("tools",),
    right_answer=_right_calls,
    is_rate=lambda arguments: not arguments.get("partial_credit"),
)

JSON = Task(
    name="json",
    summary="answers in JSON, of which every field has one right value",
    scorer="engine.tasks.tool_calls.score:score_json",
    columns={
        "question": Column(("question", "prompt", "query", "input", "instruction", "text")),
        "answer": Column(
            ("answer", "gold", "ground_truth", "json", "output", "expected", "response")
        ),
        "schema": Column(("schema", "json_schema", "response_format"), is_required=False),
    },
    read=_read_json_answer,
    extra=("schema",),
    right_answer=lambda truth, _: truth,
    is_rate=lambda arguments: not arguments.get("partial_credit"),
)
