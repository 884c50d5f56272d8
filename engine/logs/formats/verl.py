"""verl: its console and its file logger.

A console's steps read ``step:7 - actor/pg_loss:0.1 - ...``, behind prefixes and bars of any kind.
The judge's ``STEP_TIMING`` lines of GRubrics between them belong to the step that verl logged
last: a step's summary is printed when the next one's rewards begin. A console without such steps
(``trainer.logger`` without ``console``) has only progress bars; then these are the steps. The file
logger writes ``{"step": 7, "data": {"actor/pg_loss": 0.1, ...}}``; null is NaN.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace

import orjson

from engine.base import jsonl
from engine.logs.formats.format import About, LineFormat, Parser, Sample
from engine.logs.formats.json_lines import JsonLines, Record, records
from engine.logs.formats.names import (
    Numbering,
    all_bounded,
    bounded,
    clean_name,
    with_rewards,
    with_scores,
    with_validation,
)
from engine.logs.formats.step_timing import MARK, Timing, parse
from engine.run.history import metrics
from engine.run.history.train_log import Metrics, Step, verl_metrics

_STEP = re.compile(rb"(?:^|[\s\r\])>:|]|\x1b\[[0-9;]*m)step:(\d{1,15}) - (?=[^\s:]+:\S)")
# ``name:np.float64(0.5)`` and ``name:tensor(0.5, device='cuda:0')``
_WRAPPED = re.compile(rb":(?:(?:np|numpy|torch)\.)?[a-z]\w{0,20}\(([^(),]{1,40})[^()]{0,80}\)")
_NUMPY = (b":np.float64(", b":np.float32(", b":np.int64(", b":np.int32(")
_CLOSED = (b":nan", b":inf", b")")
"""Ends of values to which no digit can be added."""
_COLORS, _COLOR_REACH = 4, 12
_REPEATED_REACH = 100
_TOTAL = re.compile(rb"(?:Total training steps|'total_training_steps'): ([1-9]\d{0,14})")
_BAR = re.compile(rb"Training Progress:[^|\r\n]{0,20}\|[^|\r\n]{0,200}\| *\d{1,15}/(\d{1,15}) \[")
_MODEL = re.compile(rb"'path': '([^'\r\n]{1,400})'")
_TOTALS = (b"otal_training_steps", b"Total training")
_PATH = b"'path': '"
_BARS = (b"Training Progress:", b"Epoch ")
_TIMED_BAR = re.compile(
    rb"(?:Training Progress|Epoch (\d{1,9})/(\d{1,9})): *\d{1,3}%\|[^|\r\n]{0,200}\|"
    rb" *(\d{1,12})/(\d{1,12}) \[((?:\d{1,6}:)?\d\d:\d\d)<((?:\d{1,6}:)?\d\d:\d\d), *"
    rb"(\d{1,12}(?:\.\d{1,12})?)(it/s|s/it)"
)
"""``Training Progress:  10%|#  | 1000/10000 [05:23<48:27,  3.10it/s]`` of GRPO counts the steps of
the run, ``Epoch 2/4:  12%|#  | 5/42 [00:31<03:52,  6.28s/it]`` of SFT those of an epoch."""
_BAR_HEADING = re.compile(rb"Training Progress: *\d{1,3}%\|")
_BEGINNING = (b"verl.trainer", b"(TaskRunner", b"Training Progress:", b"actor_rollout_ref")


class VerlConsole(Parser):
    """Parses a verl console, GRPO or SFT."""

    def __init__(self) -> None:
        self._numbering = Numbering()
        self._layout = _Layout()
        self._about = About()
        self._timing = Timing()
        self._last: Step | None = None
        self._bar_step: int | None = None

    def feed(self, lines: list[bytes]) -> list[Step]:
        steps = []
        for line in lines:
            if b"step:" in line and (match := _STEP.search(line)):
                step = self._step(int(match[1]), line[match.end() :])
            elif MARK in line:
                step = self._timed(line)
            else:
                self._learn(line)
                step = self._counted(line)
            if step is not None:
                steps.append(step)
        return steps

    def about(self) -> About:
        return self._about

    def _step(self, number: int, text: bytes) -> Step | None:
        values = with_scores(self._layout.read(text))
        if not values:
            return None
        if b"val-" in text or b"val/" in text:
            with_validation(values)
        step = self._numbering.step(number, values)
        if self._last is None or (step.step, step.attempt) != (self._last.step, self._last.attempt):
            self._timing = Timing()
        self._last = step
        return step

    def _counted(self, line: bytes) -> Step | None:
        """The step that a bar has come to; None once verl has logged a step itself."""
        if self._last is not None or not any(mark in line for mark in _BARS):
            return None
        bar = find_progress_bar(line)
        if bar is None or bar.step == self._bar_step:  # tqdm draws a bar several times.
            return None
        self._bar_step = bar.step
        if self._about.total_steps is None:
            self._about = replace(self._about, total_steps=bar.total_steps)
        return self._numbering.step(bar.step, bar.metrics())

    def _timed(self, line: bytes) -> Step | None:
        """The judge's numbers of the step that was logged last; None before the first step."""
        if self._last is None or (timing := parse(line)) is None:
            return None
        self._timing.add(timing)
        return replace(self._last, metrics=self._timing.metrics())

    def _learn(self, line: bytes) -> None:
        if b"Training Progress:" in line or any(mark in line for mark in _TOTALS):
            if total := _BAR.search(line) or _TOTAL.search(line):
                self._about = replace(self._about, total_steps=int(total[1]))
        elif self._about.model is None and _PATH in line and (path := _MODEL.search(line)):
            model = path[1].decode("utf-8", errors="replace")
            self._about = replace(self._about, model=model)


