"""How many judge calls to have in flight: enough to keep up, not more than the server takes."""

from __future__ import annotations

import math

SLOW_S = 300.0
"""A step that only waits for its judge this long is called slow (seed guide: 5 minutes)."""


def in_flight(calls: float, latency: float, seconds: float, allowed: int | None = None) -> int:
    """Calls in flight for ``calls`` of ``latency`` seconds to be done in ``seconds``.

    Little's law, L = rate x W. More than there are calls helps nobody, and more than ``allowed``
    the server refuses.
    """
    wanted = calls if seconds <= 0 else min(calls, calls * latency / seconds)
    found = max(1, math.ceil(wanted))
    return found if allowed is None else min(found, allowed)


def allowed(at_once: int, refused: float) -> int:
    """Calls in flight that a server serves which refuses (429) the share ``refused`` of
    ``at_once``: those that it let through."""
    return max(1, math.floor(at_once * (1 - refused)))


def pace(calls: float, at_once: int, latency: float) -> float:
    """Seconds that ``calls`` take at least: rounds x latency. A round's slowest call adds to it."""
    return math.ceil(calls / at_once) * latency
