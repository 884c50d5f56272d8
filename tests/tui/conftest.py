"""Folders of runs to open the app on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from sample_run import SampleRun

from grubrics_tui.hints import HINTS, HintFile


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


@pytest.fixture(autouse=True)
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's settings and layout are read or changed; every hint was seen."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    HintFile().keep(*HINTS)
