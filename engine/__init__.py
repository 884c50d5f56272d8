"""Runs in Python: ``from engine import open_run, list_runs``.

Moments are in Unix seconds, other times in seconds. A field that a file lacks, or that is damaged,
has its default: None, or empty. ``UsageError`` names a wrong name or folder in one line, and
frames without pandas are a ``PackageError``; both are in ``engine.base.errors``.

This package is everything without a screen: training, reward, data, runs. It never imports
``grubrics_tui``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.report.opened_run import OpenedRun, list_runs, open_run

__all__ = ["OpenedRun", "list_runs", "open_run"]


def __getattr__(name: str) -> Any:
    """Import what reads runs at its first use: every program imports this package."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from engine.report import opened_run

    return getattr(opened_run, name)
