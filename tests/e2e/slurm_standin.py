#!/usr/bin/env python3
"""Stand-in for sbatch, squeue, sacct and scancel: it is called by their names, and executes jobs.

Its records are files in $STANDIN_SLURM. While there is a file ``hold``, jobs stay pending.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(os.environ["STANDIN_SLURM"])


def option(name: str, default: str = "") -> str:
    words = (word.partition("=") for word in sys.argv[1:])
    return next((value for key, _, value in words if key == f"--{name}"), default)


def sbatch() -> int:
    if option("partition") == "nosuch":
        print("sbatch: error: invalid partition specified: nosuch", file=sys.stderr)
        return 1
    number = str(17 + len(list(ROOT.glob("*.name"))))
    script = sys.stdin.read()
    (ROOT / f"{number}.name").write_text(option("job-name"))
    (ROOT / f"{number}.state").write_text("PENDING|0:0")
    if os.fork() == 0:
        os.setsid()
        for stream in (0, 1, 2):
            os.dup2(os.open(os.devnull, os.O_RDWR), stream)
        execute(number, script)
        os._exit(0)
    print(f"{number};cluster")
    return 0


def execute(number: str, script: str) -> None:
    state = ROOT / f"{number}.state"
    while (ROOT / "hold").exists():
        if state.read_text().startswith("CANCELLED"):
            return
        time.sleep(0.05)
    with Path(option("output")).open("ab") as out:
        job = subprocess.Popen(
            ["bash", "-c", script], cwd=option("chdir"), stdout=out, stderr=out, process_group=0
        )
    (ROOT / f"{number}.pid").write_text(str(job.pid))
    state.write_text("RUNNING|0:0")
    code = job.wait()
    if not state.read_text().startswith(("CANCELLED", "TIMEOUT")):
        state.write_text(f"{'FAILED' if code else 'COMPLETED'}|{max(code, 0)}:{max(-code, 0)}")


def squeue() -> int:
    if name := option("name"):
        numbers = [path.stem for path in ROOT.glob("*.name") if path.read_text() == name]
        print("\n".join(numbers))
        return 0
    path = ROOT / f"{option('jobs')}.state"
    if not path.exists():
        print("slurm_load_jobs error: Invalid job id specified", file=sys.stderr)
        return 1
    state = path.read_text().partition("|")[0]
    if state in ("PENDING", "RUNNING"):
        print(f"{state}|{'Resources' if state == 'PENDING' else 'None'}")
    return 0


def sacct() -> int:
    path = ROOT / f"{option('jobs')}.state"
    print(path.read_text() if path.exists() else "")
    return 0


def scancel() -> int:
    number = sys.argv[-1]
    state = ROOT / f"{number}.state"
    if state.read_text().startswith(("PENDING", "RUNNING")):
        state.write_text("CANCELLED by 1000|0:15")
    pid = ROOT / f"{number}.pid"
    if pid.exists():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(pid.read_text()), signal.SIGTERM)
    return 0


if __name__ == "__main__":
    commands = {"sbatch": sbatch, "squeue": squeue, "sacct": sacct, "scancel": scancel}
    sys.exit(commands[Path(sys.argv[0]).name]())
