"""Benchmarks can be started: what they import exists. None is run here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT

FOLDER = ROOT / "benchmarks"
IMPORT = "import runpy, sys; sys.path.insert(0, sys.argv[2]); runpy.run_path(sys.argv[1])"


@pytest.mark.trainer
@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.py")))
def test_a_benchmark_finds_what_it_imports(name: str, tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", IMPORT, str(FOLDER / name), str(FOLDER)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
