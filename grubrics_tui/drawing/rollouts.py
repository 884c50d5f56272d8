"""Draw the rollouts of a group: the list, how one of them got its reward, and its texts."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.base.quantities import MISSING, format_fixed
from engine.run.conversation import Conversation
from engine.run.history.group_scores import Agreement, agreement, out_of_order
from engine.run.history.reward_records import OVERLONG
from engine.run.history.rollouts import Group, Rollout
from grubrics_tui.drawing.spans import Row, Span, width_of, wrapped
from grubrics_tui.text.terminal_text import clean_text
from grubrics_tui.text.turns import describe_turns
from grubrics_tui.text.word_diff import Piece

BLOCKS = " ▁▂▃▄▅▆▇█"
NAMES = {
    "alignment": "alignment", "info_value": "info",
    "length_penalty": "length", "defense_penalty": "defense", OVERLONG: "overlong",
}  # fmt: skip
_TERMS = NAMES.keys() - {OVERLONG}
"""The components that every record of the GRubrics reward has."""

_DIFF = {
    "same": ("foreground", "", ""), "added": ("success", "{+", "+}"),
    "missing": ("error", "[-", "-]"),
}  # fmt: skip
_CELL = 7
_LABEL = 7
_WIDE = 50
"""Cells from which a row has room for whole words."""


def signed(value: float | None, decimals: int = 2) -> str:
    """``+0.98``; a dash for a missing value; zero has no sign."""
    if value is None:
        return MISSING
    text = f"{value:+.{decimals}f}"
    return text[1:] if float(text) == 0 else text


def list_row(
    rollout: Rollout,
    group: Group,
    width: int,
    *,
    widest: float,
    chosen: bool = False,
    hit: bool = False,
    ascii_only: bool = False,
) -> Row:
    """Draw a rollout of the list: mark, number, score, advantage as a bar and a number, length.

    ``widest`` is the largest absolute advantage of the group; it fills half the bar.
    """
    paper = "panel" if chosen else ""
    mark, ink = mark_of(rollout, group, ascii_only)
    pointer = (">" if ascii_only else "▌") if chosen else " "
    head = [
        Span(pointer, "primary", paper, chosen),
        Span(mark, ink, paper, True),
        Span(f"{rollout.number:>4}", "foreground" if chosen else "quiet", paper, chosen),
        Span((":" if ascii_only else "•") if hit else " ", "mark", paper, True),
    ]
    if rollout.failed:
        reason = rollout.error.kind.replace("_", " ") if rollout.error else "no reward"
        row = [*head, Span(f" {reason}"[: max(0, width - 8)], "error", paper)]
        return [*row, Span(" " * max(0, width - width_of(row)), "", paper)]
    score = Span(f"{format_fixed(rollout.score, 2):>6}", "foreground", paper, group.wins(rollout))
    tail = [
        Span(f"{signed(rollout.advantage):>7}", _sign_ink(rollout.advantage), paper),
        Span(f"{rollout.length:>7,}", "quiet", paper),
    ]
    room = width - width_of([*head, score, *tail]) - 2
    bar = diverging(rollout.advantage, widest, room, paper, ascii_only)
    return [*head, score, Span("  ", "", paper), *bar, *tail]


def strip_row(
    rollouts: Sequence[Rollout], group: Group, selected: Rollout, width: int, ascii_only: bool
) -> Row:
    """Draw the rollouts of the list in one line, each with mark, number and score."""
    cells = [_strip_cell(rollout, group, rollout is selected, ascii_only) for rollout in rollouts]
    first, last = 0, rollouts.index(selected) + 1
    while first < last - 1 and sum(map(width_of, cells[first:last])) > width - 1:
        first += 1
    before = [Span("…" if first else " ", "quiet")]
    return [*before, *(span for cell in cells[first:] for span in cell)]


def _strip_cell(rollout: Rollout, group: Group, chosen: bool, ascii_only: bool) -> Row:
    mark, ink = mark_of(rollout, group, ascii_only)
    score = "" if rollout.failed else f" {format_fixed(rollout.score, 2)}"
    paper = "panel" if chosen else ""
    return [
        Span(">" if chosen and ascii_only else "▌" if chosen else " ", "primary", paper, chosen),
        Span(mark.strip(), ink, paper, True),
        Span(str(rollout.number), "foreground" if chosen else "quiet", paper, chosen),
        Span(f"{score} ", "foreground", paper, chosen),
    ]


def list_head(width: int) -> Row:
    """Draw the header of the list."""
    text = f"{'#':>6}  {'score':>5}"
    tail = f"{'adv':>7}{'chars':>7}"
    return [Span(text + tail.rjust(max(0, width - len(text))), "axis")]


def mark_of(rollout: Rollout, group: Group, ascii_only: bool) -> tuple[str, str]:
    """Return sign and color: the best rollout, a failed one, one that was not trained on."""
    if rollout.failed:
        return ("x" if ascii_only else "✗"), "error"
    if group.wins(rollout):
        return ("*" if ascii_only else "★"), "mark"
    return (("-" if ascii_only else "·"), "quiet") if not rollout.trained else (" ", "")


def diverging(
    value: float | None, widest: float, width: int, paper: str, ascii_only: bool
) -> list[Span]:
    """Draw a bar from the middle: to the right if better than the group, to the left if worse."""
    half = max(0, (width - 1) // 2)
    odd = max(0, width - 2 * half - 1)
    if value is None or half < 1 or not widest:
        left, right = " " * half, " " * (half + odd)
        return [Span(left, "", paper), Span("|" if ascii_only else "│", "grid", paper),
                Span(right, "", paper)]  # fmt: skip
    cells = min(1.0, abs(value) / widest) * half
    full = round(cells)
    block = "#" if ascii_only else "━"
    bar = block * full
    left = bar.rjust(half) if value < 0 else " " * half
    right = (bar if value > 0 else "").ljust(half + odd)
    ink = _sign_ink(value)
    return [
        Span(left, ink, paper), Span("|" if ascii_only else "│", "line", paper),
        Span(right, ink, paper),
    ]  # fmt: skip


def score_row(rollout: Rollout, group: Group, width: int) -> Row:
    """Draw the reward and the advantage."""
    if rollout.failed:
        return [Span("no reward", "error", bold=True)]
    row = [Span("reward ", "quiet"), Span(format_fixed(rollout.score), "foreground", bold=True)]
    if rollout.advantage is not None:
        ink = _sign_ink(rollout.advantage)
        row += [Span("   advantage ", "quiet"), Span(signed(rollout.advantage), ink, bold=True)]
    unit = "characters" if width >= _WIDE else "chars"
    row.append(Span(f"   {rollout.length:,} {unit}", "quiet"))
    wins = Span("   best of its group", "mark")
    if group.wins(rollout) and width_of([*row, wins]) <= width:
        row.append(wins)
    return row


def parts_row(rollout: Rollout, weights: Mapping[str, float] | None, width: int) -> Row:
    """Draw the reward as the sum of its weighted components.

    If the weights do not yield the score, or are not known, the components are listed instead. If
    the sum is too wide, zero terms are left out.
    """
    if rollout.parts is None:
        return []
    if not rollout.parts.keys() >= _TERMS:
        return _components(rollout.parts)
    parts = {key: rollout.parts[key] for key in NAMES if key in rollout.parts}
    if weights is None or rollout.score is None or not _explains(rollout, weights):
        return _components({NAMES[key]: value for key, value in parts.items()})
    counts = {OVERLONG: 1.0, **weights}
    terms = [(counts[key] * part, counts[key] < 0, NAMES[key]) for key, part in parts.items()]
    row = _sum(terms)
    return row if width_of(row) <= width else _sum([term for term in terms if round(term[0], 3)])


def truth_row(truth: str, width: int) -> Row:
    """Draw the ground truth of the row, cut to one line."""
    line = clean_text(" ".join(truth.split()))
    room = max(8, width - _LABEL)
    text = line if len(line) <= room else f"{line[: room - 3]}..."
    return [Span("truth".ljust(_LABEL), "quiet"), Span(text)] if line else []


def _components(parts: Mapping[str, float]) -> Row:
    row = [Span("components  ", "quiet")]
    for name, value in parts.items():
        row += [Span(f"{clean_text(name)} ", "quiet"), Span(f"{format_fixed(value, 2)}  ")]
    return row


def _sum(terms: Sequence[tuple[float, bool, str]]) -> Row:
    row = [Span("     =", "quiet")]
    for number, (value, subtracted, name) in enumerate(terms):
        ink = "quiet" if not round(value, 3) else "success" if value > 0 else "error"
        minus = value < 0 or (subtracted and value == 0)
        sign = " - " if minus else " + " if number else " "
        row += [Span(f"{sign}{format_fixed(abs(value), 2)}", ink), Span(f" {name}", "quiet")]
    return row


def _explains(rollout: Rollout, weights: Mapping[str, float]) -> bool:
    parts = rollout.parts or {}
    if not all(key in parts for key in weights):
        return False
    total = parts.get(OVERLONG, 0.0) + sum(weight * parts[key] for key, weight in weights.items())
    return abs(total - (rollout.score or 0.0)) < 1e-3


def judge_rows(rollout: Rollout, width: int, ascii_only: bool = False) -> list[Row]:
    """Draw gold and judge scores by falling gold: if the judge agrees, both fall to the right."""
    pairs = list(zip(rollout.gold, rollout.judge, strict=False))
    if not pairs:
        return []
    wrong = out_of_order(rollout.judge, rollout.gold)
    order = sorted(range(len(pairs)), key=lambda i: (pairs[i][0] is None, -(pairs[i][0] or 0.0)))
    shown = order[: max(1, (width - _LABEL) // _CELL)]
    top = max((abs(value) for pair in pairs for value in pair if value is not None), default=1.0)
    gold, judge = [Span("gold".ljust(_LABEL), "quiet")], [Span("judge".ljust(_LABEL), "quiet")]
    for index in shown:
        gold += _cell(pairs[index][0], top, "axis", "foreground", ascii_only)
        tone = "error" if index in wrong else "series-1"
        judge += _cell(pairs[index][1], top, tone, "error" if index in wrong else "foreground",
                       ascii_only)  # fmt: skip
    return [
        gold,
        judge,
        _agreement_row(agreement(rollout.judge, rollout.gold), len(order) - len(shown)),
    ]


def _cell(value: float | None, top: float, ink: str, tone: str, ascii_only: bool) -> Row:
    level = 0 if value is None or top <= 0 else max(1, round(max(0.0, value) / top * 8))
    block = " " if ascii_only or value is None else BLOCKS[level]
    return [Span(block, ink), Span(f" {format_fixed(value, 2):<5}", tone)]


def _agreement_row(pairs: Agreement | None, hidden: int) -> Row:
    tail = [Span(f"   +{hidden} more", "quiet")] if hidden else []
    if pairs is None:
        return [Span(" " * _LABEL + "gold scores are equal: no order", "quiet"), *tail]
    ink = "error" if pairs.reversed else "success" if not pairs.tied else "warning"
    text = f"{pairs.in_order} of {pairs.pairs} pairs in the gold order"
    row = [Span(" " * _LABEL), Span(text, ink)]
    if pairs.tied:
        row.append(Span(f", {pairs.tied} tied", "quiet"))
    if pairs.reversed:
        row.append(Span(f", {pairs.reversed} reversed", "error"))
    return [*row, *tail]


def text_spans(text: str, query: str = "") -> list[Span]:
    """Return a cleaned text with every match of ``query`` marked."""
    return marked([Span(clean_text(text), "foreground")], query)


def diff_spans(pieces: Iterable[Piece], query: str = "", signs: bool = False) -> list[Span]:
    """Return a word diff in colors; with ``signs``, also in wdiff's brackets."""
    spans: list[Span] = []
    before = "same"
    for piece in pieces:
        if (before, piece.kind) == ("missing", "added") and not signs:
            spans.append(Span(" "))
        before = piece.kind
        ink, start, end = _DIFF[piece.kind]
        text = clean_text(piece.text)
        bracketed = signs and piece.kind != "same"
        spans.append(Span(f"{start}{text}{end}" if bracketed else text, ink,
                          "" if piece.kind == "same" else "track"))  # fmt: skip
    return marked(spans, query)


