"""JSON lines in a log: what they say stands in a few of their fields, the rest is data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson

from engine.doctor.text.line import Line

_FIELDS = """
detail details err error event exc_info exc_text exception log message msg reason stack stack_trace
stacktrace text traceback
"""
_SAYING = frozenset(_FIELDS.split())
_LEVELS = ("level", "levelname", "severity", "log_level", "lvl")
_DEEPEST = 4


def spoken(line: Line) -> list[Line]:
    """The line itself, or what a JSON record says, line by line; nothing for a record of data."""
    if not line.text.startswith('{"'):
        return [line]
    try:
        record = orjson.loads(line.text)
    except orjson.JSONDecodeError:
        return [line]
    level = next((str(record[key]).upper() for key in _LEVELS if key in record), line.level)
    texts = (text for said in _said(record, False, 0) for text in said.splitlines())
    return [replace(line, level=level, text=text) for text in texts if text.strip()]


def _said(value: Any, speaks: bool, depth: int) -> Iterator[str]:
    if isinstance(value, str) and speaks:
        yield value
    elif isinstance(value, dict) and depth < _DEEPEST:
        for key, inner in value.items():
            yield from _said(inner, speaks or key.lower() in _SAYING, depth + 1)
    elif isinstance(value, list) and speaks and depth < _DEEPEST:
        for inner in value:
            yield from _said(inner, speaks, depth + 1)
