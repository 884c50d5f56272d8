"""How much of one JSON value another one has right."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Any

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
