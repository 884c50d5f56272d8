"""The turns of a rollout that may call tools, and what became of each call."""

from __future__ import annotations

from collections import Counter
from typing import Literal, get_args

from msgspec import Struct

from engine.base.typed import Integer, Number

FIELD = "conversation"
"""The field of a reward record, and of what the agent loop hands to the reward."""

Outcome = Literal[
    "ok", "malformed", "unknown_tool", "bad_arguments", "failed", "timed_out", "cut", "not_run"
]
"""What became of a call.

``malformed``: it could not be read. ``bad_arguments``: they do not fit the tool's schema.
``failed``: the tool raised an error. ``cut``: the reply was longer than
``multi_turn.max_tool_response_length``. ``not_run``: the response was full, the last turn was
reached, or the turn had more calls than ``multi_turn.max_parallel_calls``.
"""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

COUNTS: tuple[str, ...] = ("turns", "calls", *(f"calls_{outcome}" for outcome in OUTCOMES))
"""The names of ``Conversation.numbers``."""

End = Literal["answer", "malformed", "turn_limit", "length"]
"""Why a conversation ended: with a turn without a call, with a call that could not be read, at
``multi_turn.max_assistant_turns`` or ``max_user_turns``, or at ``data.max_response_length``."""


class Turn(Struct, frozen=True, gc=False):
    """Tokens that follow each other. ``trained``: the model generated them, so that they count in
    the loss; otherwise they are the reply of tools, with the template's text around it."""

    text: str
    tokens: Integer
    trained: bool


class Call(Struct, frozen=True, gc=False):
    """A call of the ``turn``-th turn of the model, from 1. ``arguments`` are as the model wrote
    them; ``reply`` is what the model reads, empty if nothing was sent."""

    turn: Integer
    tool: str
    arguments: str
    outcome: Outcome
    reply: str = ""
    seconds: Number = 0.0


class Conversation(Struct, frozen=True, gc=False, kw_only=True):
    """A response of one or more turns."""

    turns: tuple[Turn, ...] = ()
    calls: tuple[Call, ...] = ()
    end: End

    def numbers(self) -> dict[str, float]:
        """The numbers of turns and calls, and of calls by outcome; the same names for all."""
        counts = Counter(call.outcome for call in self.calls)
        return {
            "turns": float(sum(turn.trained for turn in self.turns)),
            "calls": float(len(self.calls)),
            **{f"calls_{outcome}": float(counts[outcome]) for outcome in OUTCOMES},
        }

    def last_answer(self) -> slice[int, int, None]:
        """Where the model's last turn is among the tokens of the response."""
        end = sum(turn.tokens for turn in self.turns)
        for turn in reversed(self.turns):
            if turn.trained:
                return slice(end - turn.tokens, end)
            end -= turn.tokens
        return slice(0, 0)
