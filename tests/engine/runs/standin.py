"""A stand-in trainer: writes the files that verl and our reward write, in seconds.

``python standin.py STEPS [--sleep S] [--fail-at N] [--ignore-signals] [--orphan]``
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("steps", type=int)
    parser.add_argument("--sleep", type=float, default=0.02)
    parser.add_argument("--fail-at", type=int)
    parser.add_argument("--exit", type=int, default=0)
    parser.add_argument("--ignore-signals", action="store_true")
    parser.add_argument("--orphan", action="store_true")
    options = parser.parse_args()
    if options.ignore_signals:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
    if options.orphan:
        leave_orphan()
    for step in range(1, options.steps + 1):
        if step == options.fail_at:
            raise RuntimeError("the loss went for a walk")
        time.sleep(options.sleep)
        write_step(Path(os.environ["GRUBRICS_ATTEMPT_DIR"]), step)
        print(f"step:{step} - critic/score/mean:0.5", flush=True)
    return options.exit


def write_step(attempt: Path, step: int) -> None:
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
        append(attempt / "reward.jsonl", record)
    append(attempt / "metrics.jsonl", {"step": step, "data": {"timing_s/step": 1.0}})


def append(path: Path, record: dict[str, object]) -> None:
    with path.open("a") as handle:
        handle.write(json.dumps(record) + "\n")


def leave_orphan() -> None:
    """A process that leaves the session and ignores SIGTERM, as a lost rollout server would."""
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(300)"
    subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    time.sleep(0.3)


if __name__ == "__main__":
    sys.exit(main())
