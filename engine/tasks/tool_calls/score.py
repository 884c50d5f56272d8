"""Score answers that are tool calls or JSON, under the contract of verl's ``compute_score``."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from engine.tasks.rubrics import without_thoughts
from engine.tasks.tool_calls.calls import ToolCall, find_calls, find_json, parse_json, read_calls
from engine.tasks.tool_calls.schemas import find_problem

TOLERANCE = 1e-6
Extra = Mapping[str, Any] | None


def score_calls(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Extra = None,
    *,
    tolerance: float = TOLERANCE,
    partial_credit: float = 0.0,
) -> dict[str, float]:
    """1 for the right calls, in any order; otherwise ``partial_credit`` times ``arguments``.

    Beside the score: ``parsed``, whether the response holds calls; ``valid``, whether each of them
    satisfies the schema of a tool that exists; ``tools``, the share of calls of the right tools;
    ``arguments``, the share of right arguments of these calls. ``tolerance`` is relative to numbers
    above 1.
    """
    truth = read_calls(_parse_truth(ground_truth))
    calls = find_calls(without_thoughts(solution_str))
    if calls is None:
        return {"score": 0.0, "parsed": 0.0, "valid": 0.0, "tools": 0.0, "arguments": 0.0}
    tools, arguments = _compare_calls(calls, truth, tolerance)
    score = 1.0 if arguments == 1 else partial_credit * arguments
    valid = are_valid(calls, (extra_info or {}).get("tools"))
    return {
        "score": score,
        "parsed": 1.0,
        "valid": float(valid),
        "tools": tools,
        "arguments": arguments,
    }


def score_json(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Extra = None,
    *,
    tolerance: float = TOLERANCE,
    partial_credit: float = 0.0,
) -> dict[str, float]:
    """1 for JSON that satisfies the row's schema and equals the ground truth; otherwise
    ``partial_credit`` times ``fields``.

    Beside the score: ``parsed``, whether the response holds JSON; ``valid``, whether that satisfies
    the schema; ``fields``, the share of right fields. ``tolerance`` is relative to numbers above 1.
    """
    truth = _parse_truth(ground_truth)
    found = find_json(without_thoughts(solution_str))
    if found is None:
        return {"score": 0.0, "parsed": 0.0, "valid": 0.0, "fields": 0.0}
    schema = (extra_info or {}).get("schema")
    valid = not schema or find_problem(schema, found.value) is None
    fields = share_right(found.value, truth, tolerance)
    score = 1.0 if valid and fields == 1 else partial_credit * fields
    return {"score": score, "parsed": 1.0, "valid": float(valid), "fields": fields}


def are_valid(calls: Sequence[ToolCall], tools: str | None) -> bool:
    """Whether every call names a tool and satisfies the schema of its arguments. ``tools``: these
    schemas as texts, by the names of the tools, in JSON; without it every call is valid."""
    if not tools:
        return True
    schemas = _parse_truth(tools)
    return all(
        call.name in schemas and find_problem(schemas[call.name], dict(call.arguments)) is None
        for call in calls
    )


def _compare_calls(
    calls: Sequence[ToolCall], truth: Sequence[ToolCall], tolerance: float
) -> tuple[float, float]:
    """The shares of calls with the right tool and of right arguments, both 1 for the same calls.

    Each call is compared with the one of the same tool that it is most like.
    """
    if not calls and not truth:
        return 1.0, 1.0
    likeness = [
        (share_right(dict(call.arguments), dict(wanted.arguments), tolerance), index, other)
        for index, call in enumerate(calls)
        for other, wanted in enumerate(truth)
        if call.name == wanted.name
    ]
    used, paired, shares = set[int](), set[int](), list[float]()
    for share, index, other in sorted(likeness, key=lambda pair: -pair[0]):
        if index not in used and other not in paired:
            used.add(index)
            paired.add(other)
            shares.append(share)
    most = max(len(calls), len(truth))
    return len(shares) / most, sum(shares) / most


@lru_cache(maxsize=4096)
def _parse_truth(text: str) -> Any:
    """Every response of a group is compared with the same truth, and most rows list the same
    tools."""
    return parse_json(text)


Path = tuple[str | int, ...]
"""Keys and indices from the outermost value inwards."""


def share_right(value: Any, truth: Any, tolerance: float) -> float:
    """The share of fields that are equal, of those of the value that has more: 1 only for equal
    values. Keys have no order, items of lists do."""
    fields, wanted = dict(_fields(value)), dict(_fields(truth))
    right = sum(
        path in fields and are_equal(fields[path], field, tolerance)
        for path, field in wanted.items()
    )
    return right / max(len(fields), len(wanted))


def are_equal(field: Any, truth: Any, tolerance: float) -> bool:
    """Whether numbers, texts, booleans, nulls or empty values are equal.

    Numbers may differ by ``tolerance``, relative to those above 1; 3 and 3.0 are equal, 1 and true
    are not. Texts may differ in how Unicode composes them and in white space around them.
    """
    if isinstance(field, str) and isinstance(truth, str):
        return _normalize(field) == _normalize(truth)
    if _is_number(field) and _is_number(truth):
        return bool(abs(field - truth) <= tolerance * max(1, abs(truth)))
    return type(field) is type(truth) and bool(field == truth)


def _fields(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every number, text, boolean, null and empty value by its path."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _fields(item, (*path, key))
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from _fields(item, (*path, index))
    else:
        yield path, value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _normalize(text: str) -> str:
    return unicodedata.normalize("NFC", text).strip()
