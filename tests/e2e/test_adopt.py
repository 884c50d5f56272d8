"""`grubrics-tui adopt`: programs that were launched elsewhere, and logs of which only files are
known, as runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import Any

import psutil
import pytest

from engine.run.processes import identify, send
from engine.run.run import Run
from engine.run.state import observed_state, recorded_state
from engine.supervise.adopted_follower import LineCopy
from tests.e2e.project import CLI, Project
from tests.e2e.terminal import Terminal
from tests.engine.logs.formats.samples import history, message, wandb_log
from tests.waiting import ended, is_over, wait_for

pytestmark = pytest.mark.waits

LOOP = (
    "i=0; while [ $i -lt {0} ]; do i=$((i + 1)); echo step=$i loss=0.$((900 - i)); sleep 0.1; done"
)
THREE = f"{LOOP.format(3)}; until [ -e ../go ]; do sleep 0.05; done"
"""Three steps; it ends when there is a file ``go``."""
TRAIN = """
import subprocess, sys, time
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
print("child", subprocess.Popen(sleep, start_new_session=True).pid, flush=True)
for step in range(1, int(sys.argv[1]) + 1):
    print(f"step={step} loss={1 / step:.3f}", flush=True)
    time.sleep(0.1)
"""

Start = Callable[..., "Popen[bytes]"]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path)
    yield made
    for folder in (tmp_path / "runs").glob("*"):
        made.run("stop", folder.name, "--detach")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a command in the folder ``elsewhere``; its output goes to ``out.log`` there."""
    elsewhere, started = tmp_path / "elsewhere", list[Popen[bytes]]()
    elsewhere.mkdir()

    def launch(*argv: str, stdout: Any = None) -> Popen[bytes]:
        with (elsewhere / "out.log").open("ab") as log:
            output = stdout or log
            process = Popen(argv, cwd=elsewhere, stdin=DEVNULL, stdout=output, stderr=output)
        started.append(process)
        return process

    yield launch
    for process in started:
        for child in is_there(process.pid):
            child.kill()
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


