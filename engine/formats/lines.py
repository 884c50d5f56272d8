"""Following a source that is a file of lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.base.tail import Tail, last_lines, near_end
from engine.formats.source import CONSOLE_LINES, About, News, Parser
from engine.history.train_log import Step

_END = 256 * 1024


class LineReader:
    """Feeds whole lines to a parser, in parts when the file is long.

    The console's last lines come with the first look, and then what is new: a long history is
    for the charts. A torn last line waits for its end.
    """

    def __init__(
        self, path: Path, new_parser: Callable[[], Parser], *, is_console: bool = False
    ) -> None:
        self._tail = Tail(path)
        self._path, self._is_console = path, is_console
        self._new_parser, self._parser = new_parser, new_parser()
        self._begun = False
        self._caught_up = False

    def poll(self, at_most: int) -> News:
        lines = self._tail.lines(at_most)
        steps = self._parser.feed(lines)
        behind = self._tail.behind()
        share = 1.0 if behind < at_most // 2 or not lines else 1 - behind / self._tail.size()
        return News(steps, self._console(lines, share), share)

    def last_step(self) -> Step | None:
        """The newest step, found at the end while the history is still being read."""
        end = Tail(self._path, near_end(self._path, _END)).lines(_END)
        steps = self._new_parser().feed(end)
        return steps[-1] if steps else None

    def rest(self) -> list[Step]:
        """The step of a last line without an end, for formats that show whether it is torn."""
        last = last_lines(self._path, 1) if self._tail.behind() else []
        return self._parser.feed(last)

    def about(self) -> About:
        return self._parser.about()

    def _console(self, lines: list[bytes], share: float) -> list[bytes]:
        if not self._is_console:
            return []
        if self._caught_up:
            return lines[-CONSOLE_LINES:]
        self._caught_up = share == 1.0
        if self._begun:
            return []
        self._begun = True
        return last_lines(self._path, CONSOLE_LINES)
