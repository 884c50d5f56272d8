"""What a shell knows at a place of a script, and what is left of it where branches meet.

A part of a text that only a shell knows is a hole: one character of its own, with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from engine.translate.shell_syntax import Function
from engine.translate.shell_words import ShellError

_FIRST_HOLE = 0xF0000
_MOST_HOLES = 0xFFFE


@dataclass(frozen=True)
class Unknown:
    """Why only a shell knows a value."""

    reason: str


@dataclass(frozen=True)
class Argument:
    """A word of a command, expanded. With a ``problem``, a part of its text is as written."""

    line: int
    text: str
    problem: str | None = None


Value = str | tuple[Argument, ...]


class Holes:
    """The parts of texts that are not known, by their characters."""

    def __init__(self) -> None:
        self._holes: dict[tuple[str, str], str] = {}
        self._by_character: dict[str, tuple[str, str]] = {}

    def add(self, reason: str, shown: str = "") -> str:
        """Return the character that stands for what is not known, and is shown as ``shown``."""
        hole = (reason, shown)
        if hole not in self._holes:
            if len(self._holes) == _MOST_HOLES:
                raise ShellError(1, f"more than {_MOST_HOLES} values are not known")
            character = chr(_FIRST_HOLE + len(self._holes))
            self._holes[hole] = character
            self._by_character[character] = hole
        return self._holes[hole]

    def reason(self, text: str) -> str | None:
        """Why a text is not known; None if it is."""
        found = (self._by_character.get(character) for character in text)
        return next((hole[0] for hole in found if hole), None)

    def shown(self, text: str) -> str:
        holes = self._by_character
        return "".join(holes[each][1] if each in holes else each for each in text)

    def value(self, text: str) -> str | Unknown:
        reason = self.reason(text)
        return text if reason is None else Unknown(reason)


@dataclass
class State:
    """``stop``: ``exit``, ``return``, ``break`` or ``continue``, where one is on its way.

    ``lost``: why the arguments are not known.
    """

    values: dict[str, Value]
    arguments: tuple[Argument, ...]
    exported: dict[str, int] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    files: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Texts that the script has written, with their lines."""
    lost: str | None = None
    stop: str = ""
    is_called: bool = False
    """Whether the arguments are those of a function."""

    def copy(self) -> State:
        return replace(
            self,
            values=dict(self.values),
            exported=dict(self.exported),
            functions=dict(self.functions),
            files=dict(self.files),
        )


def join_states(states: Sequence[State], reason: str, holes: Holes) -> State:
    """What holds after any of these: values that all have, and of lists the common beginning."""
    joined = states[0].copy()
    for state in states[1:]:
        joined.exported |= state.exported
        joined.functions |= state.functions
        joined.files |= state.files
    for name in dict.fromkeys(name for state in states for name in state.values):
        values = [state.values.get(name) for state in states]
        if any(value != values[0] for value in values):
            joined.values[name] = _join(values, holes.add(reason, f"${name}"), reason, holes)
    if any((state.arguments, state.lost) != (joined.arguments, joined.lost) for state in states):
        joined.lost = reason
    joined.stop = joined.stop if all(state.stop == joined.stop for state in states) else ""
    return joined


def _join(values: Sequence[Value | None], hole: str, reason: str, holes: Holes) -> Value:
    lists = [value for value in values if isinstance(value, tuple)]
    if lists and all(isinstance(value, tuple) or not value for value in values):
        others = [()] * (len(lists) < len(values))
        return join_lists([*lists, *others], holes.add(reason))
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) < len(values) or not any(" " in text.strip() for text in texts):
        return hole
    words = [tuple(Argument(0, word) for word in text.split()) for text in texts]
    if any(text.split() and "=" not in text.split()[0] for text in texts):
        return hole  # A sentence, and no list of options.
    joined = join_lists(words, holes.add(reason))
    return " ".join(argument.text for argument in joined)


def join_lists(lists: Sequence[tuple[Argument, ...]], hole: str) -> tuple[Argument, ...]:
    """The common beginning, and the other elements, which may be there: ``hole`` is added."""
    texts = zip(*([item.text for item in each] for each in lists), strict=False)
    count = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, texts))
    others = {item.text: item for each in lists for item in each[count:]}
    return (
        *lists[0][:count],
        *(replace(item, text=text + hole) for text, item in others.items()),
    )
