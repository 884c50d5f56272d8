"""`grubrics-tui run -- COMMAND`: any program under the supervision of a run."""

from __future__ import annotations

import hashlib
import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine.run.processes import members, send
from engine.run.run import Run
from engine.run.state import observed_state, recorded_state
from tests.e2e.project import Project
from tests.waiting import ended, is_over, wait_for

pytestmark = pytest.mark.waits

LOOP = "for i in $(seq 1 {0}); do echo step=$i loss=0.$((90 - i)); sleep {1}; done"
ORPHAN = """
import subprocess, sys, time
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
print(subprocess.Popen(sleep, start_new_session=True).pid, flush=True)
time.sleep(float(sys.argv[1]))
"""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path)
    yield made
    for folder in (tmp_path / "runs").glob("*"):
        made.run("stop", folder.name)


def launched(project: Project, *arguments: str) -> Any:
    """The answer of ``run``; its options come before the command."""
    return json.loads(project.run("run", "--json", *arguments).stdout)


def loop(project: Project, name: str, steps: int, *options: str, pause: float = 0.1) -> Run:
    script = LOOP.format(steps, pause)
    launched(project, "--name", name, *options, "--", "sh", "-c", script)
    return Run(project.path / "runs" / name)


def orphan_of(run: Run) -> psutil.Process:
    """The process that the program left in a session of its own."""
    console = run.attempt(1).console
    wait_for(lambda: console.is_file() and console.read_text().strip())
    return psutil.Process(int(console.read_text()))


def test_a_loop_that_prints_its_loss_is_listed_with_its_steps(project: Project) -> None:
    assert ended(loop(project, "loop", 3)).state == "finished"
    (row,) = project.json("runs")["runs"]
    assert (row["id"], row["kind"], row["state"], row["step"]) == ("loop", "command", "finished", 3)
    steps = project.run("metrics", "loop", "loss").stdout.split()
    assert steps == ["loss", "1", "0.89", "loss", "2", "0.88", "loss", "3", "0.87"]


def test_a_program_that_prints_no_step_is_running_until_it_ends(project: Project) -> None:
    answer = launched(project, "--wait", "--", "sh", "-c", "sleep 0.5; echo done")
    assert (answer["state"], answer["reason"]) == ("finished", None)


def test_an_exit_code_is_a_failure_with_the_error_of_the_console(project: Project) -> None:
    crash = "print('step=1 loss=2', flush=True); raise ValueError('no such layer')"
    done = launched(project, "--wait", "--", sys.executable, "-c", crash)
    assert done["state"] == "failed"
    assert done["reason"] == "exit code 1 at step 1: ValueError: no such layer"


def test_a_stop_ends_every_process_of_the_command(project: Project) -> None:
    launched(project, "--name", "two", "--", sys.executable, "-c", ORPHAN, "600")
    orphan = orphan_of(Run(project.path / "runs" / "two"))
    stopped = project.json("stop", "two")
    assert stopped["reason"] == "stopped by user before the first step"
    assert is_over(orphan)


def test_what_a_program_leaves_behind_is_ended_with_it(project: Project) -> None:
    launched(project, "--name", "left", "--", sys.executable, "-c", ORPHAN, "0.5")
    run = Run(project.path / "runs" / "left")
    orphan = orphan_of(run)
    assert ended(run).state == "finished"
    assert is_over(orphan)


def test_a_killed_supervisor_leaves_a_lost_run_that_stop_ends_with_all_its_steps(
    project: Project,
) -> None:
    run = loop(project, "long", 1000)
    wait_for(lambda: (observed_state(run).step or 0) >= 2)
    state = recorded_state(run)
    assert state is not None and state.supervisor is not None
    send(state.supervisor, signal.SIGKILL)
    wait_for(lambda: observed_state(run).state == "lost")
    assert project.json("stop", "long")["state"] == "lost"
    assert not members(run)
    printed = run.attempt(1).console.read_text().split("step=")[-1].split()[0]
    assert observed_state(run).step == int(printed)


def test_a_killed_command_leaves_no_process(project: Project) -> None:
    launched(project, "--name", "killed", "--", sys.executable, "-c", ORPHAN, "600")
    run = Run(project.path / "runs" / "killed")
    orphan = orphan_of(run)
    state = recorded_state(run)
    assert state is not None and state.trainer is not None
    send(state.trainer, signal.SIGKILL)
    assert (ended(run).state, is_over(orphan)) == ("failed", True)
    assert (observed_state(run).reason or "").startswith("killed by SIGKILL")


