"""The answers of an audit: right ones, those of other rows, and hostile ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.reward.scorer import Rollout
from engine.tasks.task import Task

Write = Callable[[str, Mapping[str, Any]], str]
"""A response with a given final answer, from the answer and the row's ``extra_info``."""

STYLES = ("{}", "\\boxed{{}}", "#### {}", "<answer>{}</answer>", "The answer is {}")
"""Ways to write a final answer in place of ``{}``, of which a reward function may accept one."""

_ARABIC = str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")


@dataclass(frozen=True)
class Row:
    """A row of a training file. ``number`` counts from 0; ``other`` is another row's truth."""

    number: int
    values: Mapping[str, Any]
    other: str

    @property
    def truth(self) -> str:
        return truth_of(self.values)

    @property
    def extra(self) -> Mapping[str, Any]:
        return self.values.get("extra_info") or {}

    def rollout(self, text: str) -> Rollout:
        return Rollout.of_row(text, self.values)


def truth_of(values: Mapping[str, Any]) -> str:
    """The ground truth as text; empty for none."""
    truth = (values.get("reward_model") or {}).get("ground_truth")
    return "" if truth is None else str(truth)


def writer_of(style: str) -> Write:
    return lambda answer, extra: style.replace("{}", answer)


def writer_of_task(task: Task) -> Write:
    return lambda answer, extra: task.right_answer(answer, extra)


def _prompt(row: Row) -> str:
    messages: Sequence[Mapping[str, Any]] = row.values.get("prompt") or ()
    return "\n".join(str(message.get("content")) for message in messages)


CONSTANTS: Mapping[str, str] = {
    "an empty answer": "",
    "'0'": "0",
    "'True'": "True",
    "'False'": "False",
    "'zzz'": "zzz",
    "100,000 characters": "9" * 100_000,
    "an empty box": "\\boxed{}",
    "null of JSON": "null",
    "1,000 nested lists": "[" * 1000 + "]" * 1000,
    "NaN": "NaN",
    "control characters": "\x1b[2J\x1b]0;x\x07\x00\ud800",
}
"""Hostile answers that are the same for every row."""

OF_ROWS: Mapping[str, Callable[[Row, Write], str]] = {
    "the prompt": lambda row, write: _prompt(row),
    "two answers in one": lambda row, write: write(f"{row.truth} or {row.other}", row.extra),
    "digits of another script": lambda row, write: write(_in_arabic(row.truth), row.extra),
}
"""Hostile answers that depend on the row."""


def _in_arabic(truth: str) -> str:
    """The truth in Arabic digits; another number if it has no digits."""
    translated = truth.translate(_ARABIC)
    return translated if translated != truth else "٤٢"
