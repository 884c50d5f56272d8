"""The lines of prime-rl's trainer and orchestrator, one per step.

``Step 3 | Time: 12.30s | Loss: 0.0012 | Grad. Norm: 0.1 | Peak Mem.: 20.1 GiB``. The trainer and
the orchestrator, which knows the rewards, each write a log of their own.
"""

from __future__ import annotations

import re
from pathlib import Path

from engine.formats.format import LineFormat, Parser, Sample
from engine.formats.names import NUMBER, LoggedNames, Numbering, spoken_name
from engine.history.train_log import Metrics, Step

_STEP = re.compile(rb"(?:^|[\s\]])Step (\d{1,15}) \| Time: ")
_FIELD = re.compile(
    rb"([A-Za-z][\w. /-]{0,60}): (" + NUMBER + rb")(?![\w.])|(Time): ([\d.]{1,40})s"
)
_NAMES = {
    "time": "step_time",
    "peak_mem": "perf/peak_memory_gib",
    "throughput": "perf/throughput",
    "mfu": "perf/mfu",
}


class PrimeRlFormat(LineFormat):
    key, name = "prime-rl", "console of prime-rl"
    trainers = ("prime-rl",)
    reads = "`Step 3 | Time: 12.30s | Reward: 0.5 | ...` of trainer and orchestrator"
    is_console = True
    marks = (rb"Step \d+ \| Time: ",)
    step_pattern = rb"Step (\d+) \| Time: "

    def matches(self, sample: Sample) -> bool:
        return any(_STEP.search(line) for line in sample.lines() if b"| Time: " in line)

    def parser(self, path: Path) -> Parser:
        return PrimeRl()


class PrimeRl(Parser):
    def __init__(self) -> None:
        self._names = LoggedNames()
        self._numbering = Numbering()

    def feed(self, lines: list[bytes]) -> list[Step]:
        return [step for line in lines if (step := self._step(line)) is not None]

    def _step(self, line: bytes) -> Step | None:
        match = _STEP.search(line)
        if match is None:
            return None
        values: Metrics = {}
        for part in line[match.end(1) :].split(b" | "):
            field = _FIELD.match(part.strip())
            if field is not None:
                name = spoken_name(field[1] or field[3])
                values[_NAMES.get(name, name)] = float(field[2] or field[4])
        named = self._names.metrics(values)
        return self._numbering.step(int(match[1]), named) if named else None
