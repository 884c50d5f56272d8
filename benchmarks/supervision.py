"""What does supervision cost? The same trainer command, supervised and bare, in alternating order.

    python benchmarks/supervision.py [--workload busy|grpo] [--pairs 10] [--minutes 20]

``busy`` keeps every core at work for some seconds and logs ten steps a second, which is where a
supervisor would be felt most; ``grpo`` is a real GRPO run of 20 steps (half a minute). A time is
the life of the trainer process, from its start to its exit, in both cases. What comes before and
after it (starting the supervisor, its last words) does not grow with the run and is printed apart.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from engine.base import jsonl
from engine.launch.launcher import start_supervisor
from engine.run.identity import Identity
from engine.run.processes import alive, identify
from engine.run.run import Run
from engine.run.state import RunState, observed_state, recorded_state, write_state

ROOT = Path(__file__).resolve().parents[1]
RESAMPLES = 10_000
STEPS = 20

BUSY = """
import json, multiprocessing, os, sys, time

def work(rounds):
    for _ in range(rounds):
        sum(i * i for i in range(10_000))

if __name__ == "__main__":
    others = [multiprocessing.Process(target=work, args=(STEPS * ROUNDS,)) for _ in range(OTHERS)]
    for other in others:
        other.start()
    with open(os.environ["VERL_FILE_LOGGER_PATH"], "a", buffering=1) as log:
        for step in range(1, STEPS + 1):
            work(ROUNDS)
            print(f"step:{step}", flush=True)
            log.write(json.dumps({"step": step, "data": {"timing_s/step": 0.1}}) + "\\n")
    for other in others:
        other.join()
