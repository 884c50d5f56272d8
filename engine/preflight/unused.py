"""Do all values that a person set have an effect?"""

from __future__ import annotations

from engine.preflight.check import Check, Subject, ok, warn
from engine.recipe.unread import unread

ID = "unused"
_SHOWN = 4


def check(subject: Subject) -> Check:
    """A launch is not refused: the run does what its other values say."""
    found = unread(subject.recipe)
    if not found:
        return ok(ID, "every value that was set has an effect")
    shown = [f"{one.key}={one.value} has no effect: {one.reason}" for one in found[:_SHOWN]]
    rest = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    ways = dict.fromkeys(one.instead for one in found[:_SHOWN] if one.instead)
    return warn(ID, "; ".join([*shown, *rest]), "; ".join(ways) or None)
