"""Tool calls in the shapes that models and data sets write them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.tasks.tool_calls.json_text import find_json, parse_json

_TAGGED = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_ARGUMENTS = ("arguments", "parameters", "args", "input")
_LONGEST = 20_000
_MOST_CALLS = 50


@dataclass(frozen=True)
class ToolCall:
    """``arguments`` are values of JSON."""

    name: str
    arguments: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "arguments": dict(self.arguments)}


def find_calls(response: str) -> list[ToolCall] | None:
    """The calls in ``<tool_call>`` tags; without a tag, those of the JSON in the response.

    None where there are none, or one of them cannot be read; an empty list for ``[]``.
    """
    end = response[-_LONGEST:]
    tagged = _TAGGED.findall(end)
    if not tagged:
        found = find_json(end)
        return None if found is None else _try_calls(found.value)
    try:
        return read_calls([parse_json(text) for text in tagged])
    except ValueError:
        return None


def read_calls(value: Any) -> list[ToolCall]:
    """A list of calls, one call, or an object with ``tool_calls``. ValueError for another value."""
    if isinstance(value, Mapping) and isinstance(value.get("tool_calls"), list):
        value = value["tool_calls"]
    calls = value if isinstance(value, list) else [value]
    if len(calls) > _MOST_CALLS:
        raise ValueError(f"{len(calls)} calls; at most {_MOST_CALLS}")
    return [_read_call(call) for call in calls]


def _try_calls(value: Any) -> list[ToolCall] | None:
    try:
        return read_calls(value)
    except ValueError:
        return None


def _read_call(value: Any) -> ToolCall:
    """A call as ``{"name", "arguments"}``, also inside OpenAI's ``{"function": ...}``."""
    if isinstance(value, Mapping) and isinstance(value.get("function"), Mapping):
        value = value["function"]
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        raise ValueError("a call is an object with a name and arguments")
    arguments: Any = next((value[key] for key in _ARGUMENTS if key in value), {})
    if isinstance(arguments, str):
        arguments = parse_json(arguments)
    if not isinstance(arguments, Mapping):
        raise ValueError(f"the arguments of {value['name'][:40]!r} are no object")
    return ToolCall(value["name"], arguments)
