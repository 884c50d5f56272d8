"""A run gets a scope of the user's systemd where that outlives the login, else it does without."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.run.host.programs import keep_folder_last, own_module, scope_prefix, typed_module
from tests.waiting import wait_for

SYSTEMD = Path("/lib/systemd/systemd")


@pytest.fixture
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A runtime directory in which a manager's socket seems to be."""
    path = tmp_path_factory.mktemp("run")
    (path / "systemd").mkdir()
    with socket.socket(socket.AF_UNIX) as manager:
        with contextlib.chdir(path / "systemd"):  # the path of a Unix socket is short
            manager.bind("private")
        yield path


@pytest.fixture
def linger(tmp_path: Path) -> Path:
    folder = tmp_path / "linger"
    folder.mkdir()
    (folder / getpass.getuser()).touch()
    return folder


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    program = tmp_path / "bin" / "systemd-run"
    program.parent.mkdir()
    program.touch(mode=0o755)
    return program.parent


def test_a_lasting_manager_gives_a_scope(runtime: Path, linger: Path, programs: Path) -> None:
    env = {"XDG_RUNTIME_DIR": str(runtime), "PATH": str(programs)}
    prefix = scope_prefix("mine", env, linger)
    assert prefix[:3] == (str(programs / "systemd-run"), "--user", "--scope")
    assert "--description=grubrics-tui run mine" in prefix


def test_a_manager_that_ends_at_logout_is_not_used(
    runtime: Path, tmp_path: Path, programs: Path
) -> None:
    env = {"XDG_RUNTIME_DIR": str(runtime), "PATH": str(programs)}
    assert scope_prefix("mine", env, tmp_path / "nobody-lingers") == ()


def test_without_a_manager_there_is_no_scope(tmp_path: Path, linger: Path, programs: Path) -> None:
    env = {"XDG_RUNTIME_DIR": str(tmp_path), "PATH": str(programs)}
    assert scope_prefix("mine", env, linger) == ()


def test_without_systemd_run_there_is_no_scope(runtime: Path, linger: Path, tmp_path: Path) -> None:
    env = {"XDG_RUNTIME_DIR": str(runtime), "PATH": str(tmp_path)}
    assert scope_prefix("mine", env, linger) == ()


@pytest.fixture
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A real user manager; its runtime directory. In a mount namespace of its own, because
    systemd only starts where it believes that the machine was booted with it."""
    if os.geteuid() != 0 or not SYSTEMD.exists() or shutil.which("unshare") is None:
        pytest.skip("a user manager can only be started here by root, with systemd installed")
    runtime = tmp_path_factory.mktemp("xdg", numbered=True)
    runtime.chmod(0o700)
    booted = "mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system && exec " + str(SYSTEMD)
    process = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", f"{booted} --user"],
        env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for(lambda: (runtime / "systemd" / "private").exists() or process.poll() is not None)
    if process.poll() is not None:
        pytest.skip("systemd does not start here")
    yield runtime
    process.terminate()
    process.wait(timeout=180)


def test_a_detached_process_lives_in_the_scope_of_a_real_manager(
    manager: Path, linger: Path, tmp_path: Path
) -> None:
    env = {**os.environ, "XDG_RUNTIME_DIR": str(manager)}
    prefix = scope_prefix("mine", env, linger)
    assert prefix, f"no scope although {manager} has a manager"
    says = tmp_path / "cgroup"
    detached = (
        "import os, pathlib, sys\n"
        "if os.fork(): os._exit(0)\n"
        "os.setsid()\n"
        "pathlib.Path(sys.argv[1]).write_text(pathlib.Path('/proc/self/cgroup').read_text())\n"
    )
    done = subprocess.run([*prefix, sys.executable, "-c", detached, str(says)], env=env)
    assert done.returncode == 0
    wait_for(lambda: says.exists() and says.read_text())
    assert ".scope" in says.read_text()


def test_no_file_of_the_working_folder_hides_a_module_of_python_a_library_or_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("engine", "grubrics_tui", "random", "json", "typing", "queue", "numpy", "yaml"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the file of the folder')")
    (tmp_path / "mine.py").write_text("VALUE = 1")
    monkeypatch.chdir(tmp_path)
    env = {**os.environ, "PYTHONPATH": f".:{tmp_path}:/mine"}
    keep_folder_last(env)
    assert env["PYTHONPATH"].split(":")[0] == "/mine"
    code = (
        "import queue, random, numpy, yaml, engine.run.host.programs as programs\n"
        "programs.search_folder_last(); import mine, statistics; print(mine.VALUE)"
    )
    commands = [
        [sys.executable, "-c", code],
        [sys.executable, "-m", "engine.train.sft", "--help"],
        list(own_module("grubrics_tui", "runs")),
        [*typed_module("engine.data.tiny_world").split(), "--help"],
    ]
    for command in commands:
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
