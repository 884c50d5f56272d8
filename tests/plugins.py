"""Install a package with entry points as pip would: a module and its dist-info on the path."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

InstallPlugin = Callable[[str, str, str], Path]
"""Given a package's name, the code of its only module and its entry_points.txt; returns the
dist-info folder."""


@pytest.fixture
def install_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InstallPlugin]:
    installed: list[str] = []

    def install(name: str, code: str, entry_points: str) -> Path:
        site = tmp_path / "site" / name
        info = site / f"{name}-1.2.dist-info"
        info.mkdir(parents=True)
        (site / f"{name}.py").write_text(code)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(entry_points)
        monkeypatch.syspath_prepend(str(site))
        installed.append(name)
        return info

    yield install
    for name in installed:
        sys.modules.pop(name, None)
