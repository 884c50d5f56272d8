"""Describe the turns of a rollout with tools, and what became of its calls."""

from __future__ import annotations

from engine.base.counts import count_of
from engine.reward.conversation import Call, Conversation, Turn
from grubrics_tui.text.formats import seconds

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
        tokens = count_of(turn.tokens, "token")
        if not turn.trained:
            described.append((f"tools, {tokens}, masked", turn))
            continue
        number += 1
        calls = ", ".join(_format_call(c) for c in conversation.calls if c.turn == number)
        described.append((f"turn {number}, {tokens}{': ' if calls else ''}{calls}", turn))
    if described and (end := _ENDS[conversation.end]):
        heading, turn = described[-1]
        described[-1] = (f"{heading}; {end}", turn)
    return described


def _format_call(call: Call) -> str:
    outcome = call.outcome.replace("_", " ")
    time = f" {seconds(call.seconds)}" if call.seconds else ""
    return f"{call.tool or 'a call'} {outcome}{time}"
