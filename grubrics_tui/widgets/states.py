"""How each state of a run and each answer of the checklist looks: a shape, a word and a colour."""

from __future__ import annotations

# By the word that a person is told of a state, ``RunState.word``.
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
    "foreign": ("◇", "primary"),
}

SICK_LOOK = ("!", "error")
"""Of a run that finished and whose numbers are no good: the doctor found something grave."""

CHECK_LOOKS = {
    "ok": ("✓", "success"),
    "warn": ("!", "warning"),
    "fail": ("✗", "error"),
    "skip": ("–", "quiet"),
}
