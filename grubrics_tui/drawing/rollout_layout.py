"""Draw one rollout: its numbers, judge and gold scores, its text, the full prompt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from engine.history.rollouts import Group, Rollout
from engine.reward.conversation import Conversation
from grubrics_tui.drawing.rollouts import (
    diff_spans,
    judge_rows,
    marked,
    parts_row,
    score_row,
    text_spans,
    truth_row,
)
from grubrics_tui.drawing.spans import Row, Span
from grubrics_tui.drawing.wrap import wrapped
from grubrics_tui.text.terminal_text import clean_text
from grubrics_tui.text.turns import describe_turns
from grubrics_tui.text.word_diff import Piece

MOST_CHARACTERS = 60_000
"""The most that a screen shows of one text; the command prints all of it."""


@dataclass(frozen=True)
class Shown:
    """A rollout and how to show it. ``text`` is None while it is read.

    ``whole`` adds the origin of the numbers, and the prompt.
    """

    rollout: Rollout
    group: Group
    text: str | None
    prompt: str = ""
    truth: str = ""
    conversation: Conversation | None = None
    whole: bool = False
    pieces: tuple[Piece, ...] | None = None
    weights: Mapping[str, float] | None = None
    formula: str = ""
    query: str = ""
    ascii_only: bool = False
    colorless: bool = False


def rollout_rows(shown: Shown, width: int) -> list[Row]:
    """Return the rows of a rollout for a width in cells."""
    rollout = shown.rollout
    rows = wrapped(score_row(rollout, shown.group, width), width)
    if parts := parts_row(rollout, shown.weights, width):
        rows += wrapped(parts, width)
    if truth := truth_row(shown.truth, width):
        rows += wrapped(truth, width)
    if reason := _why(shown):
        rows += wrapped(reason, width)
    if judged := judge_rows(rollout, width, shown.ascii_only):
        rows += [[], *(row for line in judged for row in wrapped(line, width))]
    rows += [[], *_text(shown, width)]
    if shown.whole:
        rows += [[], *(row for line in _origin(shown) for row in wrapped(line, width))]
    if shown.whole and shown.prompt:
        dash = "-" if shown.ascii_only else "─"
        rule = dash * max(0, width - len("prompt") - 3)
        rows += [[], [Span(f"{dash} prompt ", "quiet"), Span(rule, "line")]]
        rows += wrapped(text_spans(_cut(shown.prompt), shown.query), width)
    return rows


def _why(shown: Shown) -> Row:
    """Return why there is no reward, or no advantage."""
    rollout = shown.rollout
    if rollout.error is not None:
        kind = rollout.error.kind.replace("_", " ")
        return [Span(clean_text(f"{kind}: {rollout.error.message}"), "error")]
    if rollout.failed:
        return [Span("no record with the reason", "quiet")]
    if rollout.advantage is None and rollout.trained and shown.formula.startswith("not computed"):
        return [Span(f"advantage {shown.formula}", "quiet")]
    return []


def _origin(shown: Shown) -> list[Row]:
    """Return the formula of the advantage, and the group."""
    group = shown.group
    about = [("advantage", shown.formula), ("group", group.id), ("question", group.question_id)]
    return [
        [Span(f"{name:<11}", "quiet"), Span(clean_text(value), "axis")]
        for name, value in about
        if value
    ]


def _text(shown: Shown, width: int) -> list[Row]:
    if shown.text is None:
        return [[Span("reading ...", "quiet")]]
    if not shown.text.strip():
        return [[Span("empty response", "quiet")]]
    if shown.pieces is not None and len(shown.text) <= MOST_CHARACTERS:
        signs = shown.colorless or shown.ascii_only
        return wrapped(diff_spans(shown.pieces, shown.query, signs), width)
    if shown.conversation is not None and len(shown.text) <= MOST_CHARACTERS:
        return list(_turns(shown.conversation, shown.query, width))
    return wrapped(text_spans(_cut(shown.text), shown.query), width)


def _turns(conversation: Conversation, query: str, width: int) -> Iterator[Row]:
    """Draw what the tokens say: those of the model as text, those that are masked in grey."""
    for heading, turn in describe_turns(conversation):
        yield from wrapped([Span(clean_text(heading), "axis")], width)
        ink = "foreground" if turn.trained else "quiet"
        text = clean_text(turn.text.strip("\n"))
        yield from wrapped(marked([Span(text, ink)], query), width)


def _cut(text: str) -> str:
    excess = len(text) - MOST_CHARACTERS
    if excess <= 0:
        return text
    note = f"… and {excess:,} characters: grubrics-tui rollouts prints them"
    return f"{text[:MOST_CHARACTERS]}\n{note}"
