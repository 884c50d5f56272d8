"""What a log format is: how a file of it is recognized, and how its steps are read.

A format is one class in one file. ``watch``, ``metrics`` and the doctor read a log's numbers
through it. Another package adds a format by an entry point of the group ``grubrics.log_formats``.
"""

from __future__ import annotations

import copy
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.base.follow import Tail, last_lines, near_end
from engine.logs.formats.names import LoggedNames, Numbering
from engine.run.history.train_log import Step

CONSOLE_LINES = 2000
"""Lines of a console that is already long which are worth showing."""

LONGEST_LINE = 1024 * 1024
"""Bytes at the end of a console line that may hold a step; bars can precede it."""

_END = 256 * 1024


@dataclass(frozen=True)
class Sample:
    """The first and the last bytes of a file: enough to tell its format."""

    path: Path
    head: bytes
    tail: bytes = b""

    def lines(self) -> list[bytes]:
        """Lines of both ends; the first of the tail and the last of either may be torn."""
        return [*self.head.split(b"\n"), *self.tail.split(b"\n")]


@dataclass(frozen=True)
class About:
    """What a log tells about its run. Everything may be unknown.

    ``started`` is in Unix seconds; ``ended`` is the log's own text about its end. ``config`` is the
    configuration of the run, nested, with names that are not safe to show.
    """

    total_steps: int | None = None
    model: str | None = None
    started: float | None = None
    ended: str | None = None
    name: str | None = None
    tags: tuple[str, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class News:
    """What a log gained between two polls.

    ``read_share`` below 1 means that the next poll continues with a history that is still coming.
    ``restarted``: the log was truncated or replaced, and the steps of earlier polls are void.
    """

    steps: list[Step] = field(default_factory=list)
    console: list[bytes] = field(default_factory=list)
    read_share: float = 1.0
    restarted: bool = False


class Reader(ABC):
    """Follows one log. Memory is bounded by ``at_most``, not by the size of the log."""

    @abstractmethod
    def poll(self, at_most: int) -> News:
        """What is new, reading about ``at_most`` bytes; empty where nothing can be read."""

    @abstractmethod
    def about(self) -> About:
        """What has been read about the run so far."""

    @property
    def trouble(self) -> OSError | None:
        """Why the last poll may have missed what a later one will find; None: it did not."""
        return None

    def last_step(self) -> Step | None:
        """The newest step, where it can be found before the history is read."""
        return None

    def rest(self) -> list[Step]:
        """The steps of a last line without an end, with the values that are certainly complete."""
        return []


class Parser(ABC):
    """Makes steps of lines. Remembers what it must to number them, and no more."""

    @abstractmethod
    def feed(self, lines: list[bytes]) -> list[Step]:
        """The steps that these lines complete. Any bytes are valid input."""

    def about(self) -> About:
        """What the lines said about the run so far."""
        return About()


class StepParser(Parser):
    """A parser of a trainer's own names with at most one step for each line."""

    def __init__(self) -> None:
        self.names, self.numbering = LoggedNames(), Numbering()
        self.known = About()

    def feed(self, lines: list[bytes]) -> list[Step]:
        return [step for line in lines if (step := self.step(line)) is not None]

    def about(self) -> About:
        return self.known

    def step(self, line: bytes) -> Step | None:
        """The step that this line completes."""
        raise NotImplementedError

    def make(self, number: int, values: Mapping[str, object]) -> Step | None:
        """The step of that number; None if no value is a number."""
        metrics = self.names.metrics(values)
        return self.numbering.step(number, metrics) if metrics else None


class Format(ABC):
    """``key`` is what ``--as`` takes, ``name`` is how a person calls it."""

    key: str
    name: str
    trainers: tuple[str, ...] = ()
    """What writes it, for README.md. Formats of this repository name it."""
    is_own = False
    """Whether a program of this project or one before it writes it."""
    reads: str = ""
    """What is read of it, for docs/cockpit.md: Markdown in one line."""
    file_names: tuple[str, ...] = ()
    """Shell patterns for the names of its files, which are searched for in a folder."""
    folder_names: tuple[str, ...] = ()
    """The same for what else shows that a folder holds a run of it."""
    is_console = False
    """Whether it is printed text that may hold anything between the steps, other formats too."""
    is_general = False
    """Whether lines of many programs are of this format, so that names have no fixed meaning."""
    covers: frozenset[str] = frozenset()
    """Keys of console formats whose lines it also reads."""
    step_pattern: bytes = b""
    """What a console prints once per step, with the number of the step as group 1 if it has one.

    The doctor sees by it that training continued after an error. Begin it with plain characters: it
    is searched for in all consoles. Empty for formats without a console.
    """

    @abstractmethod
    def matches(self, sample: Sample) -> bool:
        """Whether a file with these ends is of this format."""

    @abstractmethod
    def open(self, path: Path) -> Reader:
        """Follows the log at ``path``."""

    def may_become(self, sample: Sample) -> bool:
        """Whether a log without any step looks like the beginning of one of this format."""
        return False

    def matches_folder(self, folder: Path) -> bool:
        """Whether a folder as a whole is one run of this format."""
        return False

    def run_name(self, given: Path, path: Path) -> str:
        """The name of the run in ``path``, which was found by the path ``given`` by the user."""
        return given.name

    def console_of(self, path: Path) -> Path | None:
        """The file with readable lines; None when there is none."""
        return path


class LineFormat(Format):
    """A format whose files are lines of text."""

    file_names: tuple[str, ...] = ("*.log", "*.out", "*.txt")
    marks: tuple[bytes, ...] = ()
    """Patterns; only lines that match one of them are parsed, or all lines where there is none.

    Each begins with two or more plain characters, which makes the search in a block fast.
    """
    has_bars = False
    """Whether a progress bar may hold a step, so that a line may end with ``\\r`` alone."""

    parser_class: type[Parser]
    """What reads its lines, unless that depends on the file."""

    def parser(self, path: Path) -> Parser:
        """A parser of this file's lines, from the first one on."""
        return self.parser_class()

    def complete_part(self, line: bytes) -> bytes:
        """The part of a line without an end whose values cannot change when more is written.

        By default nothing of a console line, whose last number may lack digits, and all of a
        progress bar, which is written as a whole, or of a JSON object, which shows its end.
        """
        return b"" if self.is_console and not self.has_bars else line

    def open(self, path: Path) -> Reader:
        return LineReader(path, self)


class LineReader(Reader):
    """Feeds whole lines to a parser, in parts when the file is long.

    The last lines of a console come with the first poll, later what is new: a long history is for
    the charts. A torn last line waits for its end.
    """

    def __init__(self, path: Path, log_format: LineFormat) -> None:
        self._path, self._format = path, log_format
        self._tail = Tail(path, ends_at_return=log_format.has_bars)
        self._parser = log_format.parser(path)
        self._has_begun = self._has_caught_up = False
        self._rest: tuple[object, list[Step]] = (None, [])
        """What identifies the line without an end, and its steps."""

    def poll(self, at_most: int) -> News:
        restarts = self._tail.restarts
        block = self._tail.block(at_most)
        # A rotated log continues in the file that took its name.
        restarted = self._tail.restarts != restarts and not self._tail.is_rotated
        if restarted:
            self._parser = self._format.parser(self._path)
        steps = self._parser.feed(self._lines(block))
        behind = self._tail.behind()
        share = 1.0 if behind < at_most // 2 or not block else 1 - behind / self._tail.size()
        return News(steps, self._console(block, share), share, restarted)

    def about(self) -> About:
        return self._parser.about()

    @property
    def trouble(self) -> OSError | None:
        return self._tail.trouble

    def last_step(self) -> Step | None:
        end = Tail(self._path, near_end(self._path, _END)).block(_END)
        steps = self._format.parser(self._path).feed(self._lines(end))
        return steps[-1] if steps else None

    def rest(self) -> list[Step]:
        if not self._tail.behind():
            return []
        line = self._tail.restarts, self._tail.size()
        if self._rest[0] != line:
            torn = self._tail.unread(LONGEST_LINE)
            start = torn.rfind(b"\r") + 1
            block = torn[:start] + self._format.complete_part(torn[start:]) + b"\n"
            self._rest = line, copy.deepcopy(self._parser).feed(self._lines(block))
        return self._rest[1]

    def _lines(self, block: bytes) -> list[bytes]:
        if self._format.marks:
            return lines_with(block, self._format.marks)
        return block.split(b"\n")[:-1]

    def _console(self, block: bytes, share: float) -> list[bytes]:
        if not self._format.is_console:
            return []
        if self._has_caught_up:
            return (
                block.removesuffix(b"\n").rsplit(b"\n", CONSOLE_LINES)[-CONSOLE_LINES:]
                if block
                else []
            )
        self._has_caught_up = share == 1.0
        if self._has_begun:
            return []
        self._has_begun = True
        return last_lines(self._path, CONSOLE_LINES)


def lines_with(block: bytes, marks: tuple[bytes, ...]) -> list[bytes]:
    """The lines that match one of ``marks``; they end with ``\\n`` or ``\\r``.

    Searching a block for a few patterns is many times as fast as looking at each of its lines.
    """
    ends: dict[int, int] = {}
    for mark in map(re.compile, marks):
        match = mark.search(block)
        while match is not None:
            hit = match.start()
            start = block.rfind(b"\n", 0, hit) + 1
            start = max(start, block.rfind(b"\r", start, hit) + 1)
            end = block.find(b"\n", hit)
            end = len(block) if end < 0 else end
            inner = block.find(b"\r", hit, end)
            ends[start] = end = end if inner < 0 else inner
            match = mark.search(block, end)
    return [block[start : ends[start]][-LONGEST_LINE:] for start in sorted(ends)]
