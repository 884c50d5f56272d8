"""How quickly a long verl console log becomes charts, beside what ``grep -c`` needs to read it.

``python benchmarks/external_log.py [MEGABYTES]`` writes a log of that size (250) to a temporary
folder and prints: seconds until its last step is known, seconds and MB/s until every step is in
the columns that charts are drawn from, the longest single look (what a screen's thread is busy
with between two messages), and the memory that the reading process grew by.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from engine.logs.formats.external_run import open_external
from engine.run.history.columns import Columns

MB = 1_000_000
_METRICS = [f"part_{number % 12}/metric_{number}" for number in range(90)]
_ACTOR = "\x1b[36m(TaskRunner pid=3734)\x1b[0m "


def lines(seed: int = 7) -> Iterator[str]:
    """A step's line of ninety metrics, and between two of them what verl prints besides."""
    draw = random.Random(seed)
    step = 0
    while True:
        step += 1
        values = " - ".join(f"{name}:{draw.random()!r}" for name in _METRICS)
        numpy = f"critic/score/mean:np.float64({draw.random()!r})"
        yield f"{_ACTOR}step:{step} - {numpy} - {values}\n"
        yield f"{_ACTOR}Dumped generations to /runs/night/rollouts/{step}.jsonl\n"


def write(path: Path, size: int) -> int:
    """Returns how many steps the log holds."""
    written = steps = 0
    with path.open("w") as handle:
        for line in lines():
            written += handle.write(line)
            steps += " step:" in line
            if written >= size:
                return steps
    raise AssertionError("unreachable")


def measure(path: Path, steps: int) -> None:
    process = psutil.Process()
    before, begin = process.memory_info().rss, time.perf_counter()
    worked = sum(process.cpu_times()[:2])
    watch, columns = open_external(path).watch(), Columns()
    longest, first, share, known = 0.0, 0.0, 0.0, 0
    while share < 1.0 or known < steps:
        look = time.perf_counter()
        update = watch.poll()
        longest = max(longest, time.perf_counter() - look)
        columns.merge(update.batch)
        share, known = update.read_share, len(columns.times)
        if not first:
            first = time.perf_counter() - begin
            assert update.state.step == steps
    took = time.perf_counter() - begin
    grown = (process.memory_info().rss - before) / MB
    size = path.stat().st_size / MB
    values = sum(len(columns.get(name)) for name in columns.names)
    cpu = sum(process.cpu_times()[:2]) - worked
    print(f"last step known after   {first:8.2f} s")
    print(f"whole history after     {took:8.2f} s   {size / took:.0f} MB/s, {steps} steps")
    print(f"  of the processor      {cpu:8.2f} s   {size / cpu:.0f} MB/s")
    print(f"longest look            {longest * 1000:8.0f} ms")
    print(f"memory                  {grown:8.0f} MB  for {values} values of 16 bytes")


def measure_grep(path: Path) -> None:
    begin = time.perf_counter()
    # Into a pipe: grep stops at the first match when nobody reads its answer.
    subprocess.run(["grep", "-c", "step:", str(path)], check=True, stdout=subprocess.PIPE)
    print(f"grep -c                 {time.perf_counter() - begin:8.2f} s")


def main() -> None:
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 250
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "console.log"
        steps = write(path, size * MB)
        measure(path, steps)
        measure_grep(path)


if __name__ == "__main__":
    main()
