"""NeMo-RL's console: a heading per step, ``=== Step 3/100 ===``, and lists of numbers below it.

``• Loss: 0.0123`` stands below ``Training Results:``, below ``Validation Results:`` or below
``Timing:``, where ``• policy_training: 4.50s (36.2%)`` is the time of a phase.
"""

from __future__ import annotations

import re
from pathlib import Path

from engine.formats.format import About, LineFormat, Parser, Sample
from engine.formats.names import NUMBER, LoggedNames, Numbering, spoken_name
from engine.history.train_log import Metrics, Step

_STEP = re.compile(rb"={10,} Step (\d{1,15})/(\d{1,15}) ={10,}")
_HEADING = re.compile(rb"(Training|Validation) Results:|(Timing):|(Performance Metrics):")
_ITEM = re.compile("• ([A-Za-z][^:]{0,80}): ".encode() + rb"(" + NUMBER + rb")(?![\d.])")
_SECTIONS = {b"Training": "", b"Validation": "val/", b"Timing": "timing_s/"}
_OTHER = "perf/"
_NAMES = {
    "avg_reward": "reward",
    "mean_generation_length": "response_length/mean",
    "timing_s/total_step_time": "step_time",
    "timing_s/generation": "timing_s/gen",
    "timing_s/policy_training": "timing_s/update_actor",
    "val/accuracy": "val/reward",
}


class NemoRlFormat(LineFormat):
    key, name = "nemo-rl", "console of NeMo-RL"
    trainers = ("NeMo-RL",)
    reads = (
        "the lists below `=== Step 3/100 ===`: results of training and validation, times of the "
        "phases, and the number of steps"
    )
    is_console = True
    marks = (rb"===== Step ", "• ".encode(), rb"Training Res", rb"Validation Res", rb"Timing:",
             rb"Performance Met")  # fmt: skip
    step_pattern = rb"== Step (\d+)/\d+ =="

    def matches(self, sample: Sample) -> bool:
        lines = sample.lines()
        return any(_STEP.search(line) for line in lines) and any(
            b"Training Results:" in line for line in lines
        )

    def parser(self, path: Path) -> Parser:
        return NemoRl()


class NemoRl(Parser):
    """A step is said again, with more numbers, when a later part of its lists comes."""

    def __init__(self) -> None:
        self._names = LoggedNames()
        self._numbering = Numbering()
        self._step: int | None = None
        self._values: Metrics = {}
        self._section: str | None = None
        self._about = About()

    def feed(self, lines: list[bytes]) -> list[Step]:
        steps, is_new = [], False
        for line in lines:
            if (match := _STEP.search(line)) is not None:
                if is_new:
                    steps.append(self._make())
                self._step, self._values, is_new = int(match[1]), {}, False
                self._section, self._about = None, About(total_steps=int(match[2]))
            elif (match := _HEADING.search(line)) is not None:
                title = match[1] or match[2] or match[3]
                self._section = _SECTIONS.get(title, _OTHER)
            else:
                is_new = self._read(line) or is_new
        return [*steps, self._make()] if is_new else steps

    def about(self) -> About:
        return self._about

    def _read(self, line: bytes) -> bool:
        """Whether the line has a number of the present step."""
        match = _ITEM.search(line)
        if match is None or self._step is None or self._section is None:
            return False
        name = self._section + spoken_name(match[1])
        self._values[_NAMES.get(name, name)] = float(match[2])
        return True

    def _make(self) -> Step:
        return self._numbering.step(self._step or 0, self._names.metrics(self._values))