def test_a_killed_child_is_a_failure_if_the_command_says_so(project: Project) -> None:
    script = "sleep 600 & echo $!; wait $!"
    launched(project, "--name", "child", "--", "sh", "-c", script)
    run = Run(project.path / "runs" / "child")
    orphan_of(run).kill()
    assert ended(run).state == "failed"
    assert observed_state(run).reason == "exit code 137 before the first step"


def test_the_guard_stops_a_command_on_a_finding(project: Project) -> None:
    script = "for i in $(seq 1 600); do echo step=$i loss=nan; sleep 0.1; done"
    options = ("--guard", "loss_nan", "--set", "guard.every_s=0.5")
    launched(project, "--name", "guarded", *options, "--", "sh", "-c", script)
    state = ended(Run(project.path / "runs" / "guarded"))
    assert (state.reason or "").startswith("stopped by the guard at step ")


@pytest.mark.thorough
def test_metrics_that_never_appear_are_a_finding(project: Project) -> None:
    launched(project, "--name", "silent", "--wait", "--metrics", "out.csv", "--", "true")
    done = project.run("diagnose", "silent")
    assert (done.returncode, "config_error.metrics_not_read" in done.stdout) == (1, True)
    (row,) = project.json("runs")["runs"]
    assert row["health"]["state"] == "unhealthy"


def test_the_format_of_the_metrics_can_be_chosen(project: Project) -> None:
    dict_of_trl = "{'loss': 1.5, 'learning_rate': 1e-05}"
    script = f'echo "{dict_of_trl}"; echo step=1 loss=2; sleep 0.5'
    options = ("--name", "chosen", "--wait", "--as", "pairs")
    launched(project, *options, "--", "sh", "-c", script)
    assert project.run("metrics", "chosen", "loss").stdout.split() == ["loss", "1", "2.0"]


def test_runs_are_queued_behind_one_another(project: Project) -> None:
    first = loop(project, "first", 1000)
    second = loop(project, "second", 2, "--queue")
    third = loop(project, "third", 2, "--after", "second")
    waiting = [row["id"] for row in project.json("queue")["runs"]]
    assert waiting == ["second", "third"]
    project.run("stop", "first")
    assert [ended(run).state for run in (second, third)] == ["finished", "finished"]
    assert observed_state(first).word == "stopped"


def test_an_error_in_its_console_is_diagnosed_in_its_own_terms(project: Project) -> None:
    line = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    project.run_program(
        "run", "--name", "oom", "--wait", "--", "sh", "-c", f"echo '{line}'; exit 1"
    )
    done = project.run("diagnose", "oom")
    assert done.returncode == 1 and "cuda_oom_training" in done.stdout
    assert "actor_rollout_ref" not in done.stdout


def test_a_secret_of_the_command_reaches_the_program_and_no_file_of_the_run(
    project: Project,
) -> None:
    secret = "hunter2-" + "x" * 12
    check = "import hashlib, sys; print(hashlib.sha256(sys.argv[2].encode()).hexdigest())"
    command = (sys.executable, "-c", check, "--api-key", secret)
    answer = launched(project, "--name", "keyed", "--wait", "--", *command)
    assert (answer["state"], answer["argv"][-1]) == ("finished", "…xxxx")
    run = Run(project.path / "runs" / "keyed")
    printed = run.attempt(1).console.read_text().strip()
    assert printed == hashlib.sha256(secret.encode()).hexdigest()
    kept = [path for path in run.path.rglob("*") if path.is_file()]
    assert not [path.name for path in kept if secret.encode() in path.read_bytes()]


def test_metrics_are_read_from_the_file_that_the_command_writes(project: Project) -> None:
    record = '{"step": 1, "data": {"actor/pg_loss": 0.5}}'
    script = f"mkdir out; echo '{record}' > out/metrics.jsonl; sleep 1"
    options = ("--name", "filed", "--wait", "--metrics", "out", "--", "sh", "-c", script)
    assert launched(project, *options)["state"] == "finished"
    assert project.run("metrics", "filed", "actor/pg_loss").stdout.split()[1:] == ["1", "0.5"]


