"""How each state of a run and each result of a check looks: a shape, a word and a color."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.doctor.health import Health

# By the displayed word of a state, ``RunState.word``.
STATE_LOOKS = {
    "queued": ("◌", "quiet"),
    "starting": ("◔", "primary"),
    "running": ("●", "success"),
    "stalled": ("!", "warning"),
    "stopping": ("◑", "warning"),
    "finished": ("✓", "success"),
    "stopped": ("□", "warning"),
    "failed": ("✗", "error"),
    "lost": ("?", "error"),
    "unreadable": ("?", "quiet"),
    "external": ("◇", "primary"),
}

UNHEALTHY_LOOK = ("!", "warning")
"""Of a run that finished and whose numbers are worthless: the doctor found something grave."""

UNEXAMINED_LOOK = ("✓", "foreground")
"""Of a finished run that the doctor has not examined yet: it may be unhealthy."""


def look_of(word: str, health: Health | None) -> tuple[str, str]:
    """Glyph and color of a state; ``health`` is that of a finished run."""
    if health is not None and health.finding is not None and STATE_LOOKS[word][1] != "error":
        return UNHEALTHY_LOOK
    if word == "finished" and (health is None or not health.is_known):
        return UNEXAMINED_LOOK
    return STATE_LOOKS[word]


CHECK_LOOKS = {
    "ok": ("✓", "success"),
    "warn": ("!", "warning"),
    "fail": ("✗", "error"),
    "skip": ("–", "quiet"),
}
