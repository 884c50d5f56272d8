"""Lines such as ``step=3 loss=0.5``, as scripts, torchtune's logger and open-instruct print them.

The number of steps may follow: ``Step 3/100 | loss: 0.5, lr: 1e-5``. A file is of this format where
a line has the step and a loss or a reward.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from engine.formats.format import About, LineFormat, Parser, Sample
from engine.formats.names import NUMBER, LoggedNames, Numbering
from engine.history.train_log import Step

_STEP = re.compile(
    rb"(?:^|[\s\[(|,;>])(?:global_)?[Ss]tep(?:[=:] ?| )(\d{1,15})(?:/(\d{1,15}))?(?=[\s\],;:|)])"
)
_PAIR = re.compile(
    rb"(?<![\w./-])([A-Za-z_][\w./-]{0,80})(?:=|: ?)"
    rb"(" + NUMBER + rb")(?=[\s,;|\])]|$)",
    re.IGNORECASE,
)
_USUAL = frozenset({"loss", "lr", "reward", "kl", "entropy", "grad_norm"})
_TELLING = re.compile(rb"loss|reward", re.IGNORECASE)


class PairsFormat(LineFormat):
    key, name = "pairs", "lines of step=3 loss=0.5"
    trainers = ("torchtune", "open-instruct")
    reads = (
        "`step=3 loss=0.5 lr=1e-5`, `Step 3/100 | loss: 0.5`: a step, then names with numbers, one "
        "of them a loss or a reward"
    )
    is_console = True
    is_general = True
    step_pattern = rb"step=(?<![\w/]step=)(\d+)[ ,|]"
    marks = (rb"step[=: ]", rb"Step[=: ]")

    def matches(self, sample: Sample) -> bool:
        return any(_is_step(line) for line in sample.lines() if b"tep" in line)

    def parser(self, path: Path) -> Parser:
        return Pairs()


def _is_step(line: bytes) -> bool:
    match = _STEP.search(line)
    return match is not None and any(
        _TELLING.search(name) for name, _ in _PAIR.findall(line, match.end())
    )


class Pairs(Parser):
    def __init__(self) -> None:
        self._names = LoggedNames()
        self._numbering = Numbering()
        self._about = About()

    def feed(self, lines: list[bytes]) -> list[Step]:
        return [step for line in lines if (step := self._step(line)) is not None]

    def about(self) -> About:
        return self._about

    def _step(self, line: bytes) -> Step | None:
        match = _STEP.search(line)
        if match is None:
            return None
        pairs: dict[str, float] = {}
        for raw, number in _PAIR.findall(line, match.end()):
            name = raw.decode()
            # ``Loss: 1.5, Aux Loss: 0.1``: the first one of a name has no word before it.
            with suppress(ValueError):
                pairs.setdefault(name.lower() if name.lower() in _USUAL else name, float(number))
        if not pairs:
            return None
        if match[2]:
            self._about = About(total_steps=int(match[2]))
        return self._numbering.step(int(match[1]), self._names.metrics(pairs))
