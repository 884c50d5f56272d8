"""Folders of runs to open the app on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from sample_run import SampleRun


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def run(runs: Path) -> SampleRun:
    """A GRPO run in the middle of its work."""
    sample = SampleRun.create(runs, "grpo-night")
    sample.grow(12)
    sample.say("running")
    return sample
