"""The ends of config keys: ``lr`` for ``actor_rollout_ref.actor.optim.lr``."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Sequence


def ending_with(end: str, known: Iterable[str]) -> list[str]:
    """The keys that ``end`` is the end of; empty if it is also a section."""
    endings = [key for key in known if key.endswith(f".{end}") and not key.endswith("._target_")]
    if endings and any(key.startswith(f"{end}.") for key in known):
        return []
    return endings


def meant_by(endings: Sequence[str], chosen: Container[str]) -> list[str]:
    """Those of ``endings`` that a person may mean: the ``chosen`` ones, else all but the critic's,
    which GRPO does not read."""
    return [key for key in endings if key in chosen] or [
        key for key in endings if not key.startswith("critic.")
    ]


def shortest_end(key: str, known: Collection[str], choices: Iterable[Container[str]]) -> str:
    """The shortest end that means ``key`` alone, whichever of ``choices`` is what is chosen."""
    end = ""
    for word in reversed(key.split(".")):
        end = f"{word}.{end}" if end else word
        endings = [] if end in known else ending_with(end, known)
        if all(meant_by(endings, chosen) == [key] for chosen in choices):
            return end
    return key
