"""Rows for a user's own reward function: a prompt, what it is scored against, and other values."""

from __future__ import annotations

import json
from typing import Any

from engine.tasks.rubrics import Message
from engine.tasks.task import Column, Example, RecordError, RecordFormat, Values

_ROLES = ("system", "user", "assistant")


def _read(values: Values) -> Example:
    extra = values.get("extra")
    if isinstance(extra, str):
        try:
            extra = json.loads(extra)
        except ValueError as error:
            raise RecordError(f"extra is not JSON: {error}") from error
    if not isinstance(extra, dict | None):
        raise RecordError("extra is not a mapping")
    prompt = _parsed(values["prompt"], list)
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    if not isinstance(messages, list) or not messages:
        raise RecordError("the prompt is neither text nor a list of messages")
    truth = values.get("truth")
    model = _parsed(truth, dict)  # verl's ``reward_model``, which some files hold as JSON
    if isinstance(model, dict) and "ground_truth" in model:
        truth = model["ground_truth"]
    return Example(
        tuple(map(_message, messages)),
        _text(truth),
        {"extra": _text(extra or {})},
        source=str(values.get("source") or ""),
    )


def _parsed(value: Any, kind: type) -> Any:
    """The value of this kind whose JSON a text is; anything else as it is."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("[", "{"):
        return value
    try:
        parsed = json.loads(value)
    except ValueError:
        return value
    return parsed if isinstance(parsed, kind) else value


def _message(value: Any) -> Message:
    if not isinstance(value, dict) or value.get("role") not in _ROLES:
        raise RecordError(f"a message of the prompt has no role of {', '.join(_ROLES)}")
    content = value.get("content")
    if not isinstance(content, str) or not content.strip():
        raise RecordError(f"the {value['role']} message of the prompt has no text")
    return {"role": value["role"], "content": content}


def _text(value: Any) -> str:
    """Text as it is, no value as the empty text, and anything else as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, default=str)


ROWS = RecordFormat(
    name="rows",
    summary="prompts for your own reward function",
    columns={
        "prompt": Column(("prompt", "question", "problem", "input", "query", "instruction")),
        "truth": Column(
            ("ground_truth", "answer", "solution", "reward_model"),
            is_required=False,
            if_missing="no record has a truth: the reward gets an empty ground_truth",
        ),
        "extra": Column(("extra", "extra_info"), is_required=False),
        "source": Column(("data_source",), is_required=False),
    },
    read=_read,
    extra=("extra",),
)
