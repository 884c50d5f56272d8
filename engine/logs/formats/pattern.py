"""Lines that a regular expression of the user finds, for programs of no known format.

Its named groups are the metrics: ``iter (?P<step>\\d+): loss (?P<loss>\\S+)``. Without a group
``step``, the lines are counted from 1.
"""

from __future__ import annotations

import re
from pathlib import Path

from engine.base.errors import UsageError
from engine.logs.formats.format import LineFormat, Parser, Sample, StepParser
from engine.run.history.train_log import Metrics, Step

_LONGEST = 4096
"""Bytes of a line that are searched: a pattern may take long for each."""
_STEP = "step"


def is_pattern(text: str) -> bool:
    """Whether a text is a pattern rather than a path: it has a named group."""
    return "(?P<" in text


class PatternFormat(LineFormat):
    """The lines that ``pattern`` finds. UsageError for an invalid pattern, or one without groups
    for numbers."""

    key, name = "pattern", "lines of a given pattern"
    is_console = True

    def __init__(self, pattern: str) -> None:
        try:
            self._pattern = re.compile(pattern.encode())
        except re.error as error:
            raise UsageError(f"--metrics {pattern!r}: {error}") from error
        if not self._pattern.groupindex.keys() - {_STEP}:
            raise UsageError(f"--metrics {pattern!r}: add a named group, e.g. loss (?P<loss>\\S+)")

    def matches(self, sample: Sample) -> bool:
        return any(self._pattern.search(line) for line in sample.lines())

    def parser(self, path: Path) -> Parser:
        return PatternParser(self._pattern)


class PatternParser(StepParser):
    def __init__(self, pattern: re.Pattern[bytes]) -> None:
        super().__init__()
        self._pattern = pattern
        self._last = 0

    def step(self, line: bytes) -> Step | None:
        match = self._pattern.search(line[-_LONGEST:])
        if match is None:
            return None
        texts = {name: text for name, text in match.groupdict().items() if text is not None}
        named = texts.pop(_STEP, b"")
        # A greedy group takes the comma or bracket after a number along.
        values: Metrics = self.names.metrics(
            {name: text.rstrip(b",;)]}") for name, text in texts.items()}
        )
        if not values:
            return None
        self._last = int(named) if named.isdigit() and len(named) <= 15 else self._last + 1
        return self.numbering.step(self._last, values)
