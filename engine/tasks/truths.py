"""The right answers that a ground truth holds, in the forms of public data sets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_LONGEST = 200
"""Characters of a truth that a response may consist of; a longer one is a text to compare with."""


def answers_of(truth: Any) -> tuple[str, ...]:
    """The answers of a text, of a list, of a mapping with one list or value, or of their JSON.

    Empty for no truth, and for what is no answer itself, such as tests, a program or a mapping of
    several values.
    """
    if isinstance(truth, str):
        text, value = truth.strip(), _parse(truth)
        if value is not None:
            return answers_of(value)
        return (text,) if text and "\n" not in text and len(text) <= _LONGEST else ()
    if isinstance(truth, Mapping):
        filled = [value for value in truth.values() if value is not None]
        return answers_of(filled[0]) if len(filled) == 1 else ()
    if isinstance(truth, list):
        listed = [answers_of(item) for item in truth if not isinstance(item, list | Mapping)]
        is_plain = len(listed) == len(truth) and all(len(answers) == 1 for answers in listed)
        return tuple(answers[0] for answers in listed) if is_plain else ()
    return () if truth is None else (str(truth),)


def is_empty(truth: Any) -> bool:
    """Whether no answer can match: nothing, blank text, and an empty list or mapping."""
    if isinstance(truth, str):
        value = _parse(truth)
        return not truth.strip() if value is None else is_empty(value)
    if isinstance(truth, list | Mapping):
        return all(map(is_empty, truth.values() if isinstance(truth, Mapping) else truth))
    return truth is None


def _parse(text: str) -> Any:
    """The list or mapping of which this is the JSON; None for other text."""
    if not text.lstrip().startswith(("[", "{")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
