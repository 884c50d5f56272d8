"""A run over a real SSH login whose line goes dead, and the logins after it."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine.run.history.train_log import read_steps
from engine.run.processes import members
from engine.run.run import Run
from engine.run.state import observed_state
from tests.e2e.project import Project
from tests.e2e.sshd import Server, serving, why_not
from tests.waiting import wait_for

NO_SERVER = why_not()

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NO_SERVER is not None, reason=str(NO_SERVER)),
]

LAUNCH = (
    "launch grpo_tiny trainer.total_training_steps=600 trainer.val_before_train=false "
    "trainer.experiment_name=remote"
)


@pytest.fixture
def server(tiny_world: Project, tmp_path: Path) -> Iterator[Server]:
    environment = {**tiny_world.env, "PATH": os.environ["PATH"], "GRUBRICS_RUNS": "runs"}
    with serving(tmp_path, environment) as made:
        yield made


@pytest.fixture
def run(tiny_world: Project) -> Iterator[Run]:
    made = Run(tiny_world.path / "runs" / "remote")
    yield made
    if made.manifest_file.exists():
        tiny_world.run("stop", made.id)


def typed(project: Project, arguments: str) -> str:
    """What a person types after logging in."""
    return f"cd {shlex.quote(str(project.path))} && {sys.executable} -m grubrics_tui {arguments}"


def logged(run: Run) -> int:
    return max((step.step for step in read_steps(run.train_log)), default=0)


def programs(server: Server) -> list[psutil.Process]:
    """What runs in the logins: the program that a person started there."""
    return [
        session
        for session in server.sessions()
        if goes_on(session) and "sshd" not in session.name()
    ]


def goes_on(process: psutil.Process) -> bool:
    """Whether it does more than wait for somebody to take note of its end."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_run_outlives_its_connection_and_a_later_login_stops_it(
    tiny_world: Project, trained_sft: dict[str, Any], server: Server, run: Run
) -> None:
    assert trained_sft["state"] == "finished", trained_sft
    first = server.login(typed(tiny_world, f"{LAUNCH} --name {run.id} --wait"), tiny_world.path)
    first.wait_for(r"step 1/600")
    abandoned = programs(server)
    server.cut(first)
    wait_for(lambda: not any(map(goes_on, abandoned)))
    step = logged(run)
    wait_for(lambda: logged(run) > step)
    assert observed_state(run).state == "running"

    second = server.login(typed(tiny_world, ""), tiny_world.path)
    second.wait_for(rf"Active(.*\n)*.*{run.id}\s+\d+/600")
    for screen in programs(server):
        with suppress(psutil.NoSuchProcess):  # Its shell went first.
            screen.kill()
    second.close()
    step = logged(run)
    wait_for(lambda: logged(run) > step)

    third = server.login(typed(tiny_world, f"stop {run.id}"), tiny_world.path)
    assert third.wait_for_exit() == 0
    assert (observed_state(run).reason or "").startswith("stopped by user at step ")
    assert members(run) == []