class VerlConsoleFormat(LineFormat):
    key, name = "verl", "verl console log"
    trainers = ("verl",)
    reads = (
        "`step:7 - actor/pg_loss:0.1 - ...` after Ray's prefixes, colors, timestamps and "
        "progress bars; `nan`, `np.float64(0.5)`, `tensor(0.5, device=...)`; the number of steps "
        "and the model, if verl prints them; the judge's `STEP_TIMING` lines in between. If there "
        "are only progress bars: step, percent, times and rate (`progress/...`)"
    )
    is_console, has_bars = True, True
    covers = frozenset({"step-timing"})
    step_pattern = rb"step:(?<![\w/]step:)(\d+) - "
    marks = (
        rb"step:\d",
        MARK,
        *_BARS,
        b"otal_training_steps",
        b"Total training",
        _PATH,
    )
    parser_class = VerlConsole

    def matches(self, sample: Sample) -> bool:
        return any(_STEP.search(line) or has_progress_bar(line) for line in sample.lines())

    def may_become(self, sample: Sample) -> bool:
        return any(mark in sample.head for mark in _BEGINNING)

    def complete_part(self, line: bytes) -> bytes:
        """Leave the last value out: digits of it may be missing."""
        if b"step:" not in line or line.endswith(_CLOSED):
            return line
        return line[: line.rfind(b" - ") + 1]


class _Layout:
    """The metrics of the last line, in order: the next line mostly has the same.

    This is the hot path: a log may have sixty thousand lines with ninety metrics each.
    """

    def __init__(self) -> None:
        self._labels: list[bytes] = []
        self._cuts: list[int] = []
        self._names: list[str] = []

    def read(self, text: bytes) -> Metrics:
        """The numbers in ``name:number - ...``. NaN is None; other values are left out."""
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
        values: Metrics = {}
        self._labels = [part[: part.rfind(b":") + 1] for part in parts]
        self._cuts = [len(label) for label in self._labels]
        self._names = [clean_name(label[:-1]) for label in self._labels]
        for name, cut, part in zip(self._names, self._cuts, parts, strict=True):
            with suppress(ValueError):
                values[name] = bounded(float(part[cut:]))
        return values


def _trimmed(text: bytes) -> bytes:
    """Without the colors that end at a line's end, and Ray's ``[repeated 2x across cluster]``."""
    text = text.rstrip()
    if (start := text.rfind(b"[repeated ", -_REPEATED_REACH)) > 0:
        text = text[:start].rstrip()
    for _ in range(_COLORS):
        if not text.endswith(b"m") or (start := text.rfind(b"\x1b[", -_COLOR_REACH)) < 0:
            break
        text = text[:start].rstrip()
    return text


def _plain(text: bytes) -> bytes:
    """Without the type that numpy prints around a number."""
    text = text.rstrip()
    if b":np." in text:
        for wrapping in _NUMPY:
            text = text.replace(wrapping, b":")
        text = text.removesuffix(b")").replace(b") - ", b" - ")
    return text


@dataclass(frozen=True)
class ProgressBar:
    """The counts are in steps of the whole run; of SFT, of all its epochs, although
    ``training.max_steps`` may end it within one. ``elapsed_s`` is what tqdm shows: of SFT, the
    seconds of the epoch."""

    step: int
    total_steps: int
    elapsed_s: int
    remaining_s: float
    steps_per_s: float

    def metrics(self) -> Metrics:
        return {
            metrics.PROGRESS_PERCENT: 100 * self.step / self.total_steps,
            metrics.PROGRESS_TOTAL: self.total_steps,
            metrics.PROGRESS_ELAPSED: self.elapsed_s,
            metrics.PROGRESS_REMAINING: self.remaining_s,
            metrics.PROGRESS_RATE: self.steps_per_s,
        }


def find_progress_bar(line: bytes) -> ProgressBar | None:
    """Return the last bar of a line that has done a step and knows its rate."""
    found = None
    for match in _TIMED_BAR.finditer(line):
        found = _read_bar(match) or found
    return found


def has_progress_bar(line: bytes) -> bool:
    """Whether a line has a bar of GRPO. Other programs, too, count in ``Epoch 1/10``."""
    return _BAR_HEADING.search(line) is not None and find_progress_bar(line) is not None


def _read_bar(match: re.Match[bytes]) -> ProgressBar | None:
    epoch, epochs, done, total = (int(match[group] or 1) for group in range(1, 5))
    rate = float(match[7])
    if not (0 < done <= total and epoch <= epochs and rate > 0):
        return None
    steps_per_s = rate if match[8] == b"it/s" else 1 / rate
    return ProgressBar(
        step=(epoch - 1) * total + done,
        total_steps=epochs * total,
        elapsed_s=_seconds(match[5]),
        remaining_s=_seconds(match[6]) + (epochs - epoch) * total / steps_per_s,
        steps_per_s=steps_per_s,
    )


def _seconds(clock: bytes) -> int:
    """``48:27`` or ``1:02:03``."""
    seconds = 0
    for part in clock.split(b":"):
        seconds = 60 * seconds + int(part)
    return seconds


class VerlJsonl(JsonLines):
    def values(self, record: Record) -> Metrics | None:
        data = record.get("data")
        return with_rewards(verl_metrics(data)) if isinstance(data, dict) else None


class VerlJsonlFormat(LineFormat):
    key, name = "verl-jsonl", "verl file logger"
    trainers, file_names = ("verl",), ("*.jsonl",)
    reads = '`{"step": 7, "data": {...}}`; a null is a NaN'
    parser_class = VerlJsonl

    def matches(self, sample: Sample) -> bool:
        return any(
            isinstance(record.get("data"), dict) and jsonl.integer(record.get("step")) is not None
            for record in records(sample)
        )
