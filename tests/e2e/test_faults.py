"""Everything that can happen to a run, happening to a real one. ``docs/faults.md`` is the table.

The faults of the first part meet one run after another: each ends an attempt, and the next test
resumes it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engine.base import jsonl
from engine.run.checkpoints.find import check_checkpoint
from engine.run.history.train_log import Step, history, read_steps
from engine.run.identity import Identity
from engine.run.processes import members, send
from engine.run.run import Run
from engine.run.state import RunState, observed_state, recorded_state
from engine.supervise import private_ray
from tests.e2e.project import CLI, GROUPS_OF_4, Project
from tests.e2e.terminal import Terminal
from tests.waiting import TRAINING_PATIENCE_S, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

STEPS = 8
"""Of the run that is watched to its end."""
STAGES = ("workers", "model", "reward workers", "rollout server", "first weights")
"""What a starting run waits for, one after another: a look may come too late for any of them."""
QUICK = (
    "trainer.save_freq=1",
    "trainer.val_before_train=false",
    "trainer.test_freq=-1",
    *GROUPS_OF_4,
)


@dataclass(frozen=True)
class Victim:
    """A run that faults happen to."""

    project: Project
    run: Run

    def begin(self, config: str, *overrides: str) -> None:
        self.project.json("launch", config, *overrides, "--name", self.run.id)

    def state(self) -> RunState:
        return observed_state(self.run)

    def wait_for_step(self) -> None:
        """Wait until the current attempt has logged a step."""
        attempt = self.state().attempt
        self.wait(lambda: any(s.attempt == attempt for s in read_steps(self.run.train_log)))

    def wait(self, condition: Callable[[], bool]) -> None:
        wait_for(lambda: condition() or self.state().has_ended, TRAINING_PATIENCE_S)
        assert condition(), f"it ended early: {self.state()}"

    def ended(self) -> RunState:
        wait_for(lambda: self.state().has_ended)
        return self.state()

    def processes(self, command: str) -> list[Identity]:
        """The run's processes whose command line holds ``command``."""
        return [process for process in members(self.run) if command in _command_line(process.pid)]

    def kill(self, targets: Sequence[Identity | None]) -> None:
        assert targets, "there is nothing to kill"
        for target in targets:
            assert target is not None
            send(target, signal.SIGKILL)

    def trainer(self) -> Identity:
        state = recorded_state(self.run)
        assert state is not None and state.trainer is not None
        return state.trainer

    def supervisor(self) -> Identity:
        state = recorded_state(self.run)
        assert state is not None and state.supervisor is not None
        return state.supervisor

    def leaves_nothing(self) -> bool:
        """No process, and no directory of a private Ray."""
        folders = [private_ray.directory(attempt.path) for attempt in self.run.attempts()]
        return members(self.run) == [] and not any(folders)

    def history(self) -> list[Step]:
        """One step per number, as readers of a run see it: what was redone counts once."""
        return history(read_steps(self.run.train_log))

    def trained(self) -> int:
        """The last step of the current attempt in verl's own file."""
        metrics = self.run.attempt(self.state().attempt).metrics
        return max((line["step"] for line in jsonl.read(metrics)), default=0)


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


@pytest.fixture
def victim(
    tiny_world: Project, trained_sft: dict[str, Any], request: pytest.FixtureRequest
) -> Iterator[Victim]:
    """A run for one test, which is stopped at the end."""
    assert trained_sft["state"] == "finished", trained_sft
    name = request.node.name.removeprefix("test_").replace("[", "-").rstrip("]")[:60]
    made = Victim(tiny_world, Run(tiny_world.path / "runs" / name))
    yield made
    if made.run.manifest_file.exists():
        tiny_world.run("stop", name)


# One run, fault after fault


@pytest.fixture
def training(tiny_world: Project, trained_sft: dict[str, Any]) -> Iterator[Victim]:
    """The one run, launched or resumed, in mid-run: this attempt has just logged a step."""
    assert trained_sft["state"] == "finished", trained_sft
    yield from _in_mid_run(tiny_world, "faults", 32)


@pytest.fixture
def short(tiny_world: Project, trained_sft: dict[str, Any]) -> Iterator[Victim]:
    """A run of its own that is soon at its end, in mid-run."""
    assert trained_sft["state"] == "finished", trained_sft
    yield from _in_mid_run(tiny_world, "short", STEPS)


