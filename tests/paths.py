"""Where the tests find the repository, its configs and what may lie beside it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
CONFIGS = ROOT / "configs"
SHARED = ROOT.parent / "shared"
"""Real logs and a corpus; tests that read it are skipped where it is missing."""
