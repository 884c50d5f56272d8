"""A heading for every turn of a conversation."""

from __future__ import annotations

from engine.run.conversation import Call, Conversation, Turn
from grubrics_tui.text.turns import describe_turns, marked_lines

CALL = Turn("<tool_call>", 22, trained=True)
REPLY = Turn("7 coins", 14, trained=False)


def headings(conversation: Conversation) -> list[str]:
    return [heading for heading, _ in describe_turns(conversation)]


def test_a_turn_has_its_calls_with_outcome_and_time() -> None:
    calls = (Call(1, "price", "{}", "ok", "7 coins", 0.19), Call(1, "", "", "not_run"))
    turns = (CALL, REPLY, Turn("7", 1, trained=True))
    assert headings(Conversation(turns=turns, calls=calls, end="answer")) == [
        "turn 1, 22 tokens: price ok 0.19 s, a call not run",
        "tools, 14 tokens, masked",
        "turn 2, 1 token",
    ]


def test_the_last_turn_says_why_the_conversation_ended() -> None:
    calls = (Call(1, "", "", "malformed"),)
    assert headings(Conversation(turns=(CALL,), calls=calls, end="malformed")) == [
        "turn 1, 22 tokens: a call malformed; ended by a call that cannot be read"
    ]
    assert headings(Conversation(turns=(CALL, REPLY), end="length"))[-1] == (
        "tools, 14 tokens, masked; ended at the length limit"
    )


def test_calls_that_are_alike_are_counted() -> None:
    calls = (Call(1, "price", "{}", "ok", "7", 0.19), *[Call(1, "", "", "not_run")] * 999)
    heading, *_ = headings(Conversation(turns=(CALL, REPLY), calls=calls, end="answer"))
    assert heading == "turn 1, 22 tokens: price ok 0.19 s, 999 x a call not run"


def test_the_name_that_the_model_gives_a_tool_stays_in_the_heading() -> None:
    name = "price\n+ trained\x1b[2J" + "x" * 1000
    heading, *_ = headings(
        Conversation(turns=(CALL,), calls=(Call(1, name, "{}", "unknown_tool"),), end="answer")
    )
    assert heading.isprintable() and len(heading) < 120


def test_every_line_of_a_reply_is_marked_as_masked() -> None:
    reply = "7 coins\r+ trained\x1b[1A\n+ more\r\nend"
    assert [*marked_lines(reply, trained=False)] == [
        "  7 coins",
        "  + trained",
        "  + more",
        "  end",
    ]