def marked(spans: Iterable[Span], query: str) -> list[Span]:
    if not query:
        return list(spans)
    pattern, pieces = re.compile(re.escape(query), re.IGNORECASE), []
    for span in spans:
        end = 0
        for match in pattern.finditer(span.text):
            pieces.append(replace(span, text=span.text[end : match.start()]))
            pieces.append(Span(match.group(), "background", "mark", True))
            end = match.end()
        pieces.append(replace(span, text=span.text[end:]))
    return pieces


def group_row(group: Group, shown: Sequence[Rollout]) -> Row:
    """Draw the scores of a group: mean, spread, best, and how many count."""
    total = len(group.rollouts)
    count = str(total) if len(shown) == total else f"{len(shown)} of {total}"
    row = [Span(f"{count} {'rollout' if total == 1 else 'rollouts'}")]
    if group.mean is not None:
        best = group.best.score if group.best else None
        facts = [("   mean ", group.mean), ("   sample std ", group.std), ("   best ", best)]
        for name, value in facts[: None if len(group.scores) > 1 else 1]:
            row += [Span(name, "quiet"), Span(format_fixed(value, 3))]
    if group.is_flat:
        row.append(Span("   all scores are equal: no advantage", "warning"))
    failed = sum(rollout.failed for rollout in group.rollouts)
    if failed:
        row.append(Span(f"   {failed} failed", "error"))
    left_out = sum(not rollout.trained and not rollout.failed for rollout in group.rollouts)
    if left_out and left_out + failed < len(group.rollouts):
        row.append(Span(f"   {left_out} left out of the step", "warning"))
    return row


def widest(rollouts: Iterable[Rollout]) -> float:
    """Return the largest absolute advantage; it fills half a bar."""
    advantages = (r.advantage for r in rollouts if r.advantage is not None)
    return max(map(abs, advantages), default=0.0)


def common_tail(prompts: Collection[str]) -> str:
    """Return the lines that all prompts end with: the template, not the question."""
    endings = [prompt.splitlines() for prompt in prompts]
    if len(endings) < 2:
        return ""
    tail: list[str] = []
    for lines in zip(*(reversed(ending) for ending in endings), strict=False):
        if len(set(lines)) > 1:
            break
        tail.append(lines[0])
    return "\n".join(reversed(tail))


def _sign_ink(value: float | None) -> str:
    if value is None or not round(value, 2):
        return "quiet"
    return "success" if value > 0 else "error"


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
