"""Whether runs are of one kind, and what they have in common where they are not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.reports.differences import Manifest

_NAMED = 3


def different_kinds(manifests: Sequence[Manifest]) -> tuple[str, ...]:
    """The kinds of the runs in the order of the runs; empty where all are of one."""
    found = tuple(dict.fromkeys(str(one["kind"]) for one in manifests if one.get("kind")))
    return found if len(found) > 1 else ()


def shared_metrics(names: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """What every run has logged, sorted. ``names`` are those of each run."""
    found = [frozenset(one) for one in names]
    return tuple(sorted(frozenset.intersection(*found))) if found else ()


def told(kinds: Sequence[str], shared: Sequence[str]) -> str:
    """One line for a person; empty where the runs are of one kind."""
    if not kinds:
        return ""
    names = ", ".join(shared[:_NAMED]) or "no metric"
    more = f" and {len(shared) - _NAMED} more" if len(shared) > _NAMED else ""
    return f"different kinds ({', '.join(kinds)}): beside steps and times they share {names}{more}"