"""


@dataclass(frozen=True)
class Supervised:
    """Seconds of the trainer, seconds around it, and what the supervisor used (CPU s, MiB)."""

    trainer_s: float
    around_s: float
    cpu_s: float
    mib: float


@dataclass(frozen=True)
class Pair:
    bare_s: float
    supervised: Supervised

    @property
    def ratio(self) -> float:
        return self.supervised.trainer_s / self.bare_s


Workload = Callable[[Path], list[str]]


def busy(folder: Path) -> list[str]:
    """About eight seconds on every core."""
    script = folder / "busy.py"
    cores = len(os.sched_getaffinity(0))
    constants = f"STEPS, ROUNDS, OTHERS = 80, {200}, {cores - 1}\n"
    script.write_text(constants + BUSY)
    return [sys.executable, str(script)]


def grpo(folder: Path) -> list[str]:
    """Twenty steps of the tiny model."""
    from benchmarks.start_up import make_world, our_command

    model, data = make_world(folder)
    return our_command(folder, model, data, STEPS)


WORKLOADS: Mapping[str, tuple[Workload, int]] = {"busy": (busy, 80), "grpo": (grpo, STEPS)}


def run_bare(argv: Sequence[str], folder: Path) -> float:
    """Seconds of the command by hand, with the variables that a supervisor would set."""
    attempt = Run(folder / "bare").attempt(1)
    attempt.path.mkdir(parents=True)
    marks = {
        "GRUBRICS_ATTEMPT_DIR": str(attempt.path),
        "VERL_FILE_LOGGER_PATH": str(attempt.metrics),
        "PYTHONUNBUFFERED": "1",
    }
    with attempt.console.open("ab") as console:
        process = subprocess.Popen(
            argv,
            cwd=folder,
            env={**os.environ, **marks},
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    identity = identify(process.pid)
    assert identity is not None
    took = life_s(identity, lambda: None)
    if process.wait() != 0:
        raise SystemExit(f"{attempt.console.read_text()[-2000:]}\nexit code {process.returncode}")
    return took


def run_supervised(argv: Sequence[str], folder: Path, steps: int) -> Supervised:
    """The same command under the supervisor that a launch starts."""
    run = Run(folder / "supervised")
    run.attempt(1).path.mkdir(parents=True)
    manifest = {
        "v": 1,
        "id": run.id,
        "kind": "grpo",
        "cwd": str(folder),
        "created": time.time(),
        "total_steps": steps,
        "config": {},
        "attempts": [{"number": 1, "argv": list(argv)}],
    }
    jsonl.write_json(run.manifest_file, manifest)
    write_state(run, RunState("starting", heartbeat=time.time(), total_steps=steps))
    started = time.monotonic()
    start_supervisor(run)
    state = recorded_state(run)
    assert state is not None and state.supervisor is not None and state.trainer is not None
    watched = Watched(state.supervisor)
    trainer_s = life_s(state.trainer, watched.look)
    while not observed_state(run).has_ended:
        watched.look()
        time.sleep(0.02)
    around_s = time.monotonic() - started - trainer_s
    state = observed_state(run)
    if not state.went_well:
        raise SystemExit(f"{run.path}: {state.state}: {state.reason}")
    return Supervised(trainer_s, around_s, watched.cpu_s, watched.mib)


class Watched:
    """The CPU seconds and the largest size of a process, as last seen."""

    def __init__(self, identity: Identity) -> None:
        self._process = psutil.Process(identity.pid)
        self.cpu_s = self.mib = 0.0

    def look(self) -> None:
        try:
            with self._process.oneshot():
                used = self._process.cpu_times()
                self.mib = max(self.mib, self._process.memory_info().rss / 2**20)
        except psutil.Error:
            return
        self.cpu_s = used.user + used.system


def life_s(process: Identity, look: Callable[[], None]) -> float:
    """Seconds from the start of a process, which the kernel knows, to its end."""
    number = 0
    while alive(process):
        number += 1
        if number % 50 == 0:
            look()
        time.sleep(0.02)
    return time.clock_gettime(time.CLOCK_BOOTTIME) - process.start / os.sysconf("SC_CLK_TCK")


def measure(workload: str, number: int) -> Pair:
    """One pair; every other one starts with the supervised run."""
    make, steps = WORKLOADS[workload]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        argv = make(folder)
        if number % 2:
            supervised = run_supervised(argv, folder, steps)
            return Pair(run_bare(argv, folder), supervised)
        bare = run_bare(argv, folder)
        return Pair(bare, run_supervised(argv, folder, steps))


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """95 % bootstrap interval of the median."""
    chance = random.Random(0)
    medians = sorted(
        statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES)
    )
    return medians[RESAMPLES // 40], medians[-RESAMPLES // 40]


def summary(pairs: Sequence[Pair]) -> str:
    ratios = [pair.ratio for pair in pairs]
    low, high = interval(ratios)
    runs = [pair.supervised for pair in pairs]
    share = statistics.median(run.cpu_s / run.trainer_s for run in runs)
    return (
        f"\nmedian ratio {statistics.median(ratios):.4f} [{low:.4f}, {high:.4f}]; "
        f"the supervisor used {share:.2%} of one core and {max(run.mib for run in runs):.0f} MiB; "
        f"{statistics.median(run.around_s for run in runs):.2f} s around the trainer"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workload", choices=list(WORKLOADS), default="busy")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=20.0, help="No new pair after this")
    given = parser.parse_args()
    os.environ.update({"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)})
    deadline = time.monotonic() + 60 * given.minutes
    pairs: list[Pair] = []
    print("| pair | bare, s | supervised, s | ratio | supervisor, CPU s | MiB |")
    print("|---|---|---|---|---|---|")
    while len(pairs) < given.pairs and (not pairs or time.monotonic() < deadline):
        pair = measure(given.workload, len(pairs))
        pairs.append(pair)
        run = pair.supervised
        print(
            f"| {len(pairs)} | {pair.bare_s:.2f} | {run.trainer_s:.2f} | {pair.ratio:.4f} "
            f"| {run.cpu_s:.2f} | {run.mib:.0f} |",
            flush=True,
        )
    print(summary(pairs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
