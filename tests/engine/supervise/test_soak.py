"""The short version of ``benchmarks/soak.py``: every kind of death twice, at random moments."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soak import soak

pytestmark = pytest.mark.waits


@pytest.mark.thorough
def test_runs_that_die_at_random_moments_keep_one_history_and_leave_nothing(tmp_path: Path) -> None:
    tally = soak(tmp_path, cycles=10)
    assert tally.problems == []
    assert tally.struck.total() == 10
    assert tally.whole >= 1
