"""Questions about a text, with one or several accepted answers, as in SQuAD and HotpotQA."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from engine.tasks.task import Column, Example, RecordError, Task, Values

UNANSWERABLE = "unanswerable"
_INSTRUCTION = "Answer with a few words between <answer> and </answer>."
_OR_NONE = f'If the text does not answer the question, the answer is "{UNANSWERABLE}".'


def _read(values: Values) -> Example:
    context, given = _texts(values.get("context"), "context"), values.get("answers")
    question = _text(values.get("question"), "question")
    # SQuAD 2.0 has questions without an answer. All of its prompts say so, not only theirs.
    may_lack = isinstance(given, Mapping)
    accepted = _texts(given.get("text") if isinstance(given, Mapping) else given, "answer")
    if not accepted and not may_lack:
        raise RecordError("the answer is empty")
    accepted = accepted or [UNANSWERABLE]
    instruction = f"{_INSTRUCTION} {_OR_NONE}" if may_lack else _INSTRUCTION
    # The question comes last: of a prompt that is too long, the beginning is cut off.
    content = "\n\n".join([*context, question, instruction])
    return Example(
        ({"role": "user", "content": content},),
        accepted[0],
        {"accepted": json.dumps(accepted, ensure_ascii=False)},
        accepted=tuple(accepted[1:]),
    )


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise RecordError(f"the {name} is {'empty' if value in (None, '') else 'not text'}")
    return value.strip()


def _texts(value: Any, name: str) -> list[str]:
    """One text or several, each once."""
    listed = value if isinstance(value, list) else [] if value is None else [value]
    return list(dict.fromkeys(_text(item, name) for item in listed))


READING = Task(
    name="reading",
    summary="questions about a text, with several accepted answers: exact match and F1",
    scorer="engine.tasks.reading.score:compute_score",
    columns={
        "question": Column(("question", "query", "prompt", "input", "instruction")),
        "answers": Column(("answers", "answer", "ground_truth", "target", "output")),
        "context": Column(("context", "passage", "paragraph", "document"), is_required=False),
    },
    read=_read,
    extra=("accepted",),
    right_answer=lambda truth, _: f"<answer>{truth}</answer>",
    is_rate=lambda arguments: not arguments.get("partial_credit"),
    metrics=("f1",),
)
