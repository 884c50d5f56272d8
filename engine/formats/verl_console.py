"""A verl console: ``step:7 - actor/pg_loss:0.1 - ...``, by whatever prefixes and bars it is led.

The judge's ``STEP_TIMING`` lines of GRubrics between them belong to the step that verl logged
last: a step's summary is printed when the next one's rewards begin.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace

import orjson

from engine.formats.layout import NUMBER, Layout
from engine.formats.names import (
    all_bounded,
    bounded,
    clean_name,
    with_scores,
    with_validation,
)
from engine.formats.numbering import Numbering
from engine.formats.source import LONGEST_LINE, About, Sample
from engine.formats.step_timing import MARK, Timing, parse
from engine.history.train_log import Metrics, Step

_STEP = re.compile(rb"(?:^|[\s\r\])>:|]|\x1b\[[0-9;]*m)step:(\d{1,15}) - (?=[^\s:]+:\S)")
# ``name:np.float64(0.5)`` and ``name:tensor(0.5, device='cuda:0')``
_WRAPPED = re.compile(rb":(?:(?:np|numpy|torch)\.)?[a-z]\w{0,20}\(([^(),]{1,40})[^()]{0,80}\)")
_NUMPY = (b":np.float64(", b":np.float32(", b":np.int64(", b":np.int32(")
_SLOT = re.compile(
    rb"(?P<before>(?P<name>.+):(?P<wrapping>(?:(?:np|numpy|torch)\.)?[a-z]\w{0,20}\()?)"
    + NUMBER
    + rb"(?P<after>(?(wrapping)\)))"
)
_COLOURS, _COLOUR_REACH = 4, 12
_REPEATED_REACH = 100
_TOTAL = re.compile(rb"(?:Total training steps|'total_training_steps'): ([1-9]\d{0,14})")
_BAR = re.compile(rb"Training Progress:[^|\r\n]{0,20}\|[^|\r\n]{0,200}\| *\d{1,15}/(\d{1,15}) \[")
_MODEL = re.compile(rb"'path': '([^'\r\n]{1,400})'")
_BEGINNING = (b"verl.trainer", b"(TaskRunner", b"Training Progress:", b"actor_rollout_ref")


def is_it(sample: Sample) -> bool:
    return any(_STEP.search(line) for line in sample.lines())


def may_become(sample: Sample) -> bool:
    """Whether a log without any step looks like one that verl has begun to write."""
    return any(mark in sample.head for mark in _BEGINNING)


def layout_of(line: bytes) -> Layout | None:
    """The layout of a step's line; None unless all of it are plain numbers of training."""
    match = _STEP.search(line)
    if match is None or b"val-" in line:
        return None
    lead, text = match[0].partition(b"step:")[0], line[match.end() :].rstrip(b"\r\n")
    said = _trimmed(text)
    parts = [_SLOT.fullmatch(part) for part in said.split(b" - ")]
    if None in parts:
        return None
    names = tuple(clean_name(part["name"]) for part in parts if part)
    slots = (
        re.escape(part["before"]) + NUMBER + re.escape(part["after"]) for part in parts if part
    )
    before = rb"(?<=%bstep:)" % re.escape(lead) if lead else rb"(?<![^\r\n]step:)"
    pattern = b"".join(
        (
            *(b"step:", before, rb"(\d{1,15}+) - ", b" - ".join(slots)),
            *(re.escape(text[len(said) :]), rb"(?=[\r\n]|\Z)"),
        )
    )
    return Layout(names, re.compile(pattern))


class VerlConsole:
    """``Parser`` of a verl console, GRPO or SFT."""

    def __init__(self) -> None:
        self._numbering = Numbering()
        self._layout = _Layout()
        self._about = About()
        self._timing = Timing()
        self._last: Step | None = None

    def feed(self, lines: list[bytes]) -> list[Step]:
        found = []
        for line in lines:
            line = line[-LONGEST_LINE:]
            if b"step:" in line and (match := _STEP.search(line)):
                step = self._step(int(match[1]), line[match.end() :])
            elif MARK in line:
                step = self._timed(line)
            else:
                self._learn(line)
                continue
            if step is not None:
                found.append(step)
        return found

    def about(self) -> About:
        return self._about

    def _step(self, number: int, text: bytes) -> Step | None:
        values = with_scores(self._layout.read(text))
        if not values:
            return None
        if b"val-" in text:
            with_validation(values)
        step = self._numbering.step(number, values)
        if self._last is None or (step.step, step.attempt) != (self._last.step, self._last.attempt):
            self._timing = Timing()
        self._last = step
        return step

    def _timed(self, line: bytes) -> Step | None:
        """The judge's numbers of the step that was logged last; before the first there is none."""
        if self._last is None or (said := parse(line)) is None:
            return None
        self._timing.add(said)
        return replace(self._last, metrics=self._timing.metrics())

    def _learn(self, line: bytes) -> None:
        if (
            b"Training Progress:" in line
            or b"otal_training_steps" in line
            or b"Total training" in line
        ):
            if total := _BAR.search(line) or _TOTAL.search(line):
                self._about = replace(self._about, total_steps=int(total[1]))
        elif self._about.model is None and b"'path': '" in line and (path := _MODEL.search(line)):
            model = path[1].decode("utf-8", errors="replace")
            self._about = replace(self._about, model=model)


class _Layout:
    """The metrics of the last line, in order: the next one mostly has the same.

    A log of sixty thousand lines with ninety metrics each is read in this path, so it is quick.
    """

    def __init__(self) -> None:
        self._labels: list[bytes] = []
        self._cuts: list[int] = []
        self._names: list[str] = []

    def read(self, text: bytes) -> Metrics:
        """``name:number - ...``; what is no number is left out, NaN is None."""
        parts = _plain(text).split(b" - ")
        if len(parts) == len(self._cuts):
            pairs = list(zip(parts, self._cuts, strict=True))
            if [part[:cut] for part, cut in pairs] == self._labels:
                with suppress(ValueError):
                    # The numbers of a line are a JSON list, unless one is NaN.
                    values = orjson.loads(b"[%b]" % b",".join([part[cut:] for part, cut in pairs]))
                    if len(values) == len(parts) and all_bounded(values):
                        return dict(zip(self._names, values, strict=True))
        return self._learn(_WRAPPED.sub(rb":\1", _trimmed(text)).split(b" - "))

    def _learn(self, parts: list[bytes]) -> Metrics:
        found: Metrics = {}
        self._labels = [part[: part.rfind(b":") + 1] for part in parts]
        self._cuts = [len(label) for label in self._labels]
        self._names = [clean_name(label[:-1]) for label in self._labels]
        for name, cut, part in zip(self._names, self._cuts, parts, strict=True):
            with suppress(ValueError):
                found[name] = bounded(float(part[cut:]))
        return found


def _trimmed(text: bytes) -> bytes:
    """Without the colours that end at a line's end, and Ray's ``[repeated 2x across cluster]``."""
    text = text.rstrip()
    if (place := text.rfind(b"[repeated ", -_REPEATED_REACH)) > 0:
        text = text[:place].rstrip()
    for _ in range(_COLOURS):
        if not text.endswith(b"m") or (place := text.rfind(b"\x1b[", -_COLOUR_REACH)) < 0:
            break
        text = text[:place].rstrip()
    return text


def _plain(text: bytes) -> bytes:
    """numpy's usual numbers without their wrapping."""
    text = text.rstrip()
    if b":np." in text:
        for wrapping in _NUMPY:
            text = text.replace(wrapping, b":")
        text = text.removesuffix(b")").replace(b") - ", b" - ")
    return text
