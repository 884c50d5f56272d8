"""What holds a run up is named: the process, its state, its place."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from engine.run.host.programs import own_module
from engine.run.processes import identify
from engine.supervise.hang import Member, find_hang, sample_members, working_frame
from tests.waiting import wait_for

pytestmark = pytest.mark.long

STUB = """Process 12: python -I -S zygote_client.py
Thread 12 (idle): "MainThread"
    main (engine/train/zygote_client.py:24)
    <module> (engine/train/zygote_client.py:38)
"""
DRIVER = """Process 10: python -m engine.train.grpo
Thread 10 (idle): "MainThread"
    get_objects (ray/_private/worker.py:1023)
    get (ray/_private/worker.py:2961)
    train (engine/train/grpo.py:92)
"""
IDLE_ACTOR = """Thread 14 (idle): "MainThread"
    main_loop (ray/_private/worker.py:990)
    <module> (ray/_private/workers/default_worker.py:334)
"""
HANGING_REWARD = (
    IDLE_ACTOR
    + """Thread 15 (active): "AsyncIO Thread: default"
    compute_score (reward.py:7)
    run_single (engine/train/reward_entry.py:80)
    _run (asyncio/events.py:84)
"""
)
IDLE_REWARD = """Thread 15 (idle): "MainThread"
    _exactly (engine/reward/own/wire.py:78)
    receive (engine/reward/own/wire.py:72)
    Scorer.serve_in_turn (engine/reward/own/child.py:102)
    main (engine/reward/own/child.py:78)
"""
ASKING_JUDGE = (
    IDLE_ACTOR
    + """Thread 15 (idle): "AsyncIO Thread: default"
    read (httpcore/_backends/anyio.py:34)
    _run (asyncio/events.py:84)
