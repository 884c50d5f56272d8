"""slime's console: a dict per update and one per rollout, each in one line.

``step 3: {'train/loss': 0.01, ...}`` counts updates; ``rollout 1: {...}``, ``perf 1: {...}`` and
``eval 1: {...}`` count rollouts, of which each is trained in one update or more.
"""

from __future__ import annotations

import re
from pathlib import Path

from engine.formats.format import LineFormat, Parser, Sample
from engine.formats.hf import find_pairs
from engine.formats.names import LoggedNames, Numbering
from engine.history.train_log import Step

_LINE = re.compile(
    rb"(?<!Global )(?<![\w/])(step|rollout|perf|eval|passrate|multi_turn) (\d{1,15}): "
    rb"(\{'[^{}]{1,20000}\})"
)


class SlimeFormat(LineFormat):
    key, name = "slime", "console of slime"
    trainers = ("slime",)
    reads = (
        "`step 3: {'train/loss': ...}` of the trainer, and `rollout 1: {...}`, `perf`, `eval` of "
        "the rollouts that the step trains on"
    )
    is_console = True
    covers = frozenset({"hf"})
    marks = tuple(
        rb"%b \d{1,15}: \{'" % word
        for word in (b"step", b"rollout", b"perf", b"eval", b"passrate", b"multi_turn")
    )
    step_pattern = rb"step (\d+): \{'"

    def matches(self, sample: Sample) -> bool:
        return any(
            match is not None and match[1] in (b"step", b"rollout")
            for match in map(_LINE.search, sample.lines())
        )

    def parser(self, path: Path) -> Parser:
        return Slime()


class Slime(Parser):
    def __init__(self) -> None:
        self._names = LoggedNames()
        self._numbering = Numbering()
        self._rollout = 0
        self._updates = 1
        """Of each rollout, as far as they are seen."""

    def feed(self, lines: list[bytes]) -> list[Step]:
        return [step for line in lines if (step := self._line(line)) is not None]

    def _line(self, line: bytes) -> Step | None:
        match = _LINE.search(line)
        if match is None:
            return None
        number = int(match[2])
        if match[1] == b"step":
            self._updates = max(self._updates, -(-(number + 1) // (self._rollout + 1)))
        else:
            self._rollout, number = number, number * self._updates
        pairs = find_pairs(match[3])
        pairs.pop("train/step", None)
        values = self._names.metrics(pairs)
        return self._numbering.step(number, values) if values else None