def is_there(pid: int) -> list[psutil.Process]:
    """The live descendants of a process."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def adopted(project: Project, name: str, target: object, *options: str) -> Run:
    done = project.run("adopt", str(target), "--name", name, *options)
    assert done.returncode == 0, done.stderr
    return Run(project.path / "runs" / name)


def at_step(run: Run, step: int) -> None:
    wait_for(lambda: (observed_state(run).step or 0) >= step)


def python(start: Start, steps: int) -> tuple[Popen[bytes], psutil.Process]:
    """A training program, and the child that it started in a session of its own."""
    process = start(sys.executable, "-c", TRAIN, str(steps))
    wait_for(lambda: is_there(process.pid))
    return process, is_there(process.pid)[0]


def test_a_shell_loop_is_listed_with_all_its_steps_and_its_command(
    project: Project, start: Start
) -> None:
    loop = start("sh", "-c", LOOP.format(1000))
    done = project.run_program("adopt", str(loop.pid), "--name", "loop")
    assert done.returncode == 0, done.stderr
    at_step(Run(project.path / "runs" / "loop"), 5)
    (row,) = project.json("runs")["runs"]
    assert (row["kind"], row["state"]) == ("adopted", "running")
    assert row["started"] == pytest.approx(psutil.Process(loop.pid).create_time(), abs=1)
    shown = project.json("show", "loop")
    assert shown["argv"][:2] == ["sh", "-c"] and loop.pid in shown["pids"]
    assert project.run("metrics", "loop", "loss").stdout.split()[:3] == ["loss", "1", "0.899"]


def test_nothing_is_written_where_the_program_runs(project: Project, start: Start) -> None:
    run = adopted(project, "loop", start("sh", "-c", THREE).pid)
    at_step(run, 3)
    (project.path / "go").touch()
    ended(run)
    assert [path.name for path in (project.path / "elsewhere").iterdir()] == ["out.log"]


def test_the_end_of_a_program_is_said_without_its_exit_code(project: Project, start: Start) -> None:
    loop = start("sh", "-c", THREE)
    run = adopted(project, "loop", loop.pid)
    (project.path / "go").touch()
    loop.wait()
    state = ended(run)
    assert (state.state, state.exit_code) == ("lost", None)
    assert state.reason == (
        f"process {loop.pid} ended with an unknown exit code; last seen at step 3"
    )
    assert run.attempt(1).console.read_text().count("step=") == 3


def test_a_stop_ends_the_program_and_what_it_started_and_no_other(
    project: Project, start: Start
) -> None:
    (program, child), (other, _) = python(start, 1000), python(start, 1000)
    at_step(adopted(project, "train", program.pid), 1)
    stopped = project.json("stop", "train", "--yes")
    assert stopped["reason"].startswith("stopped by user at step ")
    assert program.wait() != 0 and is_over(child)
    assert other.poll() is None


@pytest.mark.thorough
def test_a_stop_asks_first_and_without_a_terminal_it_refuses(
    project: Project, start: Start
) -> None:
    loop = start("sh", "-c", LOOP.format(1000))
    adopted(project, "loop", loop.pid)
    done = project.run("stop", "loop")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "add --yes" in done.stderr
    terminal = Terminal([*CLI, "stop", "loop"], project.path, project.env)
    terminal.wait_for(r"End process \d+ \(sh\).*launched elsewhere\?")
    terminal.press("n\r")
    terminal.wait_for("nothing was stopped")
    assert loop.poll() is None


def test_detaching_leaves_the_program_running_and_the_run_can_be_deleted(
    project: Project, start: Start
) -> None:
    loop = start("sh", "-c", LOOP.format(1000))
    run = adopted(project, "loop", loop.pid)
    assert project.json("stop", "loop", "--detach")["state"] == "lost"
    assert loop.poll() is None
    assert project.run("delete", "loop", "--yes").returncode == 0
    assert not run.path.exists()


@pytest.mark.thorough
def test_a_killed_supervisor_ends_its_follower_and_leaves_the_program_to_a_stop(
    project: Project, start: Start
) -> None:
    program, child = python(start, 1000)
    run = adopted(project, "train", program.pid)
    at_step(run, 2)
    state = recorded_state(run)
    assert state is not None and state.supervisor is not None and state.trainer is not None
    send(state.supervisor, signal.SIGKILL)
    follower = psutil.Process(state.trainer.pid)
    wait_for(lambda: is_over(follower))
    assert (observed_state(run).state, program.poll()) == ("lost", None)
    assert "still runs" in project.run("archive", "train").stderr
    assert project.json("stop", "train", "--yes")["ended"]
    assert program.wait() != 0 and is_over(child)


def test_a_killed_follower_leaves_a_lost_run_whose_program_is_adopted_again(
    project: Project, start: Start
) -> None:
    loop = start("sh", "-c", LOOP.format(1000))
    run = adopted(project, "first", loop.pid)
    state = recorded_state(run)
    assert state is not None and state.trainer is not None
    send(state.trainer, signal.SIGKILL)
    assert (ended(run).reason or "").startswith(f"what followed process {loop.pid} ended")
    at_step(adopted(project, "second", loop.pid), 2)


def test_a_reused_pid_is_never_signalled(project: Project, start: Start) -> None:
    """The manifest of the run names this process, but with the start time of an earlier one."""
    loop = start("sh", "-c", LOOP.format(1000))
    run = adopted(project, "loop", loop.pid)
    state = recorded_state(run)
    assert state is not None and state.supervisor is not None
    send(state.supervisor, signal.SIGKILL)
    text = run.manifest_file.read_text()
    identity = identify(loop.pid)
    assert identity is not None and f'"start": {identity.start}' in text
    earlier = f'"start": {identity.start - 1}'
    run.manifest_file.write_text(text.replace(f'"start": {identity.start}', earlier))
    project.run("stop", "loop", "--yes", "--trust")
    assert loop.poll() is None


@pytest.mark.thorough
def test_a_run_is_queued_behind_an_adopted_program(project: Project, start: Start) -> None:
    loop = start("sh", "-c", LOOP.format(1000))
    adopted(project, "first", loop.pid)
    project.run("run", "--name", "second", "--after", "first", "--", "true")
    second = Run(project.path / "runs" / "second")
    wait_for(lambda: "run first (running" in (observed_state(second).waiting_for or ""))
    loop.kill()
    loop.wait()
    assert ended(second).state == "finished"
    assert "whether it succeeded is unknown" in second.events.read_text()


def test_output_that_goes_through_tee_is_found(project: Project, start: Start) -> None:
    loop = start("sh", "-c", LOOP.format(1000), stdout=subprocess.PIPE)
    tee = Popen(["tee", project.path / "tee.log"], stdin=loop.stdout, stdout=DEVNULL)
    try:
        wait_for((project.path / "tee.log").exists)
        at_step(adopted(project, "piped", loop.pid), 3)
    finally:
        loop.kill()
        tee.wait()


def test_a_program_that_prints_to_no_file_is_adopted_with_a_warning(
    project: Project, start: Start
) -> None:
    sleep = start("sleep", "600", stdout=DEVNULL)
    done = project.run("adopt", str(sleep.pid), "--dry-run")
    assert done.returncode == 0
    assert done.stderr.startswith(f"warning: process {sleep.pid} prints to no file")


def test_a_log_is_quiet_when_it_does_not_grow_and_running_when_it_does(project: Project) -> None:
    log = project.path / "train.log"
    log.write_text("step=1 loss=3\n")
    an_hour_ago = time.time() - 3600
    os.utime(log, (an_hour_ago, an_hour_ago))
    run = adopted(project, "log", log)
    wait_for(lambda: observed_state(run).state == "stalled")
    assert (observed_state(run).reason or "").startswith("quiet since ")
    with log.open("a") as handle:
        handle.write("step=2 loss=2\n")
    wait_for(lambda: (observed_state(run).state, observed_state(run).step) == ("running", 2))


@pytest.mark.parametrize(("last", "expected"), [(30, "finished"), (29, "lost")])
def test_a_log_that_has_its_last_step_is_a_finished_run(
    project: Project, last: int, expected: str
) -> None:
    log = project.path / "train.log"
    bars = [f"{step * 100 // 30:3}%|##| {step}/30 [00:10<00:10]\n" for step in (10, last)]
    log.write_text("".join(f"{bar}{{'loss': 0.5, 'learning_rate': 1e-5}}\n" for bar in bars))
    hours = 1 if last == 30 else 48
    os.utime(log, (time.time() - hours * 3600,) * 2)
    state = ended(adopted(project, "old", log))
    assert (state.state, state.step, state.total_steps) == (expected, last, 30)


def test_a_log_of_last_week_is_a_run_whose_end_is_unknown(project: Project) -> None:
    log = project.path / "train.log"
    log.write_text("step=1 loss=3\nstep=2 loss=2\n")
    last_week = time.time() - 7 * 86400
    os.utime(log, (last_week, last_week))
    state = ended(adopted(project, "old", log))
    assert (state.state, state.step, state.ended) == ("lost", 2, pytest.approx(last_week, abs=1))
    done = project.run("adopt", str(log))
    assert (done.returncode, "was adopted as run 'old'" in done.stderr) == (2, True)


@pytest.mark.row("V38")
@pytest.mark.parametrize(("code", "expected"), [(0, "finished"), (1, "failed")])
def test_an_offline_run_of_w_and_b_has_its_steps_and_its_recorded_end(
    project: Project, code: int, expected: str
) -> None:
    folder = project.path / "wandb" / "offline-run-20260101_120000-abc"
    folder.mkdir(parents=True)
    steps = [history(loss=3 - step, _step=step) for step in (1, 2)]
    begun = time.time() - 3600
    rate = message((1, message((1, "lr"), (16, "0.001"))))
    name, start = (8, "agent 7"), (17, message((1, int(begun))))
    about = message((17, message((4, rate), name, (10, "baseline"), (10, "not a tag!"), start)))
    ending = message((18, message((1, code))))
    (folder / "run-abc.wandb").write_bytes(wandb_log([about, *steps, ending]))
    planned = project.json("adopt", str(folder), "--dry-run")
    assert planned["run"].startswith("agent-7")
    state = ended(adopted(project, "night", folder))
    assert (state.state, state.step) == (expected, 2)
    assert project.json("config", "night")["values"]["lr"]["value"] == 0.001
    (row,) = project.json("runs")["runs"]
    assert (row["tags"], row["duration_s"]) == (["baseline"], pytest.approx(3600, abs=60))


def test_a_stop_of_a_log_is_refused_in_one_line(project: Project) -> None:
    log = project.path / "train.log"
    log.write_text("step=1 loss=3\n")
    adopted(project, "log", log)
    done = project.run("stop", "log")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--detach" in done.stderr


def test_what_is_adopted_already_is_refused(project: Project, start: Start) -> None:
    loop = start("sh", "-c", LOOP.format(1000))
    adopted(project, "loop", loop.pid)
    done = project.run("adopt", str(loop.pid))
    assert (done.returncode, done.stderr) == (
        2,
        f"error: process {loop.pid} is already adopted as run 'loop'\n",
    )


def test_a_process_of_a_run_is_refused(project: Project) -> None:
    project.run("run", "--name", "own", "--", "sleep", "600")
    run = Run(project.path / "runs" / "own")
    wait_for(lambda: (state := recorded_state(run)) is not None and state.trainer is not None)
    state = recorded_state(run)
    assert state is not None and state.trainer is not None
    done = project.run("adopt", str(state.trainer.pid))
    assert (done.returncode, "belongs to run 'own'" in done.stderr) == (2, True)
    project.run("stop", "own")


def test_a_zombie_is_refused(project: Project, start: Start) -> None:
    gone = start("true")
    wait_for(lambda: psutil.Process(gone.pid).status() == psutil.STATUS_ZOMBIE)
    done = project.run("adopt", str(gone.pid))
    assert (done.returncode, "has ended (zombie)" in done.stderr) == (2, True)


def test_the_program_that_launches_the_command_is_refused(project: Project) -> None:
    done = project.run("adopt", str(os.getpid()))
    assert (done.returncode, "is this command, or one that" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("0",), "error: no process 0 on this machine"),
        (("4194305",), "error: no process 4194305 on this machine"),
        (("9" * 30,), f"error: no process {'9' * 30} on this machine"),
        (("nosuch.log",), "error: nosuch.log: no such file or folder."),
        (("empty",), "error: "),
        (("text.log",), "error: "),
        (("text.log", "--log", "text.log"), "error: --log is for a process"),
        (("text.log", "--metrics", "text.log"), "error: --metrics text.log: adopt that path"),
        (("text.log", "--as", "pears"), "error: format 'pears' does not exist"),
    ],
)
def test_what_cannot_be_followed_is_refused_before_anything_is_written(
    project: Project, arguments: tuple[str, ...], message: str
) -> None:
    (project.path / "empty").mkdir()
    (project.path / "text.log").write_text("hello\n")
    done = project.run("adopt", *arguments)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith(message)
    assert not (project.path / "runs").exists()


def test_lines_of_two_files_do_not_mix(tmp_path: Path) -> None:
    out, err, console = tmp_path / "out", tmp_path / "err", tmp_path / "console"
    with console.open("wb") as handle:
        copy = LineCopy((out, err), handle.fileno())
        out.write_text("step=1 lo")
        err.write_text("warning\n")
        copy.copy()
        out.write_text("step=1 loss=3\nthe end")
        copy.copy()
        copy.copy_rest()
    assert console.read_text() == "warning\nstep=1 loss=3\nthe end\n"
