"""Tool calls in the shapes that models and data sets write them, and strict JSON in the text of a
response, in bounded time."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_TAGGED = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_ARGUMENTS = ("arguments", "parameters", "args", "input")
_LONGEST = 20_000
"""Characters at the end of a response in which calls and JSON are looked for."""
_MOST_CALLS = 50


@dataclass(frozen=True)
class ToolCall:
    """``arguments`` are values of JSON."""

    name: str
    arguments: Mapping[str, Any]


def find_calls(response: str) -> list[ToolCall] | None:
    """The calls in ``<tool_call>`` tags; without a tag, those of the JSON in the response.

    None where there are none, or one of them cannot be read; an empty list for ``[]``.
    """
    end = response[-_LONGEST:]
    tagged = _TAGGED.findall(end)
    found = None if tagged else find_json(end)
    if not tagged and found is None:
        return None
    try:
        return read_calls([parse_json(text) for text in tagged] if found is None else found.value)
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


_DEEPEST = 50
_MOST_WORK = 100 * _LONGEST
"""Characters that are read again after an opening bracket turned out to open no JSON."""

_FENCED = re.compile(r"```[\w-]*[ \t]*\n(.*?)```", re.DOTALL)
_OPENING = re.compile(r"[{\[]")


@dataclass(frozen=True)
class Json:
    """A value that was found; it may be null."""

    value: Any


def parse_json(text: str) -> Any:
    """The value of a JSON text.

    ValueError for anything else, and for what JSON leaves open: NaN, numbers that are no finite
    float, a key that occurs twice, more than 50 levels.
    """
    value, end = _decode(text := text.strip(), 0)
    if end != len(text):
        raise ValueError("text after the JSON")
    return value


def find_json(response: str) -> Json | None:
    """The whole response if it is JSON; otherwise the last fenced block that is, or the last object
    or array."""
    end = response[-_LONGEST:]
    for text in (end, *reversed(_FENCED.findall(end))):
        try:
            return Json(parse_json(text))
        except ValueError:
            continue
    return _find_last(end)


def _find_last(text: str) -> Json | None:
    found, position, work = None, 0, 0
    while work < _MOST_WORK and (opening := _OPENING.search(text, position)):
        start = opening.start()
        try:
            value, position = _decode(text, start)
            found = Json(value)
        except ValueError as error:
            work += getattr(error, "pos", len(text)) - start
            position = start + 1
    return found


def _decode(text: str, start: int) -> tuple[Any, int]:
    try:
        value, end = _DECODER.raw_decode(text, start)
    except RecursionError:
        raise ValueError("too many levels") from None
    if _is_deep(value):
        raise ValueError("too many levels")
    return value, end


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            item
            for parent in level
            if isinstance(parent, dict | list)
            for item in (parent.values() if isinstance(parent, dict) else parent)
        ]
    return any(isinstance(item, dict | list) for item in level)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is no finite number")
    return value


def _integer(text: str) -> int:
    _finite(text)
    return int(text)


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    named = dict(pairs)
    if len(named) < len(pairs):
        raise ValueError("a key occurs twice")
    return named


_DECODER = json.JSONDecoder(
    parse_float=_finite,
    parse_int=_integer,
    parse_constant=_finite,
    object_pairs_hook=_unique,
)
