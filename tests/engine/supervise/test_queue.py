"""Runs that wait: real supervisors with a stand-in for the trainer, all in one runs folder."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine.base import jsonl
from engine.base.typed import to_json
from engine.launch.launcher import start_supervisor
from engine.run.events import ask_stop
from engine.run.host.gpus import Device
from engine.run.identity import Identity
from engine.run.manifest import Ticket
from engine.run.processes import identify, members, send
from engine.run.run import Run, run_ids
from engine.run.state import RunState, describe, observed_state, recorded_state, write_state
from engine.supervise import supervisor
from engine.supervise.queue import (
    Queue,
    QueueLog,
    QueuePlace,
    Start,
    Wait,
    end_record,
    join,
    line_up,
    log_path,
    release,
)
from engine.supervise.stopping import stop_run
from tests.waiting import PATIENCE_S, ended, wait_for

pytestmark = pytest.mark.waits

STANDIN = Path(__file__).with_name("standin.py")
SLOW = ("--sleep", "0.2")


class Folder:
    """A runs folder, and runs in it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def launch(
        self,
        name: str,
        *arguments: str,
        steps: int = 2,
        after: str | None = None,
        turn: bool = True,
        at_once: bool = False,
        supervise: bool = True,
        device: str = "cpu",
    ) -> Run:
        run = Run(self.root / name)
        run.attempt(1).path.mkdir(parents=True)
        manifest: dict[str, Any] = {
            "v": 1,
            "id": run.id,
            "kind": "grpo",
            "cwd": str(self.root),
            "total_steps": steps,
            "attempts": [
                {"number": 1, "argv": [sys.executable, str(STANDIN), str(steps), *arguments]}
            ],
            "config": {"grubrics.device": {"value": device}},
            "queue": None if at_once else to_json(Ticket(after, turn, 0, time.time())),
        }
        jsonl.write_json(run.manifest_file, manifest)
        write_state(run, RunState("starting" if at_once else "queued", heartbeat=time.time()))
        if supervise:
            start_supervisor(run)
        return run

    def line(self) -> Queue:
        return line_up(self.root)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    made = Folder(tmp_path / "runs")
    yield made
    for name in run_ids(made.root):
        ask_stop(Run(made.root / name))
    for name in run_ids(made.root):
        stop_run(Run(made.root / name))


def says(run: Run, text: str) -> Callable[[], bool]:
    return lambda: text in describe(observed_state(run))


def when(run: Run, event: str) -> float:
    return next(float(record["t"]) for record in jsonl.read(run.events) if record["event"] == event)


def one_behind_two_failures(folder: Folder) -> Run:
    """A run that waits while the two before it fail: the first does so once all have joined."""
    first = folder.launch("a", "--hang-at", "1", "--fail-at", "2", steps=5)
    folder.launch("b", "--fail-at", "1")
    third = folder.launch("c")
    (first.attempt(1).path / "go").touch()
    return third


def supervisor_of(run: Run) -> Any:
    state = recorded_state(run)
    assert state is not None and state.supervisor is not None
    return state.supervisor


def test_runs_start_in_the_order_in_which_they_joined(folder: Folder) -> None:
    runs = [folder.launch(name) for name in ("c", "a", "b")]
    assert [ended(run).state for run in runs] == ["finished"] * 3
    starts = [when(run, "start") for run in runs]
    assert starts == sorted(starts)


@pytest.mark.thorough
def test_a_waiting_run_says_for_which_run_and_how_far_that_is(folder: Folder) -> None:
    folder.launch("first", *SLOW, steps=500)
    second = folder.launch("second")
    third = folder.launch("third")
    wait_for(says(second, "queued: its turn: run first (running, step "))
    wait_for(says(third, "queued: its turn: 1 run ahead (second)"))
    assert [run.id for run in folder.line().runs] == ["second", "third"]


@pytest.mark.thorough
def test_a_run_that_was_launched_without_the_queue_is_waited_for_too(folder: Folder) -> None:
    folder.launch("direct", *SLOW, steps=500, at_once=True)
    second = folder.launch("second")
    wait_for(says(second, "its turn: run direct (running"))


