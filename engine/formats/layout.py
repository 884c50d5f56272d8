"""Lines that say the same words again and again, read many at a time.

What such lines share becomes a regular expression with a group for every number. It splits a
block of a log into rows of numbers and the text between them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import orjson

from engine.history.batch import LARGEST, Floats

NUMBER = rb"([-+.\dena]++)"
"""Holds every JSON number and ``nan``; what else it takes in is refused when numbers are read."""


@dataclass(frozen=True, eq=False)
class Rows:
    """``values`` has a row for each line; ``gaps`` are the texts around the rows, one more."""

    gaps: list[bytes]
    values: Floats


@dataclass(frozen=True, eq=False)
class Layout:
    """The names of a line's numbers, and the pattern of lines that differ in them alone."""

    names: tuple[str, ...]
    pattern: re.Pattern[bytes]

    def rows(self, block: bytes) -> Rows | None:
        """Every number of such lines as ``float`` reads it; None where one is written oddly.

        NaN stands for numbers too large for a metric too.
        """
        parts = self.pattern.split(block)
        width = self.pattern.groups + 1
        gaps = parts[::width]
        del parts[::width]
        try:
            numbers = orjson.loads(b"[%b]" % b",".join(parts).replace(b"nan", b"null"))
            values = np.array(numbers, float).reshape(-1, width - 1)
        except (orjson.JSONDecodeError, OverflowError):
            return None
        values[~(np.abs(values) <= LARGEST)] = np.nan
        return Rows(gaps, values)


def only(block: bytes) -> Rows:
    """A block that is read in another way."""
    return Rows([block], np.empty((0, 0)))
