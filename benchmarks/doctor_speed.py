"""How quickly the doctor reads a long healthy log, beside what ``grep -c`` needs for one word.

``python benchmarks/doctor_speed.py [MEGABYTES] [--beside COMMAND]`` writes a log of that size
(1000) to a temporary folder and prints MB/s of wall time and of processor time, and the memory that
reading it took. ``--beside "runmedic scan"`` times another program on the same log.
"""

from __future__ import annotations

import argparse
import random
import resource
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from engine.doctor.diagnose import diagnose_file

MB = 1_000_000
_METRICS = [f"part_{number % 12}/metric_{number}" for number in range(90)]
_WHO = "\x1b[36m(TaskRunner pid=3734)\x1b[0m "
_SAID = "Let me think step by step: the train leaves at nine, and the answer follows from that."


def steps(draw: random.Random) -> Iterator[str]:
    """What a run prints in one step: answers, the engine's reports, a bar, the metrics."""
    step = 0
    while True:
        step += 1
        for number in range(200):
            yield f"{_WHO}[response] {number} {_SAID} {draw.random()!r}\n"
        for _ in range(40):
            rate = draw.random() * 1000
            yield f"INFO 05-05 05:05:10 [loggers.py:116] Avg throughput: {rate:.1f} tokens/s\n"
        yield f"Training Progress:  10%|#         | {step}/90000 [10:37<5:08:06, 6.47s/it]\r"
        values = " - ".join(f"{name}:{draw.random()!r}" for name in _METRICS)
        yield f"{_WHO}step:{step} - {values}\n"


def write(path: Path, size: int) -> None:
    written = 0
    with path.open("w") as handle:
        for line in steps(random.Random(7)):
            written += handle.write(line)
            if written >= size:
                return


def measure(name: str, size: float, work: Callable[[], object]) -> None:
    before, begin = _processor(), time.perf_counter()
    work()
    wall, cpu = time.perf_counter() - begin, _processor() - before
    busy = size / max(cpu, 1e-3)
    print(f"{name:<10} {size / wall:8.0f} MB/s   {busy:8.0f} MB/s of the processor")


def _processor() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("megabytes", nargs="?", type=int, default=1000)
    parser.add_argument("--beside", help="another program, which is given the log's path")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "console.log"
        write(log, given.megabytes * MB)
        size = log.stat().st_size / MB
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        measure("grep -c", size, lambda: subprocess.run(["grep", "-c", "Error", str(log)]))
        measure("doctor", size, lambda: print(len(diagnose_file(log)), "findings"))
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident
        print(f"memory     {grown / 1024:8.0f} MiB more")
        if given.beside:
            command = [*shlex.split(given.beside), str(log)]
            measure("beside", size, lambda: subprocess.run(command, stdout=subprocess.DEVNULL))


if __name__ == "__main__":
    main()
