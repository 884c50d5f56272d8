"""Signs that training goes on: without them an error would be taken for the end of the run."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

_BAR = re.compile(rb"(\d+)/(\d+) \[[\d:]+<[\d:?]+, +[\d.]+(?:s/it|it/s)")
_VERL = re.compile(rb"\bstep:(\d+) - ")
_DICT = re.compile(rb"\{'loss': '?[\d.e-]+'?, ")
_COUNT = re.compile(
    rb"(?:\b(?:step|iter(?:ation)?|episode)s?\b[^\w\n\r]{1,8}(?P<step>\d+)"
    rb"|\bepoch[^\w\n\r]{1,3}\d+[^\w\n\r]{1,9}(?P<batch>\d+) ?/"
    rb"|\bepoch[^\w\n\r]{1,3}(?P<epoch>\d+)(?![^\n\r]*\b(?:step|iter)))"
    rb"[^\n\r]{0,200}?(?:loss|reward|score|ppl|\blr\b)",
    re.IGNORECASE,
)
"""A counter with a number of training behind it, as any program may print it."""
_REACH = 16 * 1024
"""Bytes before a place in which counters are looked for."""
_DONE = (b"'train_runtime'", b"pplication startup complete", b"`Trainer.fit` stopped: `max")
"""Said by programs that have come through what they were started for."""
_START = re.compile(
    r"^\W{0,9}(?:re-?queued|resum(?:ing|ed) (?:training )?from|resuming training"
    r"|restart(?:ed|ing)\b(?! (?:the |a )?(?:worker|actor|process|replica|engine|server)))"
    r"|\*{3,} running training|^loading checkpoint shards: 100%"
    r"|^\+ .{0,200}?\b(?:python3?|torchrun|accelerate|deepspeed|srun)\b",
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
    *(b"final validation metrics", b"'train_runtime'", b"`trainer.fit` stopped"),
    *(b"progress: 100%|", b"train: 100%|", b"training: 100%|"),
    *(b"training complete", b"training finished", b"training done"),
    *(b"training is ", b"training was ", b"training has "),
)
"""Texts, in lower case, of lines that tell where a run begins and where its training is over."""
_PASSED = re.compile(rb"=+ \d+ passed(?:, \d+ (?:skipped|warnings?|deselected))* in [\d.]+s")


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a run had come at a byte of its log: the last number of each kind that was seen."""

    offset: int = -1
    bar: tuple[int, int] | None = None
    step: int | None = None
    dicts: int = 0
    counts: tuple[int, int] | None = None
    """The last two different numbers of a counter that a program prints with its loss."""
    done: int = 0
    starts: int = 0
    """How often a program began, or began again."""
    over: tuple[object, ...] | None = None
    """How far the run had come when it said that training is over."""

    @property
    def is_over(self) -> bool:
        """Whether training had come to its end, and none has begun since."""
        return self.over == self.trained

    @property
    def trained(self) -> tuple[object, ...]:
        """How far training had come, in whatever it counts."""
        return (self.step, self.dicts, self.counts, self.starts)

    def at_its_end(self) -> Mark:
        """With the word of the program that training is over here."""
        return replace(self, over=self.trained)


class Progress:
    """Reads blocks of whole lines in order; remembers only the last of each sign."""

    def __init__(self) -> None:
        self.mark = Mark()

    def read(self, block: bytes, offset: int) -> None:
        self.mark = advanced(self.mark, block, offset)

    def hear(self, text: str, here: Callable[[], Mark]) -> None:
        """Take in what a line says of beginning and end; ``here`` makes the mark above it."""
        if _START.search(text):
            self.mark = replace(self.mark, starts=self.mark.starts + 1)
        elif _OVER.search(text):
            self.mark = replace(self.mark, over=here().at_its_end().over)

    def began_since(self, then: Mark) -> bool:
        """Whether a program began after ``then``."""
        return self.mark.starts > then.starts

    def went_on_since(self, then: Mark) -> bool:
        """Whether the run got further after ``then``; a bar drawn again is no progress."""
        now = self.mark
        if then.bar and now.bar and now.bar[1] == then.bar[1] and now.bar[0] > then.bar[0] + 1:
            return True
        if now.step is not None and (now.step > then.step + 1 if then.step is not None else False):
            return True
        if now.done > then.done or now.dicts > then.dicts + 1:
            return True
        return _counted_on(then.counts, now.counts)


def advanced(mark: Mark, block: bytes, offset: int) -> Mark:
    bar, step, dicts = mark.bar, mark.step, mark.dicts
    found = _last(_BAR, block, (b"it/s", b"s/it")) if b"<" in block else None
    if found:
        bar = (int(found[1]), int(found[2]))
    found = _last(_VERL, block, (b"step:",))
    if found:
        step = int(found[1])
    if b"{'loss': " in block:
        dicts += len(_DICT.findall(block))
    counts = _counts(mark.counts, block)
    return replace(
        mark,
        offset=offset + len(block),
        bar=bar,
        step=step,
        dicts=dicts,
        counts=counts,
        done=mark.done + _done(block),
    )


def _counted_on(then: tuple[int, int] | None, now: tuple[int, int] | None) -> bool:
    """Two further numbers: one may have been on its way already."""
    if now is None or now == then or not 0 <= now[0] < now[1]:
        return False
    return then is None or now[0] > then[1]


def _counts(known: tuple[int, int] | None, block: bytes) -> tuple[int, int] | None:
    for found in _COUNT.finditer(block, max(0, len(block) - _REACH)):
        number = int(found["step"] or found["batch"] or found["epoch"])
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