def test_a_run_after_another_starts_when_that_has_finished(folder: Folder) -> None:
    first = folder.launch("first", at_once=True)
    second = folder.launch("second", after="first", turn=False)
    assert ended(second).state == "finished"
    assert when(second, "start") >= when(first, "end")
    assert "warning" not in {record["event"] for record in jsonl.read(second.events)}


@pytest.mark.thorough
def test_a_run_after_an_unhealthy_run_starts_with_a_warning(folder: Folder) -> None:
    refused = "openai.AuthenticationError: Error code: 401 - Incorrect API key provided"
    folder.launch("first", "--say", "2", refused, steps=4, at_once=True)
    second = folder.launch("second", after="first", turn=False)
    assert ended(second).state == "finished"
    (warning,) = (record for record in jsonl.read(second.events) if record["event"] == "warning")
    assert warning["message"].startswith("run 'first' finished, but is unhealthy: ")


def test_a_slow_examination_of_the_run_before_leaves_heartbeats_and_stops(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "HEARTBEAT_S", 0.01)
    second = folder.launch("second", after="first", supervise=False)
    never = (sys.executable, "-c", "import time; time.sleep(3600)")
    supervising = supervisor.Supervisor(second, ask_doctor=lambda run: never)
    beats: set[float | None] = set()
    with ThreadPoolExecutor(1) as pool:
        starts = pool.submit(supervising.examine_predecessor)
        wait_for(says(second, "diagnosis of run 'first'"))
        wait_for(lambda: len(beats_of(second, beats)) > 3)
        ask_stop(second)
        assert not starts.result(timeout=PATIENCE_S)
    supervising.writer.flush()
    state = recorded_state(second)
    assert state is not None
    assert (state.state, state.reason) == ("finished", "stopped by user before it started")


def beats_of(run: Run, before: set[float | None]) -> set[float | None]:
    """The different heartbeats of a run that were seen so far."""
    state = recorded_state(run)
    before.add(None if state is None else state.beat)
    return before


def test_an_examination_that_fails_is_a_warning_and_the_run_starts(folder: Folder) -> None:
    second = folder.launch("second", after="first", supervise=False)
    broken = (sys.executable, "-c", "raise SystemExit('no numpy')")
    supervising = supervisor.Supervisor(second, ask_doctor=lambda run: broken)
    assert supervising.examine_predecessor()
    supervising.writer.flush()
    (warning,) = (event for event in jsonl.read(second.events) if event["event"] == "warning")
    assert "could not examine run 'first': no numpy" in warning["message"]


def test_a_run_after_a_failed_run_is_not_started(folder: Folder) -> None:
    folder.launch("first", "--fail-at", "2", *SLOW, steps=5, at_once=True)
    second = folder.launch("second", after="first", turn=False)
    third = folder.launch("third", after="second")
    assert (ended(second).reason or "").startswith("not started: run 'first' failed: exit code 1")
    state = ended(third)
    assert state.state == "failed"
    assert (state.reason or "").startswith("not started: run 'second' failed: not started")
    assert not third.attempt(1).console.exists()


@pytest.mark.thorough
def test_a_run_after_a_stopped_run_is_not_started(folder: Folder) -> None:
    first = folder.launch("first", *SLOW, steps=500)
    second = folder.launch("second", after="first")
    stop_run(first)
    assert (ended(second).reason or "").startswith("not started: run 'first' was stopped by user")


@pytest.mark.thorough
def test_a_run_after_a_lost_run_is_not_started(folder: Folder) -> None:
    first = folder.launch("first", *SLOW, steps=500, at_once=True)
    second = folder.launch("second", after="first")
    send(supervisor_of(first), signal.SIGKILL)
    assert (ended(second).reason or "").startswith("not started: run 'first' is lost: ")


def test_a_run_after_a_removed_run_is_not_started(folder: Folder) -> None:
    second = folder.launch("second", after="never-there")
    assert (ended(second).reason or "").startswith("not started: run 'never-there' is lost")