def test_a_command_without_gpus_sees_none(project: Project) -> None:
    script = 'echo "[$CUDA_VISIBLE_DEVICES]"'
    launched(project, "--name", "cpu", "--wait", "--gpus", "0", "--", "sh", "-c", script)
    assert Run(project.path / "runs" / "cpu").attempt(1).console.read_text() == "[]\n"


def test_a_command_is_run_again_in_its_folder_with_its_options_and_words_at_its_end(
    project: Project,
) -> None:
    (project.path / "sub").mkdir()
    script = 'pwd\necho "step=1 x=2" $1'
    options = (
        "--name",
        "x",
        "--cwd",
        "sub",
        "--gpus",
        "0",
        "--metrics",
        r"step=(?P<step>\d+) x=(?P<x>\d)",
    )
    launched(project, *options, "--wait", "--", "sh", "-c", script, "sh")
    launched(project, "--from", "x", "--name", "y", "--wait", "--", "more")
    again = Run(project.path / "runs" / "y")
    assert again.attempt(1).console.read_text() == f"{project.path / 'sub'}\nstep=1 x=2 more\n"
    manifest = again.read_manifest()
    assert (manifest.gpus, manifest.metrics) == (0, options[-1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--gpus", "1"), "error: --gpus cannot be changed with --from."),
        ((), "error: the command of run 'x' holds a secret, which no file keeps."),
    ],
)
def test_a_command_that_cannot_be_run_again_is_refused_in_one_line(
    project: Project, arguments: tuple[str, ...], message: str
) -> None:
    launched(project, "--name", "x", "--wait", "--", "true", "--api-key", "hunter2-hunter2-x")
    done = project.run("run", "--from", "x", *arguments)
    assert (done.returncode, done.stderr[: len(message)]) == (2, message)


def test_a_damaged_manifest_is_one_line(project: Project) -> None:
    run = loop(project, "x", 1)
    ended(run)
    raw = json.loads(run.manifest_file.read_text())
    del raw["cwd"]
    run.manifest_file.write_text(json.dumps(raw))
    done = project.run("run", "--from", "x", "--trust")
    assert done.returncode == 2
    assert done.stderr.endswith("the command or its folder is missing\n")


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("resume", "x"), "error: run 'x' executes a command: only its program can resume it."),
        (("stop", "x", "--after-checkpoint"), "error: run 'x' executes a command, whose"),
        (("fix", "x"), "error: run 'x' executes a command, which has no config."),
        (("ablate", "x"), "error: run 'x' executes a command, which has no config."),
        (("estimate", "x"), "error: run 'x' executes a command, which has no config."),
        (("config", "x", "--unused"), "error: run 'x' executes a command, which has no config."),
        (("sweep", "x"), "error: run 'x' executes a command, which has no config."),
    ],
)
def test_what_needs_a_config_is_refused_in_one_line(
    project: Project, command: tuple[str, ...], message: str
) -> None:
    ended(loop(project, "x", 1))
    done = project.run(*command)
    assert done.returncode == 2
    assert done.stderr.startswith(message) and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run",), "error: name the command: grubrics-tui run -- COMMAND"),
        (("run", "--", "nosuch"), "error: 'nosuch': no such program."),
        (("run", "--cwd", "nowhere", "--", "true"), "error: --cwd: "),
        (("run", "--gpus", "99", "--", "true"), "error: --gpus 99: "),
        (("run", "--guard", "loss_man", "--", "true"), "error: guard.stop_on=["),
        (("run", "--set", "guard.stop=1", "--", "true"), "error: setting 'guard.stop' does not"),
        (
            ("run", "--set", f"guard.command=[curl,--token,{'k7Qx' * 8}]", "--", "true"),
            "error: --set: guard.command looks like a secret",
        ),
        (("run", "--as", "pears", "--", "true"), "error: format 'pears' does not exist"),
        (("run", "--metrics", "(?P<step>x)", "--", "true"), "error: --metrics '(?P<step>x)': "),
    ],
)
def test_a_command_that_cannot_start_is_refused_before_anything_is_written(
    project: Project, arguments: tuple[str, ...], message: str
) -> None:
    done = project.run(*arguments)
    assert (done.returncode, done.stderr[: len(message)]) == (2, message)
    assert not (project.path / "runs").exists()
