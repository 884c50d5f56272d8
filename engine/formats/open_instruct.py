"""open-instruct's GRPO: a frame of metrics per step, drawn by rich.

A row is a category and ``name: number`` with ``|`` between them, and continues in the next row
where it is too long. Its other trainers print ``Step: 10, LR: 1e-05, Loss: 1.2``: see ``pairs``.
"""

from __future__ import annotations

import re
from pathlib import Path

from engine.formats.format import LineFormat, Parser, Sample
from engine.formats.names import LoggedNames, Numbering, whole_number
from engine.history.train_log import Step

_BEGIN, _SIDE, _END = (text.encode() for text in ("─ Metrics ─", "│", "╰─"))
_STEP = "training_step"
_OTHER = "other"
_ESCAPE = re.compile(rb"\x1b\[[\d;]{0,20}m")
_ROW = re.compile(rb"(?:  ?([A-Za-z][\w-]{0,40}) {2,}| {3,})(\S.{0,4000})")
_NAMES = {
    "scores": "reward",
    "objective/scores": "reward",
    "loss/policy_avg": "policy_loss",
    "val/sequence_lengths": "response_length/mean",
    "val/sequence_lengths_min": "response_length/min",
    "val/sequence_lengths_max": "response_length/max",
}


class OpenInstructFormat(LineFormat):
    key, name = "open-instruct", "console of open-instruct's GRPO"
    trainers = ("open-instruct",)
    reads = (
        "the frame `Metrics` of each step; its names with `val/`, which are of rollouts, begin "
        "with `rollouts/`"
    )
    is_console = True
    marks = ("─ Metrics ─".encode(), "│ ".encode(), "╰─".encode())
    step_pattern = rb"training_step: (\d+)\b"

    def matches(self, sample: Sample) -> bool:
        ends = sample.head + sample.tail
        return _BEGIN in ends and b"training_step:" in ends

    def parser(self, path: Path) -> Parser:
        return OpenInstruct()


class OpenInstruct(Parser):
    def __init__(self) -> None:
        self._names = LoggedNames()
        self._numbering = Numbering()
        self._rows: dict[str, str] | None = None
        """The text of each category in the frame that is open."""
        self._category = ""

    def feed(self, lines: list[bytes]) -> list[Step]:
        return [step for line in lines if (step := self._line(line)) is not None]

    def _line(self, line: bytes) -> Step | None:
        if _BEGIN in line:
            self._rows, self._category = {}, ""
        elif self._rows is not None and _END in line:
            rows, self._rows = self._rows, None
            return self._step(rows)
        elif self._rows is not None:
            self._add(line)
        return None

    def _add(self, line: bytes) -> None:
        inside = _ESCAPE.sub(b"", line).partition(_SIDE)[2].rpartition(_SIDE)[0]
        match = _ROW.match(inside)
        if match is None or self._rows is None or len(self._rows) > 200:
            return
        if match[1]:
            self._category = match[1].decode()
        before = self._rows.get(self._category, "")
        self._rows[self._category] = f"{before} {match[2].decode(errors='replace').strip()}"

    def _step(self, rows: dict[str, str]) -> Step | None:
        texts: dict[str, str] = {}
        for category, row in rows.items():
            for item in row.split("|"):
                name, _, text = item.strip().rpartition(":")
                path = name.strip() if category == _OTHER else f"{category}/{name.strip()}"
                texts[_rename(path)] = text.strip()
        step = whole_number(texts.pop(_STEP, None))
        return self._numbering.step(step, self._names.metrics(texts)) if step is not None else None


def _rename(name: str) -> str:
    if name.startswith("val/") and name not in _NAMES:
        return f"rollouts/{name.removeprefix('val/')}"
    return _NAMES.get(name, name)