"""
)


def member(pid: int, name: str, state: str = "S", busy: float = 0.0) -> Member:
    return Member(pid, name, state, busy)


def told(*members: Member, **stacks: str) -> str:
    hang = find_hang(members, lambda pid: stacks.get(f"p{pid}"))
    return "" if hang is None else hang.text


def test_a_stopped_worker_is_named_with_the_way_on() -> None:
    text = told(member(14, "WorkerDict", "T"), member(10, "driver"), p10=DRIVER)
    waits = "driver 10 waits in ray.get for WorkerDict 14"
    assert text == f"{waits}, which is stopped (state T): kill -CONT 14"


def test_a_coordinator_that_waits_for_another_reason_is_named_without_one() -> None:
    text = told(member(14, "WorkerDict", "T"), member(10, "TaskRunnerV1"), p10=IDLE_ACTOR)
    assert text.startswith("TaskRunnerV1 10 waits for WorkerDict 14, which is stopped")


@pytest.mark.parametrize("stack", ["", 'Thread 10 (active): "MainThread"\n    loop (mine.py:3)\n'])
def test_a_coordinator_that_is_not_known_to_wait_is_not_named(stack: str) -> None:
    text = told(member(14, "WorkerDict", "T"), member(10, "driver"), p10=stack)
    assert text.startswith("WorkerDict 14 is stopped")


def test_a_disk_that_does_not_answer_holds_a_worker() -> None:
    assert "waits for a disk" in told(member(14, "WorkerDict", "D"), member(10, "driver"))


def test_a_spinning_worker_is_named_with_its_location() -> None:
    stack = 'Thread 14 (active): "MainThread"\n    loop (mine.py:3)\n'
    text = told(member(14, "WorkerDict", "R", busy=1.0), member(10, "driver"), p14=stack)
    assert text == "WorkerDict 14 runs at 100% of a core, in loop (mine.py:3)"


def test_a_zombie_worker_is_named() -> None:
    assert "state Z" in told(member(14, "ray::WorkerDict", "Z"), member(10, "driver"), p10=DRIVER)


def test_the_location_of_a_hang_is_the_users_code_and_not_its_callers() -> None:
    members = member(14, "RewardLoopWorker"), member(10, "driver")
    text = told(*members, p14=HANGING_REWARD, p10=DRIVER)
    waits = "driver 10 waits in ray.get for RewardLoopWorker 14"
    assert text == f"{waits}, which is in compute_score (reward.py:7)"


def test_a_worker_that_waits_for_the_judge_says_so() -> None:
    members = member(14, "RewardLoopWorker"), member(10, "driver")
    own = ASKING_JUDGE.replace("httpcore/_backends/anyio.py", "engine/reward/judge/api.py")
    for stack in (ASKING_JUDGE, own):
        assert "reply from the judge" in told(*members, p14=stack, p10=DRIVER)


def test_a_connection_that_no_frame_shows_is_the_judges() -> None:
    waits = Member(14, "RewardLoopWorker", "S", connected="203.0.113.5:443")
    text = told(waits, member(10, "TaskRunnerV1"), p14=IDLE_ACTOR, p10=DRIVER)
    told_first = "TaskRunnerV1 10 waits in ray.get for RewardLoopWorker 14"
    assert text == f"{told_first}, which waits for a reply from 203.0.113.5:443"


def test_the_coordinator_is_not_the_location_of_a_hang_while_workers_exist() -> None:
    polls = 'Thread 10 (active): "MainThread"\n    poll (verl/buffer.py:409)\n'
    text = told(member(14, "WorkerDict"), member(10, "TaskRunnerV1"), p14=IDLE_ACTOR, p10=polls)
    assert text.startswith("driver and workers wait for each other")


def test_neither_the_fork_stub_nor_ray_get_is_the_location_of_a_hang() -> None:
    assert (
        working_frame(STUB) is None
        and working_frame(DRIVER) is None
        and working_frame(IDLE_ACTOR) is None
    )
    text = told(member(14, "WorkerDict"), member(10, "driver"), p14=IDLE_ACTOR, p10=DRIVER)
    assert text == "driver and workers wait for each other (WorkerDict 14, driver 10)"


def test_a_reward_function_that_is_not_being_called_is_not_the_location_of_a_hang() -> None:
    own = member(15, "engine.reward.own.child")
    text = told(member(14, "RewardLoopWorker"), own, p14=IDLE_ACTOR, p15=IDLE_REWARD)
    assert text.startswith("driver and workers wait for each other")
    called = IDLE_REWARD.replace("_exactly (engine/reward/own/wire.py:78)", "score (reward.py:7)")
    text = told(member(14, "RewardLoopWorker"), own, p14=IDLE_ACTOR, p15=called)
    assert text == "engine.reward.own.child 15 is in score (reward.py:7)"


def test_a_module_of_this_project_is_named_however_it_was_started(tmp_path: Path) -> None:
    script = tmp_path / "sleeper.py"
    script.write_text("import time; time.sleep(60)")
    _, *flags, root, name = own_module("engine.reward.own.child")
    started = [
        "import time; time.sleep(60)" if flag.startswith("import") else flag for flag in flags
    ]
    for arguments, named in (([*started, root, name], name), ([str(script)], "sleeper.py")):
        with child(*arguments) as pid:
            wait_for(partial(identify, pid))
            (result,) = sample_members([each for each in (identify(pid),) if each], None)
            assert result.name == named


def test_without_visible_processes_there_is_no_hang() -> None:
    assert find_hang([member(14, "WorkerDict")], lambda pid: None) is None


@contextmanager
def child(*arguments: str) -> Iterator[int]:
    process = subprocess.Popen([sys.executable, *arguments])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("code", "held"), [("import time; time.sleep(60)", "T"), ("while True: pass", "spinning")]
)
def test_real_processes_are_sampled_with_state_and_cpu_time(code: str, held: str) -> None:
    with child("-c", code) as pid:
        wait_for(lambda: identify(pid) is not None)
        if held == "T":
            os.kill(pid, signal.SIGSTOP)
            wait_for(lambda: _state(pid) == "T")
        (one,) = sample_members([found for found in (identify(pid),) if found], None)
        assert one.pid == pid
        if held == "T":
            hang = find_hang([one], lambda _: None)
            assert hang is not None and hang.kind == "stopped"
        else:
            assert one.busy > 0


def _state(pid: int) -> str:
    with Path(f"/proc/{pid}/stat").open(encoding="ascii") as file:
        return file.read().rpartition(")")[2].split()[0]
