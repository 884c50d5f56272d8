"""Signs that training goes on: without them an error would be taken for the end of the run."""

from __future__ import annotations

import re
from dataclasses import dataclass

_BAR = re.compile(rb"(\d+)/(\d+) \[[\d:]+<[\d:?]+, +[\d.]+(?:s/it|it/s)")
_VERL = re.compile(rb"\bstep:(\d+) - ")
_DICT = re.compile(rb"\{'loss': '?[\d.e-]+'?, ")


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a run had come at a byte of its log: the last number of each kind that was seen."""

    offset: int = -1
    bar: tuple[int, int] | None = None
    step: int | None = None
    dicts: int = 0


class Progress:
    """Reads blocks of whole lines in order; remembers only the last of each sign."""

    def __init__(self) -> None:
        self.mark = Mark()

    def read(self, block: bytes, offset: int) -> None:
        self.mark = advanced(self.mark, block, offset)

    def went_on_since(self, then: Mark) -> bool:
        """Whether the run got further after ``then``; a bar drawn again is no progress."""
        now = self.mark
        if then.bar and now.bar and now.bar[1] == then.bar[1] and now.bar[0] > then.bar[0] + 1:
            return True
        if now.step is not None and (now.step > then.step + 1 if then.step is not None else False):
            return True
        return now.dicts > then.dicts + 1


def advanced(mark: Mark, block: bytes, offset: int) -> Mark:
    bar, step, dicts = mark.bar, mark.step, mark.dicts
    found = _last(_BAR, block, (b"it/s", b"s/it"))
    if found:
        bar = (int(found[1]), int(found[2]))
    found = _last(_VERL, block, (b"step:",))
    if found:
        step = int(found[1])
    if b"{'loss': " in block:
        dicts += len(_DICT.findall(block))
    return Mark(offset + len(block), bar, step, dicts)


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
