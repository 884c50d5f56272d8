"""The command that installs an extra, for this environment and this kind of copy."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from engine.host import environment
from engine.host.environment import install_command
from tests.paths import ROOT


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The pip beside this program's Python, first on the path."""
    path = tmp_path / "own" / "bin" / "pip"
    path.parent.mkdir(parents=True)
    path.touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(path.with_name("python")))
    monkeypatch.setenv("PATH", str(path.parent))
    return path


@pytest.mark.usefixtures("pip")
def test_an_installed_copy_has_its_extras() -> None:
    assert install_command("train") == "pip install 'grubrics-tui[train]'"


@pytest.mark.usefixtures("pip")
def test_a_checkout_that_is_not_installed_is_named_by_its_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(environment, "package_version", lambda name: None)
    folder = Path(__file__).resolve().parents[3]
    assert install_command("train") == f"pip install -e '{folder}[train]'"


def test_the_pip_of_another_environment_is_not_used(
    pip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    python = pip.with_name("python")
    assert install_command("train") == f"{python} -m pip install 'grubrics-tui[train]'"


@pytest.mark.usefixtures("pip")
def test_vllm_is_installed_with_the_tested_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the README says, from any folder."""
    pins = ROOT / "constraints-gpu.txt"
    assert "`pip install -c constraints-gpu.txt '.[gpu]'`" in (ROOT / "README.md").read_text()
    assert install_command("gpu") == f"pip install -c {pins} 'grubrics-tui[gpu]'"
    monkeypatch.setattr(environment, "package_version", lambda name: None)
    assert install_command("gpu") == f"pip install -c {pins} -e '{ROOT}[gpu]'"
