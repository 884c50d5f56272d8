"""How far a starting run has come, from the lines verl prints on the way."""

from __future__ import annotations

from collections.abc import Iterable

# In the order they appear; each names what the run waits for once its line was printed.
_MARKERS = (
    ("Ray job grubrics-", "its Ray job"),
    ("ray init kwargs", "Ray"),
    ("Started a local Ray instance", "trainer process"),
    ("Connecting to existing Ray cluster", "trainer process"),
    ("dataset len:", "data"),
    ("Total training steps:", "workers"),
    ("create worker group", "model"),
    ("actor and ref model engine initialized", "reward workers"),
    ("reward loop manager initialized", "rollout server"),
    ("checkpoint engine manager initialized", "first weights"),
    ("all initialize finished, ready to fit", "first step"),
    ("Initial validation metrics:", "first step"),
    ("Training Progress", "first step"),
)


def waiting_for(lines: Iterable[bytes], now: str) -> str:
    """What a starting run waits for after ``lines``, given what it waited for before."""
    order = [what for _, what in _MARKERS]
    best = order.index(now) if now in order else -1
    for line in lines:
        text = line.decode("utf-8", errors="replace")
        for index, (marker, _) in enumerate(_MARKERS):
            if index > best and marker in text:
                best = index
    return order[best] if best >= 0 else now
