"""Where faults are made to happen."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.supervise.faults.stage import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path / "runs")
    yield made
    made.clear_away()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB."""
    mount = tmp_path / "disk"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(mount)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("mounting a small file system needs root")
    yield mount
    subprocess.run(["umount", "-l", str(mount)], check=True)


@pytest.fixture
def on_small_disk(small_disk: Path) -> Iterator[Stage]:
    made = Stage(small_disk / "runs")
    yield made
    made.clear_away()
