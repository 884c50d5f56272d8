"""Folders of runs to open the app on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.base import files
from engine.config.frozen import pinned_config
from engine.launch import launcher
from engine.launch.launcher import manifest, plan
from engine.run.run import Run
from engine.run.trust import vouch
from grubrics_tui.app.app import GrubricsApp
from grubrics_tui.cli import main
from grubrics_tui.settings.state_files import HINTS, HintFile
from tests.engine.checks.project import Project, make_project
from tests.grubrics_tui.sample_run import OOM, REMOTE, SampleRun, verl_line
from tests.plugins import install_plugin

__all__ = ["install_plugin"]

Call = Callable[..., tuple[int, str]]


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
    HintFile().dismiss(*HINTS)


@pytest.fixture
def unhealthy(runs: Path) -> SampleRun:
    """Out of memory in training, after the judge refused a key."""
    sample = SampleRun.create(runs, "grpo-fail")
    sample.grow(5)
    sample.print(OOM, REMOTE)
    sample.say("failed", reason="exit code 1 at step 5 of 40: OutOfMemoryError")
    return sample


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """What is launched here gets no supervisor: it is only looked at."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(launcher, "start_supervisor", lambda run, variables=None: None)
    return make_project(tmp_path)


@pytest.fixture
def fixable(project: Project, runs: Path) -> Run:
    contents = manifest(plan(project.config(), "grpo-fail", runs))
    sample = SampleRun.create(runs, "grpo-fail")
    sample.run.write_manifest(contents)
    files.write_atomic(sample.run.config_file, pinned_config(contents.config))
    vouch(sample.run)
    sample.grow(5)
    sample.print(OOM)
    sample.say("failed", reason="exit code 1 at step 5 of 6: OutOfMemoryError")
    return sample.run


@pytest.fixture
def exploding(tmp_path: Path) -> Path:
    """An external log whose gradients explode and whose run then dies."""
    log = tmp_path / "night.log"
    lines = [verl_line(n, 0.5 + n / 100 if n < 20 else 900.0 + n) for n in range(1, 41)]
    log.write_bytes(b"".join(lines) + OOM + b"\n")
    return log


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """The doctor is asked at once; each ring of the terminal's bell is noted."""
    rung: list[bool] = []
    monkeypatch.setattr("grubrics_tui.model.run_doctor._FIRST_S", 0.05)
    monkeypatch.setattr("grubrics_tui.model.run_doctor._POLL_S", 0.1)
    monkeypatch.setattr("grubrics_tui.model.run_doctor._LIVE_SHARE", 0.5)
    monkeypatch.setattr(GrubricsApp, "bell", lambda self: rung.append(True))
    return rung


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Types a command; gives its exit code and what it printed."""

    def typed(*words: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["grubrics-tui", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out + err

    return typed


@pytest.fixture
def three(runs: Path) -> dict[str, SampleRun]:
    """A long, a short and a growing run, the newest one first in the list."""
    found = {}
    for age, (name, steps, state) in enumerate(
        [("growing", 8, "running"), ("short", 5, "finished"), ("long", 30, "finished")]
    ):
        sample = SampleRun.create(runs, name)
        sample.started -= 1000 * age
        sample.seed = age
        sample.grow(steps)
        sample.say(state)  # type: ignore[arg-type]
        found[name] = sample
    found["long"].configure({"optim.lr": ("3e-5", "cli"), "seed": (1, "file")})
    found["short"].configure({"optim.lr": ("1e-5", "file"), "seed": (1, "file")})
    return found
