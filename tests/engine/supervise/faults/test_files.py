"""Somebody truncates, rotates, deletes or garbles the files of a run that goes on."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from engine.base import jsonl
from engine.base.follow import Tail
from engine.run.history.live import RunWatch
from engine.run.history.train_log import StepJoiner
from engine.run.processes import alive, identify
from engine.run.run import Run
from engine.run.state import RunState, observe, observed_state, recorded_state, this_host
from engine.supervise.reaper import find_orphans
from engine.supervise.stopping import stop_run
from tests.engine.supervise.faults.stage import (
    Stage,
    deleted,
    events,
    in_state,
    logged,
    supervisor_of,
    trainer_of,
)
from tests.waiting import ended, wait_for

pytestmark = pytest.mark.waits


def go_on(run: Run) -> None:
    (run.attempt(1).path / "go").touch()


def truncate(log: Path) -> None:
    os.truncate(log, 0)


def rotate(log: Path) -> None:
    log.rename(log.with_name("console.log.1"))
    log.touch()


def delete(log: Path) -> None:
    log.unlink()


@pytest.mark.parametrize("meddle", [truncate, rotate, delete])
def test_no_later_line_of_the_console_is_lost(stage: Stage, meddle: Callable[[Path], None]) -> None:
    run = stage.start("--hang-at", "4", steps=9)
    wait_for(lambda: logged(run) == [1, 2, 3])
    wait_for(lambda: run.attempt(1).console.read_bytes().count(b"\n") == 3)
    screen = RunWatch(run)
    lines = screen.poll().console
    meddle(run.attempt(1).console)
    go_on(run)
    while not (update := screen.poll()).state.has_ended:
        lines += update.console
        time.sleep(0.02)
    lines += update.console
    assert [line.split(b" ")[0] for line in lines] == [b"step:%d" % n for n in range(1, 10)]
    assert update.state.state == "finished"


def test_lines_written_just_before_a_rotation_are_read(tmp_path: Path) -> None:
    path = tmp_path / "console.log"
    path.write_bytes(b"one\n")
    tail = Tail(path)
    tail.lines()
    with path.open("ab") as writer:
        writer.write(b"two\n")
        writer.flush()
        rotate(path)
        path.write_bytes(b"three\n")
        assert tail.lines() == [b"two", b"three"]
        writer.write(b"four\n")
        writer.flush()
        assert tail.lines() == [b"four"]


def test_a_log_that_was_truncated_and_grew_longer_since_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "console.log"
    path.write_bytes(b"old\n")
    tail = Tail(path)
    tail.lines()
    path.write_bytes(b"a line that is longer than all before\n")
    assert tail.lines() == [b"a line that is longer than all before"]


NOISE = {
    "torn": b'{"step": 2, "da',
    "nul bytes": b"\0\0\0\0",
    "half a character": '{"step": 2, "data": {"ä'.encode()[:-1],
    "no utf-8": b"\xff\xfe\xfd",
    "another type": b'[1, 2]\n"text"\nnull',
    "strange values": b'{"step": "two", "data": 5}\n{"step": 1e400, "data": {}}',
    "ten megabytes": b'{"step": 2, "data": {"x": "' + b"y" * 10_000_000 + b'"}',
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("noise", NOISE.values(), ids=NOISE.keys())
@pytest.mark.parametrize("name", ["metrics.jsonl", "reward.jsonl"])
def test_noise_in_a_file_costs_only_itself(stage: Stage, name: str, noise: bytes) -> None:
    run = stage.start("--hang-at", "3", steps=4)
    wait_for(lambda: logged(run) == [1, 2])
    with (run.attempt(1).path / name).open("ab") as handle:
        handle.write(noise + b"\n")
    go_on(run)
    assert ended(run).state == "finished"
    assert logged(run) == [1, 2, 3, 4]


@pytest.mark.parametrize("name", ["metrics.jsonl", "reward.jsonl"])
def test_a_file_truncated_in_mid_run_costs_no_later_step(stage: Stage, name: str) -> None:
    run = stage.start("--hang-at", "3", steps=4)
    wait_for(lambda: logged(run) == [1, 2])
    os.truncate(run.attempt(1).path / name, 0)
    go_on(run)
    assert ended(run).state == "finished"
    assert logged(run) == [1, 2, 3, 4]
    assert [record["metrics"]["reward/mean"] for record in jsonl.read(run.train_log)] == [0.5] * 4


def test_a_metrics_file_truncated_under_its_open_writer_costs_no_later_step(stage: Stage) -> None:
    """verl holds the file open and goes on behind a hole of zeros."""
    run = stage.prepare()
    joiner = StepJoiner(run.attempt(1))
    with run.attempt(1).metrics.open("wb", buffering=0) as writer:
        for step in (1, 2):
            writer.write(json.dumps({"step": step, "data": {}}).encode() + b"\n")
        assert [step.step for step in joiner.new_steps()] == [1, 2]
        os.truncate(run.attempt(1).metrics, 0)
        writer.write(json.dumps({"step": 3, "data": {}}).encode() + b"\n")
        assert [step.step for step in joiner.new_steps()] == [3]


def test_a_metrics_file_written_again_doubles_no_step(stage: Stage) -> None:
    run = stage.start("--hang-at", "3", steps=4)
    wait_for(lambda: logged(run) == [1, 2])
    metrics = run.attempt(1).metrics
    shutil.copy(metrics, metrics.with_name("copy"))
    metrics.with_name("copy").replace(metrics)
    time.sleep(0.6)  # The supervisor has looked at it by then, or looks at it later.
    go_on(run)
    assert ended(run).state == "finished"
    assert logged(run) == [1, 2, 3, 4]


def test_a_directory_at_the_path_of_the_metrics_does_not_end_the_run(stage: Stage) -> None:
    run = stage.start("--hang-at", "2", "--patient")
    wait_for(lambda: logged(run) == [1])
    run.attempt(1).metrics.unlink()
    run.attempt(1).metrics.mkdir()
    go_on(run)
    time.sleep(0.6)
    assert observed_state(run).state in ("starting", "running")
    run.attempt(1).metrics.rmdir()
    assert ended(run).state == "finished"
    assert logged(run) == [1, 2, 3]


def replace_by_directory(path: Path) -> None:
    """Its supervisor may write a new one in between."""
    while not path.is_dir():
        path.unlink(missing_ok=True)
        with suppress(FileExistsError):
            path.mkdir()


BREAK = {
    "torn": lambda path: path.write_text('{"v": 1, "state": "runn'),
    "empty": truncate,
    "garbage": lambda path: path.write_bytes(b"\xff\0\x1b[2J"),
    "missing": delete,
    "a directory": replace_by_directory,
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("spoil", BREAK.values(), ids=BREAK.keys())
def test_a_broken_state_file_is_replaced_before_any_command_acts_on_it(
    stage: Stage, spoil: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.run.state._REWRITE_S", 60.0)  # its supervisor may be kept waiting
    run = stage.long()
    screen = RunWatch(run)
    screen.poll()
    spoil(run.state_file)
    assert screen.poll().state.state in ("starting", "running")
    assert find_orphans(stage.root) == []
    in_state(run, "running")
    assert stop_run(run).ended


def test_an_attempt_directory_that_was_deleted_does_not_hide_the_end(stage: Stage) -> None:
    run = stage.long()
    wait_for(lambda: deleted(run.attempt(1).path))
    state = ended(run)
    assert state.state == "failed"
    assert (state.reason or "").startswith("exit code 1 at step ")
    assert len(events(run, "end")) == 1


def test_a_run_on_another_machine_is_judged_by_its_heartbeat(stage: Stage) -> None:
    run = stage.long()
    state = recorded_state(run)
    assert state is not None and state.supervisor is not None
    far = RunState(
        "running",
        supervisor=state.supervisor.__class__(1, 1, "another boot"),
        heartbeat=time.time(),
        host="far-away",
    )
    assert observe(far) == far
    silent = observe(far.evolve(heartbeat=time.time() - 61))
    assert silent.state == "lost"
    reason = silent.reason or ""
    assert reason.startswith("no heartbeat from its supervisor on far-away; last heartbeat")


def test_a_run_of_an_earlier_boot_is_lost_and_says_so() -> None:
    own = identify(os.getpid())
    assert own is not None and alive(own)
    state = RunState("running", supervisor=own.__class__(own.pid, own.start, "before"))
    lost = observe(state.evolve(heartbeat=time.time(), host=this_host()))
    assert lost.state == "lost"
    assert (lost.reason or "").startswith("the machine was restarted; last heartbeat at 2")


def test_a_run_whose_directory_is_deleted_is_seen_by_its_reader(stage: Stage) -> None:
    run = stage.long()
    screen = RunWatch(run)
    screen.poll()
    supervisor, trainer = supervisor_of(run), trainer_of(run)
    wait_for(lambda: deleted(run.path))
    wait_for(lambda: screen.poll().state.has_ended)
    wait_for(lambda: not alive(supervisor) and not alive(trainer))
