"""The command that installs an extra, for this environment and this kind of copy."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.run.host import environment
from engine.run.host.environment import install_command
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
@pytest.mark.parametrize(
    ("origin", "wanted"),
    [
        ({"url": "file:///home/me/my%20clone", "dir_info": {}}, "'/home/me/my clone[train]'"),
        (
            {"url": "https://host/g.git", "vcs_info": {"vcs": "git", "commit_id": "1"}},
            "'grubrics-tui[train] @ git+https://host/g.git'",
        ),
        ({"url": "https://host/g.whl"}, "'grubrics-tui[train] @ https://host/g.whl'"),
        (None, "'CHECKOUT[train]'"),
    ],
)
def test_an_installed_copy_is_installed_again_from_where_it_came(
    origin: dict[str, Any] | None, wanted: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    record(tmp_path, origin, monkeypatch)
    assert install_command("train") == f"pip install {wanted}"


def record(folder: Path, origin: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed copy whose installer recorded where it came from."""
    info = folder / "site" / "grubrics_tui-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: grubrics-tui\nVersion: 1\n")
    if origin is not None:
        (info / "direct_url.json").write_text(json.dumps(origin))
    monkeypatch.syspath_prepend(str(folder / "site"))


@pytest.mark.usefixtures("pip")
@pytest.mark.parametrize(
    ("mark", "command"),
    [
        ("uv-receipt.toml", "uv tool install --force"),
        ("pipx_metadata.json", "pipx install --force"),
    ],
)
def test_a_tool_is_installed_by_what_made_it(
    mark: str, command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    record(tmp_path, {"url": "file:///clone"}, monkeypatch)
    (tmp_path / mark).touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert install_command("train") == f"{command} '/clone[train]'"


@pytest.mark.usefixtures("pip")
def test_a_checkout_that_is_not_installed_is_named_by_its_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(environment, "package_version", lambda name: None)
    folder = Path(__file__).resolve().parents[4]
    assert install_command("train") == f"pip install -e '{folder}[train]'"


def test_the_pip_of_another_environment_is_not_used(
    pip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    python = pip.with_name("python")
    command = install_command("train")
    assert command.startswith((f"{python} -m pip install ", f"uv pip install --python {python} "))


@pytest.mark.usefixtures("pip")
def test_vllm_is_installed_with_the_tested_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the README says, from any folder."""
    pins = ROOT / "constraints-gpu.txt"
    assert "`pip install -c constraints-gpu.txt '.[gpu]'`" in (ROOT / "README.md").read_text()
    assert install_command("gpu").startswith(f"pip install -c {pins} ")
    monkeypatch.setattr(environment, "package_version", lambda name: None)
    assert install_command("gpu") == f"pip install -c {pins} -e '{ROOT}[gpu]'"
