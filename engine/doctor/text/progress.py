"""Signs that training goes on: without them an error would be taken for the end of the run."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise

from engine.formats.detect import formats

_BAR = re.compile(rb"(\d+)/(\d+) \[[\d:]+<[\d:?]+, +[\d.]+(?:s/it|it/s)")
_COUNT = re.compile(
    rb"(?:\b(?:step|iter(?:ation)?|episode)s?\b[^\w\n\r]{1,8}(\d+)"
    rb"|\bepoch[^\w\n\r]{1,3}\d+[^\w\n\r]{1,9}(\d+) ?/"
    rb"|\bepoch[^\w\n\r]{1,3}(\d+)(?![^\n\r]*\b(?:step|iter)))"
    rb"[^\n\r]{0,200}?(?:loss|reward|score|ppl|\blr\b)",
    re.IGNORECASE,
)
"""A counter with a number of training behind it, as any program may print it."""
_LAYOUTS = (
    (b"[batch=", re.compile(rb"\[batch=(\d+)/\d+\]:")),  # Composer
    (b"== Step ", re.compile(rb"={5,} Step (\d+)/\d+ ={5,}")),  # NeMo-RL
    (b" iteration ", re.compile(rb" iteration +(\d+)/ *\d+ \|")),  # Megatron
    (
        b"loss",
        re.compile(rb"^ {0,9}(\d+) \| {1,4}(?:\w+[ /]){0,2}loss[ :=]{1,3}-?\d", re.MULTILINE),
    ),
)
"""Counters of trainers without a log format that are apart from their numbers or have no name, each
with a text of such lines. Those of log formats are their ``step_pattern``."""
_REACH = 16 * 1024
"""Bytes before a place in which counters are looked for."""
_LONGEST_NUMBER = 15
"""Digits; a longer number is not a step, and slow to parse."""
_FROM_THE_START = 3
"""So many numbers in a row, from the first one on, are those of a training that begins."""
_MOST_STARTS = 64
"""Of which the marks are kept."""
_SHARDS = re.compile(r"loading", re.IGNORECASE)
"""A start goes on there, but engines load a model beside a training, too."""
_DONE = (b"'train_runtime'", b"pplication startup complete", b"`Trainer.fit` stopped: `max")
"""Said by programs that have come through what they were started for."""
_START = re.compile(
    r"^\W{0,9}(?:re-?queued|resum(?:ing|ed) (?:training )?from|resuming training"
    r"|restart(?:ed|ing)\b(?! (?:the |a )?(?:worker|actor|process|replica|engine|server)))"
    r"|\*{3,} running training|^loading checkpoint shards: 100%"
    r"|(?:^\W{0,9}|-- )started a local ray instance"
    r"|^\+ (?!.*\beval).{0,200}?\b(?:python3?|torchrun|accelerate|deepspeed|srun)\b",
    re.IGNORECASE,
)
_OVER = re.compile(
    r"^\W{0,9}final validation metrics|'train_runtime'|`Trainer\.fit` stopped: `max"
    r"|^\W{0,9}train\w*(?: progress)?: 100%\|[^|]*\| *(\d+)/\1 \["
    r"|^(?!.*\b(?:epoch|phase|stage|step|round)\b)\W{0,9}training (?:is |was |has )?"
    r"(?:complete|completed|finished|done)\b",
    re.IGNORECASE,
)
SIGNS = (
    *(b"requeue", b"re-queue", b"restart", b"resuming", b"resumed from", b"running training"),
    *(b"checkpoint shards: 100%", b"+ srun", b"+ torchrun", b"+ python", b"+ accelerate"),
    *(b"+ deepspeed", b"started a local ray instance"),
    *(b"final validation metrics", b"'train_runtime'", b"`trainer.fit` stopped"),
    *(b"progress: 100%|", b"train: 100%|", b"training: 100%|"),
    *(b"training complete", b"training finished", b"training done"),
    *(b"training is ", b"training was ", b"training has "),
)
"""Texts, in lower case, of lines that tell where a run begins and where its training is over."""
_PASSED = re.compile(rb"=+ \d+ passed(?:, \d+ (?:skipped|warnings?|deselected))* in [\d.]+s")


@cache
def step_counters() -> tuple[re.Pattern[bytes], ...]:
    """The step patterns of all log formats, those of other packages included."""
    patterns = (log_format.step_pattern for log_format in formats())
    return tuple(re.compile(pattern) for pattern in patterns if pattern)


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of one log format that have been seen."""

    last: int | None = None
    """Number of the last step; None where the format prints none."""
    row: int = 0
    """Numbers in a row, since the step fell back to the first one."""
    again: int = 0
    """How often steps were counted from the first one again."""
    unnumbered: int = 0

    @property
    def trained(self) -> tuple[int | None, int]:
        return self.last, self.unnumbered

    def after(self, counter: re.Pattern[bytes], block: bytes) -> Steps:
        if not counter.groups:
            count = sum(1 for _ in counter.finditer(block))
            return replace(self, unnumbered=self.unnumbered + count) if count else self
        last, row, again = self.last, self.row, self.again
        for digits in counter.findall(block):
            if not digits.isdigit() or len(digits) > _LONGEST_NUMBER:
                continue
            number = int(digits)
            if number == last:
                continue
            if last is not None and number <= 1 and number < last - 1:
                row = 1
            else:
                row = row + 1 if row and number == (last or 0) + 1 else 0
            again += row == _FROM_THE_START
            last = number
        return Steps(last, row, again)

    def went_on_since(self, then: Steps) -> bool:
        """Whether two further steps are complete: one may have been on its way already."""
        if self.last is not None and then.last is not None and self.last > then.last + 1:
            return True
        return self.again > then.again or self.unnumbered > then.unnumbered + 1