def test_a_queued_run_can_be_stopped_and_never_starts(folder: Folder) -> None:
    folder.launch("first", *SLOW, steps=500)
    second = folder.launch("second")
    done = stop_run(second)
    assert done.ended
    assert (done.state, done.reason) == ("stopped", "stopped by user before it started")
    assert [record["event"] for record in jsonl.read(second.events)] == ["queued", "end"]


@pytest.mark.thorough
def test_the_next_run_does_not_wait_for_one_that_was_stopped_in_the_queue(folder: Folder) -> None:
    first = folder.launch("first", *SLOW, steps=500)
    second, third = folder.launch("second"), folder.launch("third")
    stop_run(second)
    stop_run(first)
    assert ended(third).state == "finished"


def test_a_queued_run_without_supervisor_is_lost_and_does_not_block_the_queue(
    folder: Folder,
) -> None:
    first = folder.launch("first", *SLOW, steps=500)
    second, third = folder.launch("second"), folder.launch("third")
    send(supervisor_of(second), signal.SIGKILL)
    wait_for(lambda: observed_state(second).has_ended)
    assert describe(observed_state(second)) == ("lost: supervisor died while the run was queued")
    stop_run(first)
    assert ended(third).state == "finished"
    assert members(second) == []


def test_two_failures_right_after_the_start_hold_the_rest_until_released(folder: Folder) -> None:
    third = one_behind_two_failures(folder)
    held = (
        "held: runs a and b failed within 120 s of their start. "
        "Release the queue: grubrics-tui queue --release"
    )
    wait_for(says(third, f"queued: {held}"))
    assert folder.line().held == held
    release(folder.root)
    assert ended(third).state == "finished"


def test_a_held_run_can_be_stopped(folder: Folder) -> None:
    third = one_behind_two_failures(folder)
    wait_for(says(third, "held"))
    assert stop_run(third).reason == "stopped by user before it started"


@pytest.mark.thorough
def test_six_runs_that_join_at_once_never_run_at_once(folder: Folder) -> None:
    runs = [folder.launch(f"run-{number}", supervise=False) for number in range(6)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(start_supervisor, runs))
    assert [ended(run).state for run in runs] == ["finished"] * 6
    spans = sorted((when(run, "start"), when(run, "end")) for run in runs)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))


@pytest.mark.thorough
def test_a_waiting_supervisor_is_small(folder: Folder) -> None:
    folder.launch("first", *SLOW, steps=500)
    second = folder.launch("second")
    assert psutil.Process(supervisor_of(second).pid).memory_info().rss < 40 * 2**20


DEVICES = [Device(0, "GPU-a", 0), Device(1, "GPU-b", 0)]


def place_on_gpus(folder: Folder, name: str, count: int) -> QueuePlace:
    """A place of a run that is led by this process."""
    run = folder.launch(name, supervise=False)
    write_state(run, RunState("queued", supervisor=identify(os.getpid())))
    return QueuePlace(run, Ticket(turn=True, gpus=count), devices=lambda: DEVICES)


def start_on(folder: Folder, name: str, variable: str | None) -> None:
    state = RunState("running", supervisor=identify(os.getpid()), gpus=variable)
    write_state(Run(folder.root / name), state)


def finish(folder: Folder, name: str) -> None:
    write_state(Run(folder.root / name), RunState("finished"))


def test_two_runs_share_a_machine_when_there_are_gpus_for_both(folder: Folder) -> None:
    first, second = (place_on_gpus(folder, name, 1) for name in ("first", "second"))
    assert first.decide() == Start((0,))
    assert second.decide() == Wait("its turn: 1 run ahead (first)")
    start_on(folder, "first", "0")
    assert second.decide() == Start((1,))
    finish(folder, "first")
    finish(folder, "second")


def test_a_small_run_does_not_overtake_one_that_waits_for_more_gpus(folder: Folder) -> None:
    running, large, small = (
        place_on_gpus(folder, name, count) for name, count in (("a", 1), ("b", 2), ("c", 1))
    )
    assert isinstance(running.decide(), Start)
    start_on(folder, "a", "0")
    assert large.decide() == Wait("2 free GPUs: 0 is used by run a")
    assert small.decide() == Wait("its turn: 1 run ahead (b)")
    for name in "abc":
        finish(folder, name)


