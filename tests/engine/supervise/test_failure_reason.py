"""The reason of a failed run names the cause and not its last consequence."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.base import jsonl
from engine.run.run import Attempt
from engine.supervise.final_state import Evidence, Exit, final_state, find_failure_reason

RED, CYAN, PLAIN = "\x1b[31m", "\x1b[36m", "\x1b[0m"

DEAD_ACTOR = [
    "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
    "\tclass_name: make_class.<locals>.WorkerDict",
    "\tactor_id: 0123",
    "\tpid: 4711",
    "\tname: abcWorkerDict_0:0",
]
NO_REWARDS = "x.TooFewRewardsError: step 5: 8 of 8 rollouts got no reward; it says more"


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    made = Attempt(tmp_path / "attempt_1")
    made.path.mkdir()
    return made


@pytest.fixture
def why(attempt: Attempt, tmp_path: Path) -> Callable[..., str | None]:
    def ask(*lines: str) -> str | None:
        attempt.console.write_text("".join(f"{line}\n" for line in lines))
        return find_failure_reason(attempt, tmp_path)

    return ask


def test_an_exception_is_named(why: Callable[..., str | None]) -> None:
    result = why("Traceback (most recent call last):", "ValueError: a shape does not fit", "bye")
    assert result == "ValueError: a shape does not fit"


def test_an_exception_of_a_rank_is_named(why: Callable[..., str | None]) -> None:
    result = why("[rank0]: Traceback (most recent call last):", "[rank0]: ValueError: a shape")
    assert result == "ValueError: a shape"


def test_a_console_without_an_error_has_no_cause(why: Callable[..., str | None]) -> None:
    assert why("step:1 - loss:0.5", "what an error: may look like") is None


def test_a_missing_console_has_no_cause(attempt: Attempt, tmp_path: Path) -> None:
    assert find_failure_reason(attempt, tmp_path) is None


def test_a_killed_ray_worker_is_named_with_its_pid(why: Callable[..., str | None]) -> None:
    result = why(*DEAD_ACTOR, "RuntimeError: something that followed from it")
    assert result is not None
    assert result.startswith("Ray worker WorkerDict (pid 4711) was killed")


def test_a_killed_rollout_server_is_the_cause_of_missing_rewards(
    why: Callable[..., str | None],
) -> None:
    lines = [
        f"{CYAN}(AgentLoopWorkerTQ pid=7){PLAIN} {line}".replace("WorkerDict", "HFServer")
        for line in DEAD_ACTOR
    ]
    result = why(*lines, NO_REWARDS)
    assert result is not None
    assert result.startswith("Ray worker HFServer (pid 4711) was killed")


def test_an_error_in_an_actors_constructor_is_not_a_killed_worker(
    why: Callable[..., str | None],
) -> None:
    lines = ["ray.exceptions.ActorDiedError: The actor died because of an error raised in it"]
    assert why(*lines, "ValueError: no such model") == "ValueError: no such model"


def test_missing_rewards_are_explained_by_the_commonest_error(
    why: Callable[..., str | None], attempt: Attempt
) -> None:
    for message in ("timed out", "returned nan", "returned nan"):
        jsonl.append(attempt.reward, {"error": {"kind": "other", "message": message}})
    jsonl.append(attempt.reward, {"error": None, "reward": 1.0})
    assert why(NO_REWARDS) == "step 5: 8 of 8 rollouts got no reward; other: returned nan"


def test_a_dead_ray_service_is_named(why: Callable[..., str | None]) -> None:
    control = why("[E 1 2] rpc.h:1: Failed to connect. GCS may have been killed. It will end.")
    node = why("ray.exceptions.NodeDiedError: the node is dead or unavailable.")
    assert control is not None and "gcs_server" in control
    assert node is not None and "raylet" in node


def test_a_full_disk_is_named(why: Callable[..., str | None]) -> None:
    result = why("OSError: [Errno 28] No space left on device", "RuntimeError: writing failed")
    assert result is not None
    assert result.startswith("no space left on device; ")


def test_a_failed_write_on_a_disk_with_room_is_reported_unchanged(
    why: Callable[..., str | None],
) -> None:
    line = "RuntimeError: [enforce fail at inline_container.cc:1] . unexpected pos 128 vs 0"
    assert why(line) == line


def test_the_first_rank_that_was_killed_is_named(why: Callable[..., str | None]) -> None:
    result = why(
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
        "Root Cause (first observed failure):",
        "[0]:",
        "  rank      : 1 (local_rank: 1)",
        "  exitcode  : -9 (pid: 4711)",
        "  traceback : Signal 9 (SIGKILL) received by PID 4711",
    )
    assert result == "rank 1 (pid 4711) was killed by SIGKILL"


def test_the_cause_is_plain_and_short(why: Callable[..., str | None]) -> None:
    result = why(f"{RED}ValueError: {'x' * 1000}{PLAIN}")
    assert result is not None
    assert "\x1b" not in result and len(result) == 300


def test_a_killed_trainer_is_not_explained_by_errors_in_its_console(
    attempt: Attempt, tmp_path: Path
) -> None:
    attempt.console.write_text("ValueError: caught and survived\n")
    assert reason(Exit.from_status(signal.SIGKILL), attempt, tmp_path) == (
        "killed by SIGKILL (by hand, or out of memory?) at step 3 of 9"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_without_a_stop_request_came_from_outside(
    number: signal.Signals, attempt: Attempt, tmp_path: Path
) -> None:
    status = Exit(os.waitstatus_to_exitcode((128 + number) << 8))
    assert (reason(status, attempt, tmp_path) or "").startswith(
        f"ended by {number.name} from outside"
    )


def reason(status: Exit, attempt: Attempt, checkpoints: Path) -> str | None:
    evidence = Evidence(
        exit=status,
        stopped_by=None,
        step=3,
        total_steps=9,
        checkpoint_complete=False,
        attempt=attempt,
        checkpoints=checkpoints,
    )
    return final_state(evidence)[1]


def test_a_zygote_that_was_killed_is_named_and_not_the_workers_that_went_with_it(
    attempt: Attempt, tmp_path: Path
) -> None:
    attempt.console.write_text(
        "the zygote that forks Ray's workers died or was killed\n"
        "ray.exceptions.WorkerCrashedError: The worker died unexpectedly while executing\n"
    )
    assert (
        find_failure_reason(attempt, tmp_path)
        == "the zygote that forks Ray's workers died or was killed"
    )


def test_workers_that_ended_with_the_trainer_are_no_cause(why: Callable[..., str | None]) -> None:
    assert why("the trainer ended, and the workers of its Ray with it") is None


def test_an_error_that_hydra_quotes_is_the_cause(why: Callable[..., str | None]) -> None:
    error = 'AssertionError("[actor] Please set actor.ppo_micro_batch_size_per_gpu")'
    hint = "Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace."
    assert why("Error in call to target 'x.FSDPActorConfig':", error, "full_key: x", hint) == error
