"""A picture of colored characters, kept as arrays so that whole areas are painted at once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from grubrics_tui.drawing.spans import Row, Span

Chars = NDArray[np.uint32]
_SPACE = ord(" ")
EIGHTHS: Chars = np.array([ord(char) for char in " ▁▂▃▄▅▆▇█"], np.uint32)
"""Blocks that fill so many eighths of a cell from below."""


class Picture:
    """``height`` x ``width`` characters; row 0 is the top. Colors are roles, named by theme.

    ``char`` holds code points, ``ink`` and ``paper`` numbers of colors (see ``color``).
    """

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.char: Chars = np.full((height, width), _SPACE, np.uint32)
        self.ink = np.zeros((height, width), np.uint8)
        self.paper = np.zeros((height, width), np.uint8)
        self._roles = [""]

    def color(self, role: str) -> int:
        """The number that stands for a role in ``ink`` and ``paper``."""
        if role not in self._roles:
            self._roles.append(role)
        return self._roles.index(role)

    def write(self, row: int, column: int, text: str, role: str) -> None:
        """Put narrow characters into a row; what does not fit is dropped."""
        start = max(0, column)
        text = text[start - column : max(0, self.width - column)]
        if not text or not 0 <= row < self.height:
            return
        end = start + len(text)
        self.char[row, start:end] = [ord(char) for char in text]
        self.ink[row, start:end] = self.color(role)
        self.paper[row, start:end] = 0

    def rows(self) -> list[Row]:
        """The picture as runs of one color."""
        return [self._row(row) for row in range(self.height)]

    def _row(self, row: int) -> Row:
        ink, paper = self.ink[row], self.paper[row]
        changes = np.flatnonzero((ink[1:] != ink[:-1]) | (paper[1:] != paper[:-1])) + 1
        bounds = [0, *changes.tolist(), self.width]
        text = self.char[row].astype("<u4").tobytes().decode("utf-32-le")
        return [
            Span(text[start:end], self._roles[ink[start]], self._roles[paper[start]])
            for start, end in pairwise(bounds)
        ]