def test_a_run_that_has_finished_may_be_moved_while_its_follower_waits(folder: Folder) -> None:
    folder.launch("old", supervise=False)
    finish(folder, "old")
    place_on_gpus(folder, "large", 3)
    run = folder.launch("next", supervise=False)
    place = QueuePlace(run, Ticket(after="old", turn=True, gpus=1), devices=lambda: DEVICES)
    assert place.decide() == Wait("its turn: 1 run ahead (large)")
    (folder.root / "old").rename(folder.root.parent / "old")
    finish(folder, "large")
    assert place.decide() == Start((0,))
    finish(folder, "next")


def test_a_run_on_the_cpu_holds_no_gpu(folder: Folder) -> None:
    place_on_gpus(folder, "on-cpu", 1)
    start_on(folder, "on-cpu", None)
    assert place_on_gpus(folder, "next", 2).decide() == Start((0, 1))
    finish(folder, "on-cpu")
    finish(folder, "next")


def test_the_trainer_sees_the_chosen_gpus_and_counts_them_as_we_do() -> None:
    assert Start((2, 0)).environment == {
        "CUDA_VISIBLE_DEVICES": "2,0",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


@pytest.mark.parametrize(("variable", "gpus"), [("1,3", "1,3"), (None, "all")])
def test_a_run_without_the_queue_has_the_gpus_that_it_sees(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, variable: str | None, gpus: str
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if variable is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    run = folder.launch("direct", *SLOW, steps=500, at_once=True, device="cuda")
    assert observed_state(run).gpus == gpus


def test_without_its_log_the_queue_still_lets_only_one_run_start(folder: Folder) -> None:
    place_on_gpus(folder, "old", 1)
    log_path(folder.root).unlink()
    newcomer = place_on_gpus(folder, "new", 1)
    assert newcomer.decide() == Wait("its turn: 1 run ahead (old)")
    finish(folder, "old")
    finish(folder, "new")


def test_runs_of_another_host_have_a_queue_of_their_own(folder: Folder) -> None:
    away = folder.launch("away", supervise=False)
    elsewhere = Identity(1, 1, "another boot")
    write_state(
        away,
        RunState("queued", supervisor=elsewhere, host="elsewhere", heartbeat=time.time()),
    )
    assert place_on_gpus(folder, "here", 1).decide() == Start((0,))
    finish(folder, "away")
    finish(folder, "here")


class Log:
    """A queue's log, and what it says of a run."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def end(
        self, run: str, ran_s: float = 1.0, state: Any = "failed", stepped: bool = True
    ) -> None:
        jsonl.append(log_path(self.root), end_record(run, state, ran_s, 120.0, stepped))

    def hold(self, run: str) -> str | None:
        log = QueueLog(self.root)
        log.refresh()
        return log.hold(run)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    join(tmp_path, "waits")
    return Log(tmp_path)


def test_one_failure_does_not_hold_the_queue(log: Log) -> None:
    log.end("a")
    assert log.hold("waits") is None


def test_a_success_in_between_breaks_the_row(log: Log) -> None:
    log.end("a")
    log.end("b", state="finished")
    log.end("c")
    assert log.hold("waits") is None


def test_a_late_failure_is_another_matter(log: Log) -> None:
    log.end("a")
    log.end("b", ran_s=121.0)
    assert log.hold("waits") is None


def test_a_late_failure_before_the_first_step_counts(log: Log) -> None:
    log.end("a")
    log.end("b", ran_s=3600.0, stepped=False)
    assert "within 120 s of their start or before their first step" in (log.hold("waits") or "")


def test_a_run_that_joins_after_the_failures_is_not_held(log: Log) -> None:
    log.end("a")
    log.end("b")
    join(log.root, "newcomer")
    assert log.hold("waits") is not None
    assert log.hold("newcomer") is None


def test_records_of_an_earlier_boot_do_not_count(log: Log) -> None:
    for run in ("a", "b"):
        record = end_record(run, "failed", 1.0, 120.0, True)
        jsonl.append(log_path(log.root), {**record, "boot": "before"})
    assert log.hold("waits") is None
