"""Describe the turns of a rollout with tools, and what became of its calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from engine.base import jsonl
from engine.base.errors import shorten
from engine.base.quantities import format_count, format_seconds
from engine.run.conversation import Call, Conversation, Turn
from grubrics_tui.text.terminal_text import clean_text

MARKS = {True: "+", False: " "}
"""What is before a line that is trained, or masked."""

_LONGEST_NAME = 60
_ENDS = {
    "answer": "",
    "malformed": "ended by a call that cannot be read",
    "turn_limit": "ended at the turn limit",
    "length": "ended at the length limit",
}


def describe_turns(conversation: Conversation) -> list[tuple[str, Turn]]:
    """A heading for each turn; that of the model has its calls, that of the last one the end."""
    described, number = list[tuple[str, Turn]](), 0
    for turn in conversation.turns:
        tokens = format_count(turn.tokens, "token")
        if not turn.trained:
            described.append((f"tools, {tokens}, masked", turn))
            continue
        number += 1
        calls = _format_calls(call for call in conversation.calls if call.turn == number)
        described.append((f"turn {number}, {tokens}{': ' if calls else ''}{calls}", turn))
    if described and (end := _ENDS[conversation.end]):
        heading, turn = described[-1]
        described[-1] = (f"{heading}; {end}", turn)
    return described


def marked_lines(text: str, *, trained: bool) -> Iterator[str]:
    """The lines of a text behind the mark that says whether they are trained.

    The text is cleaned before it is split: a carriage return begins a line, too.
    """
    for line in clean_text(text).split("\n"):
        yield f"{MARKS[trained]} {line}".rstrip()


def _format_calls(calls: Iterable[Call]) -> str:
    """A turn can have a thousand calls that are alike: those that are not run."""
    counts = Counter(map(_format_call, calls))
    return ", ".join(f"{count} x {text}" if count > 1 else text for text, count in counts.items())


def _format_call(call: Call) -> str:
    # The model writes the name.
    tool = shorten(jsonl.line(call.tool) or "a call", _LONGEST_NAME)
    outcome = call.outcome.replace("_", " ")
    time = f" {format_seconds(call.seconds)}" if call.seconds else ""
    return f"{tool} {outcome}{time}"
