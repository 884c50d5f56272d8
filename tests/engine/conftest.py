"""Fixtures of several folders of tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.checks.project import Project, make_project
from tests.plugins import install_plugin

__all__ = ["install_plugin", "project"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A sound project, which is also the working directory."""
    monkeypatch.chdir(tmp_path)
    return make_project(tmp_path)
