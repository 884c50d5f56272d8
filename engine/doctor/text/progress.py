"""Finds signs of progress in a log: training that continues has survived the errors above."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise

from engine.logs.formats.detect import formats

_BAR = re.compile(rb"(\d+)/(\d+) \[[\d:]+<[\d:?]+, +[\d.]+(?:s/it|it/s)")
_COUNT = re.compile(
    rb"(?:\b(?:step|iter(?:ation)?|episode)s?\b[^\w\n\r]{1,8}(\d+)"
    rb"|\bepoch[^\w\n\r]{1,3}\d+[^\w\n\r]{1,9}(\d+) ?/"
    rb"|\bepoch[^\w\n\r]{1,3}(\d+)(?![^\n\r]*\b(?:step|iter)))"
    rb"[^\n\r]{0,200}?(?:loss|reward|score|ppl|\blr\b)",
    re.IGNORECASE,
)
"""A counter followed by a metric of training, in the layout of any program."""
_LAYOUTS = (
    (b"[batch=", re.compile(rb"\[batch=(\d+)/\d+\]:")),  # Composer
    (b" iteration ", re.compile(rb" iteration +(\d+)/ *\d+ \|")),  # Megatron
    (
        b"loss",
        re.compile(rb"^ {0,9}(\d+) \| {1,4}(?:\w+[ /]){0,2}loss[ :=]{1,3}-?\d", re.MULTILINE),
    ),
)
"""Counters of trainers without a log format that stand far from their metrics or have no name, each
with a text that its lines contain. Log formats declare theirs as ``step_pattern``."""
_REACH = 16 * 1024
"""Bytes above a line in which counters are searched."""
_LONGEST_NUMBER = 15
"""Digits; a longer number is not a step, and slow to parse."""
_FROM_THE_START = 3
"""Consecutive numbers, from the first step on, that show a new start of training."""
_MOST_STARTS = 64
"""Starts whose marks are stored."""
_SHARDS = re.compile(r"loading", re.IGNORECASE)
"""Part of a start-up, but inference engines also load models during training."""
_DONE = (b"'train_runtime'", b"pplication startup complete", b"`Trainer.fit` stopped: `max")
"""Printed by programs that have completed their task."""
_SERVED = (b"Decode batch", b"generation throughput: ", b"Processed prompts: 100%")
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
"""Texts, in lower case, of lines that mark the start of a run or the end of its training."""
_PASSED = re.compile(rb"=+ \d+ passed(?:, \d+ (?:skipped|warnings?|deselected))* in [\d.]+s")


@cache
def step_counters() -> tuple[re.Pattern[bytes], ...]:
    """Return the step patterns of all log formats, including those of plugins."""
    patterns = (log_format.step_pattern for log_format in formats())
    return tuple(re.compile(pattern) for pattern in patterns if pattern)


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of one log format that have been seen."""

    last: int | None = None
    """Number of the last step; None where the format prints none."""
    row: int = 0
    """Consecutive numbers since the step fell back to the first one."""
    again: int = 0
    """How often the count restarted at the first step."""
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
        """Whether two more steps are complete: the first may have been in progress already."""
        if self.last is not None and then.last is not None and self.last > then.last + 1:
            return True
        return self.again > then.again or self.unnumbered > then.unnumbered + 1


@dataclass(frozen=True, slots=True)
class Mark:
    """Progress of a run at a byte of its log: the last value of each counter."""

    offset: int = -1
    bar: tuple[int, int] | None = None
    steps: tuple[Steps, ...] = field(default_factory=lambda: (Steps(),) * len(step_counters()))
    """For each of ``step_counters()``."""
    counts: tuple[int, int] | None = None
    """The last two different values of a counter that a program prints with its loss."""
    done: int = 0
    has_served: bool = False
    """Whether an inference engine has generated."""
    starts: int = 0
    """How often a program was started or restarted."""
    over: tuple[object, ...] | None = None
    """``trained`` when the program last reported the end of training."""

    @property
    def step(self) -> int | None:
        """The last step of the first log format that numbers them."""
        return next((steps.last for steps in self.steps if steps.last is not None), None)

    @property
    def is_over(self) -> bool:
        """Whether training is over, and nothing was started since."""
        return self.over == self.trained

    @property
    def trained(self) -> tuple[object, ...]:
        """All counters of training, and the number of starts."""
        return (self._steps_trained, self.counts, self.starts)

    @property
    def _steps_trained(self) -> tuple[object, ...]:
        return tuple(steps.trained for steps in self.steps)

    def has_trained_since(self, then: Mark) -> bool:
        """Whether a counter changed since ``then``. Counters are searched in ``_REACH`` bytes only:
        one that is further away does not count as progress."""
        counted = self.counts is not None and self.counts != then.counts
        return counted or (self._steps_trained, self.starts) != (then._steps_trained, then.starts)

    @property
    def has_trained(self) -> bool:
        return self.counts is not None or any(steps != Steps() for steps in self.steps)

    @property
    def is_running(self) -> bool:
        """Whether training or an inference engine has come past its start."""
        return self.has_trained or self.has_served

    @property
    def has_come_through(self) -> bool:
        """Whether training is over; another program may have been started since."""
        return self.over is not None and self.over[:-1] == self.trained[:-1]