def _in_mid_run(project: Project, name: str, steps: int) -> Iterator[Victim]:
    made = Victim(project, Run(project.path / "runs" / name))
    if made.run.manifest_file.exists():
        project.json("resume", made.run.id)
    else:
        options = [f"trainer.total_training_steps={steps}", f"trainer.experiment_name={name}"]
        made.begin("grpo_tiny", *QUICK, *options, "supervision.stall_floor_s=15")
    try:
        made.wait_for_step()
        yield made
    finally:
        project.run("stop", made.run.id)


@pytest.mark.parametrize(
    ("victim_process", "blamed"),
    [
        pytest.param("ray::WorkerDict", "Ray worker WorkerDict", id="training-worker"),
        pytest.param("ray::HFServer", "Ray worker HFServer", id="rollout-server"),
        pytest.param("/raylet/raylet", "raylet", id="raylet"),
        pytest.param("/gcs/gcs_server", "gcs_server", id="gcs"),
    ],
)
def test_a_killed_part_of_ray_fails_the_run_and_is_named(
    training: Victim, victim_process: str, blamed: str
) -> None:
    training.kill(training.processes(victim_process))
    state = training.ended()
    assert state.state == "failed"
    assert blamed in (state.reason or "")
    assert training.leaves_nothing()


@pytest.mark.parametrize("frozen", ["ray::WorkerDict", "ray::HFServer"])
def test_a_frozen_worker_is_named_with_its_stacks_until_it_continues(
    training: Victim, frozen: str
) -> None:
    worker = training.processes(frozen)[0]
    send(worker, signal.SIGSTOP)
    try:
        training.wait(lambda: training.state().state == "stalled")
        diagnosis = training.project.json("diagnose", training.run.id, expect=(1,))
        screen = _live_screen(training)
    finally:
        send(worker, signal.SIGCONT)
    stall, stacks = diagnosis["findings"][0], diagnosis["findings"][0]["evidence"][1]["path"]
    assert stall["id"] == "stalled.stopped"
    assert stall["evidence"][0]["values"]["pid"] == worker.pid
    assert stall["evidence"][0]["values"]["process_state"] == "T"
    dumped = Path(training.project.path, stacks).read_text()
    assert re.search(rf"== \w+ {worker.pid}, state T\n", dumped)
    assert re.search(r"== driver \d+, state \w\n(?!\(no stack)", dumped)
    assert f"kill -CONT {worker.pid}" in screen
    training.wait(lambda: training.state().state == "running")


def _live_screen(training: Victim) -> str:
    command = (*CLI, "watch", training.run.id)
    screen = Terminal(command, training.project.path, training.project.env)
    try:
        return screen.wait_for(r"stalled(.*\n)*.*is stopped")
    finally:
        screen.close()


def test_a_run_without_its_supervisor_is_lost_and_stop_ends_its_processes(
    training: Victim,
) -> None:
    training.kill([training.supervisor()])
    assert training.ended().state == "lost"
    known = training.history()[-1].step
    wait_for(lambda: training.trained() > known)  # verl goes on: nobody told it to end
    orphans = training.project.json("reap")["orphans"]
    assert {orphan["run"] for orphan in orphans} == {training.run.id}
    training.project.json("stop", training.run.id)
    assert training.leaves_nothing()
    assert training.history()[-1].step == training.trained() > known


def test_a_killed_screen_ends_no_run_and_leaves_no_gap(
    short: Victim,
) -> None:
    command = (*CLI, "watch", short.run.id)
    killed = Terminal(command, short.project.path, short.project.env)
    try:
        killed.wait_for(rf"step \d+/{STEPS}")
        killed.kill()
    finally:
        killed.close()
    again = Terminal(command, short.project.path, short.project.env)
    try:
        again.wait_for(rf"{short.run.id}(.*\n)*.*step \d+/{STEPS}")
        again.wait_for(rf"finished(.*\n)*.*step {STEPS}/{STEPS}")
    finally:
        again.close()
    state = short.ended()
    assert (state.state, state.step) == ("finished", STEPS)
    assert [step.step for step in short.history()] == list(range(1, STEPS + 1))
    assert short.leaves_nothing()


# Faults while a run starts


