"""The words that one word of a shell script becomes, when its expansions are filled in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.translate.shell_words import Word


@dataclass(frozen=True)
class Unknown:
    """Why only a shell knows a value."""

    reason: str


@dataclass(frozen=True)
class Argument:
    """A word of a command, expanded. With a ``problem``, its text is as it is written."""

    line: int
    text: str
    problem: str | None = None


class Fields:
    """The words that one word becomes."""

    def __init__(self, word: Word) -> None:
        self._word = word
        self._line = word.line
        self._done: list[Argument] = []
        self._current: str | None = None
        self._problem: str | None = None
        self._is_nothing = False
        """Whether a list without elements is in it: ``"$@"`` alone is no word then."""

    def add(self, text: str) -> None:
        self._current = (self._current or "") + text

    def add_problem(self, problem: str) -> None:
        self._problem = self._problem or problem

    def add_split(self, text: str) -> None:
        """Add an expansion without quotes: the shell splits it at its blanks."""
        words = text.split()
        if text[:1].isspace():
            self._end()
        for index, word in enumerate(words):
            if index:
                self._end()
            self.add(word)
        if words and text[-1:].isspace():
            self._end()

    def add_several(self, arguments: Sequence[Argument], is_quoted: bool) -> None:
        self._is_nothing = not arguments
        for index, argument in enumerate(arguments):
            if index:
                self._end()
            self._line = argument.line or self._word.line
            if argument.problem:
                self._done.append(argument)
            elif is_quoted:
                self.add(argument.text)
            else:
                self.add_split(argument.text)

    def _end(self) -> None:
        if self._current is not None and not (self._is_nothing and not self._current):
            self._done.append(Argument(self._line, self._current))
        self._current = None

    def arguments(self) -> list[Argument]:
        """All words; with a problem, the one word as it is written."""
        if self._problem is not None:
            return [Argument(self._word.line, self._word.raw, self._problem)]
        self._end()
        return self._done

    def value(self) -> str | Unknown:
        """All words as one text."""
        arguments = self.arguments()
        problem = next((argument.problem for argument in arguments if argument.problem), None)
        text = " ".join(argument.text for argument in arguments)
        return text if problem is None else Unknown(problem)
