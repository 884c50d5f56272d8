"""Forked workers: they get their own arguments, environment and streams, and never outlive us."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from engine.train import zygote
from engine.train.zygote import FIRST_JOB_ID, Zygote
from tests.waiting import wait_for


@pytest.fixture
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    # Unix sockets want a short path.
    started = zygote.start(tmp_path_factory.mktemp("z") / "s", ["decimal"])
    yield started
    started.close()


def script(tmp_path: Path, code: str) -> list[str]:
    path = tmp_path / "worker.py"
    path.write_text(code)
    return [str(path)]


def worker(running: Zygote, command: list[str], **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*shlex.split(running.py_executable), *command],
        env={"RAY_JOB_ID": FIRST_JOB_ID, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_death(pid: int) -> None:
    def is_gone() -> bool:
        try:
            return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    wait_for(is_gone)


def test_a_worker_has_its_own_arguments_environment_and_streams(
    running: Zygote, tmp_path: Path
) -> None:
    code = "import os, sys; print(sys.argv[1:], os.environ['COLOR']); print('e', file=sys.stderr)"
    out, err = worker(running, [*script(tmp_path, code), "--x", "1"], COLOR="red").communicate()
    assert (out, err) == ("['--x', '1'] red\n", "e\n")


def test_what_was_preloaded_is_already_imported(running: Zygote, tmp_path: Path) -> None:
    code = "import sys; print('decimal' in sys.modules, 'fractions' in sys.modules)"
    out, _ = worker(running, script(tmp_path, code)).communicate()
    assert out == "True False\n"


def test_two_workers_draw_different_random_numbers(running: Zygote, tmp_path: Path) -> None:
    command = script(tmp_path, "import random; print(random.random())")
    drawn = {worker(running, command).communicate()[0] for _ in range(2)}
    assert len(drawn) == 2


@pytest.mark.parametrize("code", [0, 3])
def test_the_exit_code_of_a_worker_is_passed_on(running: Zygote, tmp_path: Path, code: int) -> None:
    started = worker(running, script(tmp_path, f"import sys; sys.exit({code})"))
    started.communicate()
    assert started.returncode == code


def test_a_killed_worker_is_reported_as_killed(running: Zygote, tmp_path: Path) -> None:
    started = worker(running, script(tmp_path, "import os; os.kill(os.getpid(), 9)"))
    started.communicate()
    assert started.returncode == -signal.SIGKILL


def sleeper(running: Zygote, tmp_path: Path) -> tuple[subprocess.Popen[str], int]:
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    client = worker(running, script(tmp_path, code))
    assert client.stdout is not None
    return client, int(client.stdout.readline())


def test_a_worker_dies_with_the_client_that_ray_started(running: Zygote, tmp_path: Path) -> None:
    client, pid = sleeper(running, tmp_path)
    client.kill()
    wait_for_death(pid)
    client.communicate()


def test_workers_die_with_the_zygote(running: Zygote, tmp_path: Path) -> None:
    client, pid = sleeper(running, tmp_path)
    running.close()
    wait_for_death(pid)
    client.communicate()
    assert client.returncode == 1


@pytest.mark.parametrize("on_purpose", [True, False])
def test_a_zygote_that_somebody_killed_is_named_in_the_console(
    running: Zygote, tmp_path: Path, on_purpose: bool
) -> None:
    console = tmp_path / "console.log"
    console.touch()
    command = script(tmp_path, "print('up', flush=True); import time; time.sleep(60)")
    client = worker(running, command, GRUBRICS_ATTEMPT_DIR=str(tmp_path))
    assert client.stdout is not None and client.stdout.readline() == "up\n"
    if on_purpose:
        running.close()
    else:
        running.process.kill()
    client.communicate()
    assert ("zygote" in console.read_text()) == (not on_purpose)


def test_a_driver_that_was_killed_is_named_and_not_its_zygote(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    console = tmp_path / "console.log"
    console.touch()
    socket = tmp_path_factory.mktemp("z") / "s"
    code = (
        "import time; from pathlib import Path; from engine.train import zygote;"
        f"z = zygote.start(Path({str(socket)!r}), ['json']);"
        "print(z.py_executable, flush=True); time.sleep(600)"
    )
    driver = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    python = shlex.split(driver.stdout.readline())
    sleep = script(tmp_path, "print('up', flush=True); import time; time.sleep(60)")
    client = subprocess.Popen(
        [*python, *sleep],
        env={"RAY_JOB_ID": FIRST_JOB_ID, "GRUBRICS_ATTEMPT_DIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert client.stdout is not None and client.stdout.readline() == "up\n"
    driver.kill()
    client.communicate()  # The driver is a zombie meanwhile.
    driver.communicate()
    assert console.read_text() == "the trainer ended, and the workers of its Ray with it\n"


def test_the_zygote_dies_with_the_driver(tmp_path_factory: pytest.TempPathFactory) -> None:
    socket = tmp_path_factory.mktemp("z") / "s"
    code = (
        "import time; from pathlib import Path; from engine.train import zygote;"
        f"z = zygote.start(Path({str(socket)!r}), ['json']);"
        "print(z.process.pid, flush=True); time.sleep(600)"
    )
    driver = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    assert driver.stdout is not None
    pid = int(driver.stdout.readline())
    # At once: the zygote may not have asked yet to be killed with its parent.
    driver.kill()
    driver.communicate()
    wait_for_death(pid)


def test_a_shared_ray_instance_is_refused(running: Zygote, tmp_path: Path) -> None:
    started = worker(running, script(tmp_path, "print('ran')"), RAY_JOB_ID="02000000")
    out, err = started.communicate()
    assert out == ""
    assert "not private" in err
