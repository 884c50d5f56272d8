"""A stand-in trainer: writes the files that verl and our reward write, in seconds.

``python standin.py STEPS [--sleep S] [--fail-at N] [--fail-with TEXT] [--ignore-signals]
[--fail-on-interrupt] [--orphan] [--family] [--hang-at N] [--patient] [--say N TEXT]
[--unsynced-from N]``

``--save-to DIR --save-every N`` saves steps as verl does, and goes on from one with the overrides
that a resume appends; ``--worker`` trains with a worker process, which has a process of its own.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

SLEEP = "import time; time.sleep(300)"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("steps", type=int)
    parser.add_argument("--sleep", type=float, default=0.02)
    parser.add_argument("--fail-at", type=int)
    parser.add_argument("--fail-with", default="the loss went for a walk")
    parser.add_argument("--exit", type=int, default=0)
    parser.add_argument("--ignore-signals", action="store_true")
    parser.add_argument("--fail-on-interrupt", action="store_true")
    parser.add_argument("--orphan", action="store_true")
    parser.add_argument("--family", action="store_true")
    parser.add_argument("--hang-at", type=int)
    parser.add_argument("--patient", action="store_true")
    parser.add_argument("--save-to", type=Path)
    parser.add_argument("--save-every", type=int, default=1)
    parser.add_argument("--worker", action="store_true")
    parser.add_argument("--say", nargs=2, metavar=("STEP", "TEXT"), default=("0", ""))
    parser.add_argument("--unsynced-from", type=int)
    options, overrides = parser.parse_known_args()
    attempt = Path(os.environ["GRUBRICS_ATTEMPT_DIR"])
    if options.ignore_signals:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
    if options.fail_on_interrupt:
        signal.signal(signal.SIGINT, lambda *_: fail(options.fail_with))
    if options.orphan:
        leave_orphan()
    if options.family:
        leave_family(attempt / "family")
    worker = start_worker() if options.worker else None
    for step in range(resumed_step(overrides) + 1, options.steps + 1):
        if step == int(options.say[0]):
            print(options.say[1], flush=True)
        if step == options.fail_at:
            fail(options.fail_with)
        if step == options.hang_at:
            hang_until(attempt / "go")
        if worker is not None and worker.poll() is not None:
            raise RuntimeError(f"the worker died with {worker.returncode}")
        time.sleep(options.sleep)
        if options.save_to and (step % options.save_every == 0 or step == options.steps):
            save(options.save_to, step, options.sleep / 10)
        first_unsynced = options.unsynced_from
        compared = None if first_unsynced is None else 5e-7 if step < first_unsynced else 2e-3
        write_step(attempt, step, options.patient, compared)
        print(f"step:{step} - critic/score/mean:0.5", flush=True)
    if worker is not None:
        worker.terminate()
    return options.exit


def fail(text: str) -> None:
    raise RuntimeError(text)


def write_step(
    attempt: Path, step: int, patient: bool = False, compared: float | None = None
) -> None:
    """``compared`` is the mean difference of engine and trainer."""
    for rollout, reward in enumerate((0.25, 0.75)):
        record = {
            "v": 1,
            "t": time.time(),
            "split": "train",
            "step": step,
            "group": f"g{step}",
            "rollout": rollout,
            "reward": reward,
            "judge_latency_s": 0.5,
            "semaphore_wait_s": 0.1,
            "attempts": 1,
            "duration_s": 0.6,
            "error": None,
        }
        append(attempt / "reward.jsonl", record, patient)
    data = {"timing_s/step": 1.0}
    if compared is not None:
        data["training/rollout_probs_diff_mean"] = compared
    append(attempt / "metrics.jsonl", {"step": step, "data": data}, patient)


def append(path: Path, record: dict[str, object], patient: bool) -> None:
    """Write one line; a patient trainer waits until a full disk has room for it."""
    while True:
        try:
            with path.open("ab", buffering=0) as handle:
                size = handle.tell()
                line = (json.dumps(record) + "\n").encode()
                if handle.write(line) == len(line):
                    return
                handle.truncate(size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        except OSError:
            if not patient:
                raise
            time.sleep(0.05)


def hang_until(sign: Path) -> None:
    """Nothing here is written in Python: whenever it is looked at, it hangs in this function."""
    name = str(sign)
    while not os.access(name, os.F_OK):
        time.sleep(0.02)


def resumed_step(overrides: list[str]) -> int:
    given = dict(override.split("=", 1) for override in overrides)
    path = given.get("trainer.resume_from_path")
    return int(Path(path).name.removeprefix("global_step_")) if path else 0


def save(folder: Path, step: int, pause: float) -> None:
    """A checkpoint in verl's order, the tracker last, slowly enough to be killed in between."""
    path = folder / f"global_step_{step}"
    shards = [f"actor/{kind}_world_size_1_rank_0.pt" for kind in ("model", "optim", "extra_state")]
    for name in [*shards, "data.pt"]:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(path / name, "w") as archive:
            archive.writestr("data", "0" * 1000)
            time.sleep(pause)
    (path / "actor/huggingface").mkdir(exist_ok=True)
    for name in ("fsdp_config.json", "huggingface/config.json", "huggingface/tokenizer.json"):
        (path / "actor" / name).write_text("{}")
    (folder / "latest_checkpointed_iteration.txt").write_text(str(step))


def start_worker() -> subprocess.Popen[bytes]:
    """A process in a session of its own that has a child in yet another, as Ray's have."""
    sleep = [sys.executable, "-c", "import time; time.sleep(300)"]
    code = f"import subprocess; subprocess.run({sleep!r}, start_new_session=True)"
    return subprocess.Popen([sys.executable, "-c", code], start_new_session=True)


def leave_family(pids: Path) -> None:
    """Two that left session and parent, the second without the run's mark in its environment."""
    pids.touch()
    for environment in (dict(os.environ), {}):
        if (child := os.fork()) == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            with pids.open("a") as handle:
                handle.write(f"{os.getpid()}\n")
            os.execve(sys.executable, [sys.executable, "-c", SLEEP], environment)
        os.waitpid(child, 0)
    while len(pids.read_text().split()) < 2:
        time.sleep(0.01)


def leave_orphan() -> None:
    """A process that leaves the session and ignores SIGTERM, as a lost rollout server would."""
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(300)"
    subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    time.sleep(0.3)


if __name__ == "__main__":
    sys.exit(main())
