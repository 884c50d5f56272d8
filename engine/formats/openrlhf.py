"""OpenRLHF's console: a dict per global step of PPO, and the bars of its other trainers.

``Global step 3: {'policy_loss': 0.01, 'reward': 0.5}``, and
``Train step of epoch 0:  10%|# | 10/100 [00:05<00:45, 2.0it/s, gpt_loss=1.2, lr=9e-06]``, where
each epoch counts from 1 again.
"""

from __future__ import annotations

import re
from pathlib import Path

from engine.formats.format import About, LineFormat, Parser, Sample
from engine.formats.names import NUMBER, LoggedNames, Numbering
from engine.history.train_log import Step

_GLOBAL_STEP = re.compile(rb"Global step (\d{1,15}): \{")
_PAIR = re.compile(rb"'([\w./-]{1,100})': (?:np\.float\d\d\()?(" + NUMBER + rb")(?=[,)}])")
_BAR = re.compile(
    rb"Train step of epoch (\d{1,9}): *\d{1,3}%\|[^|\r\n]{0,200}\| *(\d{1,12})/(\d{1,12}) \["
    rb"[^\[\]]{0,60}?, ([\w./-]{1,80}=[^\]\r\n]{1,4000})\]"
)
_ITEM = re.compile(rb"([\w./-]{1,80})=([-+\d.eEnaif]{1,40})(?:,|$)")
_NAMES = {"gpt_loss": "loss", "actor_lr": "lr", "act_lr": "lr"}


class OpenRlhfFormat(LineFormat):
    key, name = "openrlhf", "console of OpenRLHF"
    trainers = ("OpenRLHF",)
    reads = (
        "`Global step 3: {'policy_loss': 0.01, ...}` of PPO; the bars `Train step of epoch 0: ...` "
        "of SFT, DPO and reward models, whose steps count through all epochs"
    )
    is_console, has_bars = True, True
    marks = (rb"Global step ", rb"Train step of epoch ")
    step_pattern = rb"Global step (\d+): \{"

    def matches(self, sample: Sample) -> bool:
        return any(
            _GLOBAL_STEP.search(line) or _BAR.search(line)
            for line in sample.lines()
            if b"lobal step " in line or b"Train step of epoch " in line
        )

    def complete_part(self, line: bytes) -> bytes:
        return line if line.rstrip().endswith((b"]", b"}")) else b""

    def parser(self, path: Path) -> Parser:
        return OpenRlhf()


class OpenRlhf(Parser):
    def __init__(self) -> None:
        self._names = LoggedNames()
        self._numbering = Numbering()
        self._about = About()

    def feed(self, lines: list[bytes]) -> list[Step]:
        return [step for line in lines if (step := self._step(line)) is not None]

    def about(self) -> About:
        return self._about

    def _step(self, line: bytes) -> Step | None:
        if (match := _GLOBAL_STEP.search(line)) is not None:
            return self._make(int(match[1]), _PAIR.findall(line, match.end() - 1))
        for match in _BAR.finditer(line):
            epoch, done, total = (int(match[index]) for index in (1, 2, 3))
            return self._make(epoch * total + done, _ITEM.findall(match[4].replace(b", ", b",")))
        return None

    def _make(self, step: int, pairs: list[tuple[bytes, bytes]]) -> Step | None:
        texts = {_NAMES.get(name, name): text for raw, text in pairs if (name := raw.decode())}
        values = self._names.metrics(texts)
        return self._numbering.step(step, values) if values else None
