"""The details of a run below the list of runs."""

from __future__ import annotations

import time

from textual.content import Content

from engine.doctor.health import Health
from engine.runs.columns import RunInfo, format_step
from engine.runs.notes import Notes
from engine.runs.state import RunState
from grubrics_tui.drawing.looks import look_of
from grubrics_tui.text.formats import clock, duration
from grubrics_tui.widgets.facts import Fact

_LONGEST_NOTE = 120


def run_facts(info: RunInfo, health: Health | None = None) -> list[Fact]:
    """ID, step, times and what the run waits for; last the state, whose reason may be long."""
    state = info.state
    reason = Content(f"  {state.reason}" if state.reason else "")
    facts: list[Fact] = [
        ("run", Content.styled(info.id, "bold") + Content(f"   {info.recipe}")),
        ("step", f"{format_step(state.step, state.total_steps)}   {_times(state)}"),
    ]
    if info.notes:
        facts.append(("notes", _notes(info.notes)))
    if state.waiting_for and not state.has_ended:
        facts.append(("waiting", f"for {state.waiting_for}"))
    return [*facts, ("state", state_look(state.word, health) + reason)]


def state_look(word: str, health: Health | None) -> Content:
    """``✓ finished``; ``! finished, unhealthy: GPU out of memory since step 3``."""
    glyph, ink = look_of(word, health)
    phrase = health.phrase if health and health.is_known else ""
    return Content.styled(", ".join(filter(None, (f"{glyph} {word}", phrase))), f"bold ${ink}")


def _notes(notes: Notes) -> Content:
    """Tags and note in one line, so that the state stays visible."""
    tags = "".join(f"#{tag} " for tag in notes.tags)
    text = " ".join(notes.text.split())
    shown = text if len(text) <= _LONGEST_NOTE else f"{text[: _LONGEST_NOTE - 1]}…"
    return Content.styled(tags, "$accent") + Content(shown)


def _times(state: RunState) -> str:
    attempt = f"attempt {state.attempt}, " if state.attempt > 1 else ""
    if state.first_start is None:
        return f"{attempt}not started"
    took = duration(state.elapsed(time.time()))
    spent = f"{took} without pauses" if state.began else took
    if state.ended is not None:
        return f"{attempt}{clock(state.first_start)} to {clock(state.ended)}, {spent}"
    return f"{attempt}started {clock(state.first_start)}, elapsed {spent}"