def test_a_stop_before_ray_is_up(victim: Victim) -> None:
    victim.begin("grpo_tiny", *QUICK, "trainer.experiment_name=early")
    answer = victim.project.json("stop", victim.run.id)
    assert (answer["state"], answer["reason"]) == (
        "finished",
        "stopped by user before the first step",
    )
    assert victim.leaves_nothing()


def test_a_stop_while_the_model_loads(victim: Victim) -> None:
    victim.begin("grpo_tiny", *QUICK, "trainer.experiment_name=loading")
    victim.wait(lambda: victim.state().waiting_for in STAGES[1:])
    answer = victim.project.json("stop", victim.run.id)
    assert (answer["state"], answer["reason"]) == (
        "finished",
        "stopped by user before the first step",
    )
    assert victim.leaves_nothing()


def test_ctrl_c_to_the_trainer_by_hand_while_it_starts(victim: Victim) -> None:
    victim.begin("grpo_tiny", *QUICK, "trainer.experiment_name=by-hand")
    victim.wait(lambda: victim.state().waiting_for in STAGES)
    send(victim.trainer(), signal.SIGINT)
    state = victim.ended()
    assert state.state == "failed"
    assert (state.reason or "").startswith("ended by SIGINT from outside")
    assert victim.leaves_nothing()


# A full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 200 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.getuid() != 0:
        pytest.skip("only root may mount a small disk")
    command = ["mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """A file of somebody else's that takes all the room there is."""
    filler = disk / "somebody_elses"
    block = b"\0" * (1 << 20)
    with filler.open("wb", buffering=0) as handle:
        while True:
            try:
                handle.write(block)
            except OSError:
                return filler


def test_a_disk_that_fills_up_costs_no_complete_checkpoint(
    victim: Victim, small_disk: Path
) -> None:
    folder = small_disk / "checkpoints"
    options = ["trainer.total_training_steps=3", f"trainer.default_local_dir={folder}"]
    victim.begin("grpo_tiny", *QUICK, *options)
    victim.wait_for_step()
    filler = fill(small_disk)
    state = victim.ended()
    assert state.state == "failed"
    assert f" free at {folder}" in (state.reason or "")
    assert check_checkpoint(victim.run).complete
    assert victim.leaves_nothing()

    filler.unlink()
    answer = victim.project.json("resume", victim.run.id, "--wait")
    assert answer["state"] == "finished"
    assert [step.step for step in victim.history()] == [1, 2, 3]


# Faults of what a run trains on, and of SFT


def test_a_reward_that_is_not_a_number_fails_the_run(victim: Victim, tmp_path: Path) -> None:
    reward = tmp_path / "broken_reward.py"
    reward.write_text("def compute_score(**_):\n    return float('nan')\n")
    victim.begin(
        "grpo_tiny",
        *QUICK,
        "trainer.total_training_steps=2",
        "trainer.experiment_name=nan",
        f"reward.custom_reward_function.path={reward}",
        "reward.custom_reward_function.name=compute_score",
        "grubrics.reward_check_s=0",  # The preflight checks would refuse it.
    )
    state = victim.ended()
    assert state.state == "failed"
    assert "the reward function returned nan" in (state.reason or "")
    assert victim.leaves_nothing()


LONG_SFT = ("sft_tiny", "training.max_steps=5000")


def test_a_signal_sent_to_the_trainer_is_not_a_stop_by_the_user(victim: Victim) -> None:
    victim.begin(*LONG_SFT, "training.output_dir=checkpoints/signal")
    victim.wait_for_step()
    send(victim.trainer(), signal.SIGTERM)
    state = victim.ended()
    assert state.state == "failed"
    assert (state.reason or "").startswith("ended by SIGTERM from outside")
    assert victim.leaves_nothing()


def test_a_killed_rank_ends_the_others_and_is_named(victim: Victim) -> None:
    victim.begin(
        *LONG_SFT,
        "training.n_gpus=2",
        "training.per_device_train_batch_size=4",
        "training.output_dir=checkpoints/killed-rank",
    )
    victim.wait_for_step()
    ranks = victim.processes("-u -m engine.train.sft_rank /")
    victim.kill(ranks[-1:])
    state = victim.ended()
    assert state.state == "failed"
    assert f"(pid {ranks[-1].pid}) was killed by SIGKILL" in (state.reason or "")
    assert victim.leaves_nothing()
