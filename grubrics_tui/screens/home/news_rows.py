"""Draw what happened since the last visit: active, ended and queued runs, one below the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from engine.doctor.health import Health
from engine.runs.columns import RunInfo, format_step
from grubrics_tui.drawing.looks import look_of
from grubrics_tui.drawing.spans import Row, Span, width_of
from grubrics_tui.drawing.wrap import clipped
from grubrics_tui.model.news import News
from grubrics_tui.text.formats import MISSING, age, clock, cut_name, duration, fixed, head_of_cut
from grubrics_tui.text.terminal_text import clean_text

HealthOf = Callable[[RunInfo], Health | None]

_LEAD, _STATE = 2, 11
_GAP, _INDENT = "  ", "    "
_SHORTEST_ID, _LONGEST_ID = 10, 42


@dataclass(frozen=True)
class Line:
    """A row, and the index of its run among ``News.shown``; None for a heading."""

    row: Row
    index: int | None = None


def draw_news(news: News, health_of: HealthOf, width: int, selected: int) -> list[Line]:
    """The sections that have runs, or one line that says that nothing happened and the last run."""
    runs, columns = news.shown, _Columns.fit(news, width)
    if not runs:
        return [Line([Span("No runs in this folder yet. Press n to launch one.", "quiet")])]
    lines: list[Line] = []
    index = 0
    for title, section in _sections(news):
        lines += [Line([])] if lines else []
        lines.append(Line([Span(title, "quiet", bold=True)]))
        for run in section:
            drawn = _draw_run(run, news, health_of(run), columns, width, index == selected)
            lines += [Line(row, index) for row in drawn]
            index += 1
    return lines


def _sections(news: News) -> Iterator[tuple[str, Sequence[RunInfo]]]:
    """A title and its runs, in the order of ``News.shown``."""
    if news.active:
        yield "Active", news.active
    since = "" if news.since is None else f"{clock(news.since)} ({_ago(news.since)})"
    if news.ended:
        yield (f"Ended since {since}" if since else "Ended last"), news.ended
    if news.queued:
        yield "Queued", news.queued
    if news.last is not None and not (news.active or news.ended or news.queued):
        yield f"Nothing has happened since {since}. The last run:", [news.last]
    shown_above = [*news.active, *news.ended, *news.queued]
    if earlier := news.shown[len(shown_above) or 1 :]:
        yield "Earlier", earlier


@dataclass(frozen=True)
class _Columns:
    """Widths of the columns that depend on the runs."""

    id: int
    id_head: int
    step: int
    reward: int
    time: int

    @classmethod
    def fit(cls, news: News, width: int) -> _Columns:
        """The widest text of each column; the IDs get the cells that the others leave."""
        runs = news.shown
        step, reward, times, widest = (
            max((len(text) for text in texts), default=0)
            for texts in (
                map(_step, runs),
                map(_reward, runs),
                (_time(run, news) for run in runs),
                (run.id for run in runs),
            )
        )
        room = width - _LEAD - _STATE - step - reward - times - 4 * len(_GAP)
        id = min(widest, max(_SHORTEST_ID, min(room, _LONGEST_ID)))
        return cls(id, head_of_cut([run.id for run in runs], id), step, reward, times)


def _draw_run(
    run: RunInfo, news: News, health: Health | None, columns: _Columns, width: int, chosen: bool
) -> Iterator[Row]:
    """One row, and a second one for what does not fit beside it."""
    glyph, ink = look_of(run.state.word, health)
    paper = "line" if chosen else ""
    name = cut_name(run.id, columns.id, columns.id_head)
    row = [
        Span("› " if chosen else "  ", "primary", paper, bold=True),
        Span(f"{glyph} {run.state.word}".ljust(_STATE), ink, paper, bold=True),
        Span(_GAP + name.ljust(columns.id), "", paper, bold=chosen),
        Span(_GAP + _step(run).rjust(columns.step), "", paper),
        Span(_GAP + _reward(run).ljust(columns.reward), "quiet", paper),
        Span(_GAP + _time(run, news).ljust(columns.time), "quiet", paper),
    ]
    detail, detail_ink = _detail(run, health)
    beside = Span(_GAP + detail, detail_ink, paper)
    if detail and width_of([*row, beside]) > width:
        yield _filled(row, width, paper)
        row, beside = [], Span(clipped(_INDENT + detail, width), detail_ink, paper)
    yield _filled([*row, beside], width, paper)


def _filled(row: Row, width: int, paper: str) -> Row:
    return [*row, Span(" " * max(0, width - width_of(row)), "", paper)]


def _step(run: RunInfo) -> str:
    return format_step(run.state.step, run.state.total_steps)


def _reward(run: RunInfo) -> str:
    """The curve of the last mean rewards, or of the last losses, and the last value."""
    if run.loss_curve:
        return f"{run.loss_curve} {fixed(run.train_loss)} loss"
    return f"{run.curve} {fixed(run.reward)}" if run.curve else ""


def _time(run: RunInfo, news: News) -> str:
    state = run.state
    if state.has_ended:
        ended = state.ended or state.heartbeat
        return MISSING if ended is None else _ago(ended)
    left = news.remaining.get(run.id)
    return "" if left is None else f"ETA {duration(left)}"


def _detail(run: RunInfo, health: Health | None) -> tuple[str, str]:
    """What is wrong, or what the run waits for, with its color."""
    state = run.state
    if health is not None and health.finding is not None:
        return clean_text(health.phrase), "warning"
    if state.word in ("failed", "lost", "stalled"):
        return clean_text(state.reason or "no reason recorded"), look_of(state.word, None)[1]
    waits = f"waits for {state.waiting_for}" if state.waiting_for else ""
    return clean_text(state.reason or waits), "quiet"


def _ago(moment: float) -> str:
    return f"{age(max(0.0, time.time() - moment))} ago"