def _no_steps() -> tuple[Steps, ...]:
    return (Steps(),) * len(step_counters())


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a run had come at a byte of its log: the last number of each kind that was seen."""

    offset: int = -1
    bar: tuple[int, int] | None = None
    steps: tuple[Steps, ...] = field(default_factory=_no_steps)
    """For each of ``step_counters()``."""
    counts: tuple[int, int] | None = None
    """The last two different numbers of a counter that a program prints with its loss."""
    done: int = 0
    starts: int = 0
    """How often a program began, or began again."""
    over: tuple[object, ...] | None = None
    """How far the run had come when it said that training is over."""

    @property
    def step(self) -> int | None:
        """The last step of the first log format that numbers them."""
        return next((steps.last for steps in self.steps if steps.last is not None), None)

    @property
    def is_over(self) -> bool:
        """Whether training had come to its end, and none has begun since."""
        return self.over == self.trained

    @property
    def trained(self) -> tuple[object, ...]:
        """How far training had come, in whatever it counts."""
        return (self._steps_trained, self.counts, self.starts)

    @property
    def _steps_trained(self) -> tuple[object, ...]:
        return tuple(steps.trained for steps in self.steps)

    def has_trained_since(self, then: Mark) -> bool:
        """Whether training had come further than ``then``. Counters are looked for in ``_REACH``
        bytes only: one that is out of reach is no progress."""
        counted = self.counts is not None and self.counts != then.counts
        return counted or (self._steps_trained, self.starts) != (then._steps_trained, then.starts)

    @property
    def has_trained(self) -> bool:
        return self.counts is not None or any(steps != Steps() for steps in self.steps)

    @property
    def has_come_through(self) -> bool:
        """Whether training had come to its end; something else may have been started since."""
        return self.over is not None and self.over[:-1] == self.trained[:-1]

    def at_its_end(self) -> Mark:
        """With the word of the program that training is over here."""
        return replace(self, over=self.trained)


class Progress:
    """Reads blocks of whole lines in order; remembers only the last of each sign."""

    def __init__(self) -> None:
        self.mark = Mark()
        self._at_starts: tuple[Mark, ...] = ()

    def read_block(self, block: bytes, offset: int) -> None:
        self.mark = advanced(self.mark, block, offset)

    def read_line(self, text: str, mark_above: Callable[[], Mark]) -> None:
        """Read a line that may say that training begins or is over.

        ``mark_above`` returns the mark of the lines above it.
        """
        if _START.search(text):
            if not _SHARDS.match(text):
                self._at_starts = (*self._at_starts[-_MOST_STARTS:], mark_above())
            self.mark = replace(self.mark, starts=self.mark.starts + 1)
        elif _OVER.search(text):
            self.mark = replace(self.mark, over=mark_above().at_its_end().over)

    def began_since(self, then: Mark) -> bool:
        """Whether a program began after ``then``."""
        return self.mark.starts > then.starts

    def went_on_since(self, then: Mark) -> bool:
        """Whether the run got further after ``then``; a bar drawn again is no progress."""
        now = self.mark
        if then.bar and now.bar and now.bar[1] == then.bar[1] and now.bar[0] > then.bar[0] + 1:
            return True
        if now.done > then.done:
            return True
        if any(new.went_on_since(old) for new, old in zip(now.steps, then.steps, strict=True)):
            return True
        return _counted_on(then.counts, now.counts) or self._trained_again_since(then)

    def _trained_again_since(self, then: Mark) -> bool:
        """Whether a program that began after ``then`` has trained, whatever it counts from."""
        later = [mark for mark in self._at_starts if mark.starts >= then.starts]
        return any(_trained(*ends, then.bar) for ends in pairwise((*later, self.mark)))


def advanced(mark: Mark, block: bytes, offset: int) -> Mark:
    bar = mark.bar
    match = _last(_BAR, block, (b"it/s", b"s/it")) if b"<" in block else None
    if match:
        bar = (int(match[1]), int(match[2]))
    counters = zip(mark.steps, step_counters(), strict=True)
    return replace(
        mark,
        offset=offset + len(block),
        bar=bar,
        steps=tuple(steps.after(counter, block) for steps, counter in counters),
        counts=_counts(mark.counts, block),
        done=mark.done + _done(block),
    )


def _trained(start: Mark, end: Mark, bar: tuple[int, int] | None) -> bool:
    """Whether a training was counted between two marks, maybe by a ``bar`` that was further."""
    for before, after in zip(start.steps, end.steps, strict=True):
        if after.last not in (None, 0, 1, before.last):
            return True
    if (
        end.bar
        and bar
        and end.bar != start.bar
        and end.bar[1] == bar[1]
        and 1 < end.bar[0] < bar[0]
    ):
        return True
    first, second = end.counts or (-1, -1)
    return end.counts != start.counts and 0 <= first < second


def _counted_on(then: tuple[int, int] | None, now: tuple[int, int] | None) -> bool:
    """Two further numbers: one may have been on its way already."""
    if now is None or now == then or not 0 <= now[0] < now[1]:
        return False
    return then is None or now[0] > then[1]


def _counts(known: tuple[int, int] | None, block: bytes) -> tuple[int, int] | None:
    start = max(0, len(block) - _REACH)
    numbers = [int(one[one.lastindex or 0]) for one in _COUNT.finditer(block, start)]
    for sign, layout in _LAYOUTS:
        if block.find(sign, start) >= 0:
            numbers += map(int, layout.findall(block, start))
    for number in numbers:
        if known is None or number != known[1]:
            known = (known[1] if known else -1, number)
    return known


def _done(block: bytes) -> int:
    """How often the block says that all is well."""
    said = sum(block.count(text) for text in _DONE)
    return said + len(_PASSED.findall(block)) if b" passed" in block else said


def _last(
    pattern: re.Pattern[bytes], block: bytes, ends: tuple[bytes, ...]
) -> re.Match[bytes] | None:
    """The last match, found from the block's end: bars redraw themselves thousands of times."""
    at = max(block.rfind(end) for end in ends)
    while at >= 0:
        start = max(block.rfind(b"\n", 0, at), block.rfind(b"\r", 0, at)) + 1
        matches = list(pattern.finditer(block, start, at + 400))
        if matches:
            return matches[-1]
        at = max(block.rfind(end, 0, start) for end in ends)
    return None