class Progress:
    """Reads blocks of whole lines in order; stores only the last of each sign."""

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
            self.mark = replace(self.mark, over=mark_above().trained)

    def began_since(self, then: Mark) -> bool:
        """Whether a program was started after ``then``."""
        return self.mark.starts > then.starts

    def went_on_since(self, then: Mark) -> bool:
        """Whether the run progressed after ``then``; a redrawn bar is not progress."""
        now = self.mark
        if then.bar and now.bar and now.bar[1] == then.bar[1] and now.bar[0] > then.bar[0] + 1:
            return True
        if now.done > then.done:
            return True
        if any(new.went_on_since(old) for new, old in zip(now.steps, then.steps, strict=True)):
            return True
        if _counted_on(then.counts, now.counts):
            return True
        # A program that was restarted after ``then`` may count from any number.
        starts = [mark for mark in self._at_starts if mark.starts >= then.starts]
        return any(_trained_between(*marks, then.bar) for marks in pairwise((*starts, now)))


def advanced(mark: Mark, block: bytes, offset: int) -> Mark:
    """Return the mark at the end of a block that follows ``mark``."""
    bar = mark.bar
    match = _last_match(_BAR, block, (b"it/s", b"s/it")) if b"<" in block else None
    if match:
        bar = (int(match[1]), int(match[2]))
    counters = zip(mark.steps, step_counters(), strict=True)
    return replace(
        mark,
        offset=offset + len(block),
        bar=bar,
        steps=tuple(steps.after(counter, block) for steps, counter in counters),
        counts=_last_counts(mark.counts, block),
        done=mark.done + _count_completions(block),
        has_served=mark.has_served or any(text in block for text in _SERVED),
    )


def _trained_between(start: Mark, end: Mark, bar: tuple[int, int] | None) -> bool:
    """Whether steps were counted between two marks, possibly by an earlier ``bar`` redone."""
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
    """Whether there are two more values: the first may have been in progress already."""
    if now is None or now == then or not 0 <= now[0] < now[1]:
        return False
    return then is None or now[0] > then[1]


def _last_counts(counts: tuple[int, int] | None, block: bytes) -> tuple[int, int] | None:
    """Return the last two different numbers of ``counts`` and the end of the block."""
    start = max(0, len(block) - _REACH)
    numbers = [int(match[match.lastindex or 0]) for match in _COUNT.finditer(block, start)]
    for sign, layout in _LAYOUTS:
        if block.find(sign, start) >= 0:
            numbers += map(int, layout.findall(block, start))
    for number in numbers:
        if counts is None or number != counts[1]:
            counts = (counts[1] if counts else -1, number)
    return counts


def _count_completions(block: bytes) -> int:
    """Return how often the block reports success."""
    count = sum(block.count(text) for text in _DONE)
    return count + len(_PASSED.findall(block)) if b" passed" in block else count


def _last_match(
    pattern: re.Pattern[bytes], block: bytes, ends: tuple[bytes, ...]
) -> re.Match[bytes] | None:
    """Search the last match from the block's end: bars are redrawn thousands of times."""
    index = max(block.rfind(end) for end in ends)
    while index >= 0:
        start = max(block.rfind(b"\n", 0, index), block.rfind(b"\r", 0, index)) + 1
        matches = list(pattern.finditer(block, start, index + 400))
        if matches:
            return matches[-1]
        index = max(block.rfind(end, 0, start) for end in ends)
    return None
