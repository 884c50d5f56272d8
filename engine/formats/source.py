"""What a reader of somebody else's run gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from engine.history.train_log import Step

CONSOLE_LINES = 2000
"""Lines of a console that is already long which are worth showing."""

LONGEST_LINE = 1024 * 1024
"""Bytes at the end of a console line that may hold a step; bars can stand before it."""


@dataclass(frozen=True)
class About:
    """What a source says about its run. Everything may be unknown.

    ``started`` is Unix seconds; ``ended`` only where the source itself says so, in its own words.
    """

    total_steps: int | None = None
    model: str | None = None
    started: float | None = None
    ended: str | None = None


@dataclass(frozen=True)
class News:
    """What a source gained between two looks.

    ``read_share`` below 1 means that the next look goes on with a history that is still coming.
    """

    steps: list[Step] = field(default_factory=list)
    console: list[bytes] = field(default_factory=list)
    read_share: float = 1.0


class Reader(Protocol):
    """Follows one source. Memory is bounded by ``at_most``, whatever the size of the source."""

    def poll(self, at_most: int) -> News:
        """What is new, reading about ``at_most`` bytes; empty where nothing can be read."""

    def about(self) -> About:
        """What has been read about the run so far."""


class Parser(Protocol):
    """Makes steps of lines. Remembers what it must to number them, and no more."""

    def feed(self, lines: list[bytes]) -> list[Step]:
        """The steps that these lines complete. Any bytes are fine."""

    def about(self) -> About:
        """What the lines said about the run so far."""


@dataclass(frozen=True)
class Sample:
    """The first and the last bytes of a file: enough to tell what it is."""

    path: Path
    head: bytes
    tail: bytes = b""

    def lines(self) -> list[bytes]:
        """Lines of both ends; the first of the tail and the last of either may be torn."""
        return [*self.head.split(b"\n"), *self.tail.split(b"\n")]
