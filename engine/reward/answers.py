"""The rows of an audit, from all parts of a training file, and the answers that it tries: right
ones, those of other rows, and hostile ones."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError
from engine.base.parquet import pa, pq
from engine.reward.scorer import Rollout
from engine.tasks.task import Task, answers_of, is_empty

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
    def text(self) -> str:
        """The ground truth as the file has it."""
        return _text((self.values.get("reward_model") or {}).get("ground_truth"))

    @property
    def extra(self) -> Mapping[str, Any]:
        return self.values.get("extra_info") or {}

    @property
    def prompt(self) -> str:
        messages = self.values.get("prompt") or ()
        return "\n".join(str(message.get("content")) for message in messages)

    @cached_property
    def asked(self) -> str | None:
        """How the prompt asks for an answer, with ``{}`` in its place; None where it does not."""
        return asked_style(self.prompt)

    def rollout(self, text: str) -> Rollout:
        return Rollout.of_row(text, self.values)


def truth_of(values: Mapping[str, Any]) -> str:
    """The right answer, of several the first; the ground truth as text if it is none itself; empty
    for none."""
    truth = (values.get("reward_model") or {}).get("ground_truth")
    if is_empty(truth):
        return ""
    return next(iter(answers_of(truth)), "") or _text(truth)


def _text(truth: Any) -> str:
    return json.dumps(truth, default=str) if isinstance(truth, list | Mapping) else str(truth)


Write = Callable[[str, Row], str]
"""A response to a row with a given final answer."""

AS_ASKED, AS_STORED = "as the prompt asks", "as the JSON of the file"
_REASONED = "<think>\nIt follows.\n</think>\n"
STYLES = (
    *("{}", "\\boxed{{}}", "#### {}", "<answer>{}</answer>", "The answer is {}", "Answer: {}"),
    _REASONED + "<answer>{}</answer>",
)
"""Ways to write a final answer in place of ``{}``, of which a reward function may accept one."""

_TAG = re.compile(r"<((?:final[_ -]?)?(?:answer|ans|solution|result|output))>", re.IGNORECASE)
_REASONING = re.compile(r"<(think|thinking|reason|reasoning|thought)>", re.IGNORECASE)
_LABEL = re.compile(
    r"((?:the )?(?:final |correct )?(?:answer|solution|result)(?: is)?:"
    r"|(?<=[\"'`“])the (?:final )?answer is|the (?:final )?answer is(?= ?[\[<{$\\]))(.*)",
    re.IGNORECASE,
)
_JSON = re.compile(r"\{\s*\"((?:final_)?(?:answer|solution|result))\"\s*:")

_FIELD = re.compile(r"\b(\w+: ?)(?:<[\w -]+>|\[[\w -]+\]|\{[\w -]+\})(?!.*</)")
"""A name with a place to fill in, such as ``LABEL: <name>``."""


def asked_style(prompt: str) -> str | None:
    """The form in which a prompt asks for the final answer, with ``{}`` in its place: the marks of
    an answer that it shows. A mark at its very end is what the response continues."""
    box = "\\boxed{{}}" if "\\boxed" in prompt else None
    tags = _TAG.findall(prompt)
    if tags and f"</{tags[-1]}>" in prompt:
        style = f"<{tags[-1]}>{box or '{}'}</{tags[-1]}>"
        thought = _REASONING.search(prompt)
        return f"<{thought[1]}>\nIt follows.\n</{thought[1]}>\n{style}" if thought else style
    labels = list(_LABEL.finditer(prompt))
    if labels and not prompt[labels[-1].end(1) :].strip():
        return "{}"
    if labels and (box is None or "\\boxed" in labels[-1][2]):
        return f"{labels[-1][1]} {box or '{}'}"
    if box is None and (keys := _JSON.findall(prompt)):
        return f'{{"{keys[-1]}": "{{}}"}}'
    if box is None and len(fields := set(_FIELD.findall(prompt))) == 1:
        return f"{fields.pop()}{{}}"
    return box or ("#### {}" if "####" in prompt else None)


def writer_of(style: str) -> Write:
    if style == AS_ASKED:
        return lambda answer, row: (row.asked or "{}").replace("{}", answer)
    if style == AS_STORED:
        return lambda answer, row: row.text if answer == row.truth else json.dumps([answer])
    return lambda answer, row: style.replace("{}", answer)


def writer_of_task(task: Task) -> Write:
    return lambda answer, row: task.right_answer(answer, row.extra)


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
    "the prompt": lambda row, write: row.prompt,
    "two answers in one": lambda row, write: write(f"{row.truth} or {row.other}", row),
    # Another number if the truth has no digits.
    "digits of another script": lambda row, write: write(
        "٤٢" if row.truth.translate(_ARABIC) == row.truth else row.truth.translate(_ARABIC), row
    ),
}
"""Hostile answers that depend on the row."""


_COLUMNS = ("data_source", "prompt", "reward_model", "extra_info")


def read_audit_rows(path: Path, count: int) -> list[Row]:
    """At most ``count`` rows at equal distances; of another row's truth, the next different one.

    UsageError for what is no parquet file with the columns of GRPO.
    """
    try:
        file = pq.ParquetFile(path)
        names = file.schema_arrow.names
        if missing := [name for name in ("prompt", "reward_model") if name not in names]:
            raise UsageError(f"{path}: no column {', '.join(missing)} (docs/rewards.md)")
        step = max(1, math.ceil(file.metadata.num_rows / count))
        columns = [name for name in _COLUMNS if name in names]
        kept: list[tuple[int, dict[str, Any]]] = []
        start = 0
        for batch in file.iter_batches(columns=columns):
            chosen = range(-start % step, batch.num_rows, step)
            rows = batch.take(pa.array(chosen, pa.int64())).to_pylist()
            kept += zip((start + index for index in chosen), rows, strict=True)
            start += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    truths = [truth_of(values) for _, values in kept]
    rows = []
    for index, (number, values) in enumerate(kept):
        own, following = truths[index], (*truths[index + 1 :], *truths[:index])
        other = next((truth for truth in following if truth and truth != own), own)
        rows.append(Row(number, values, other))
    return rows
