"""How quickly the records of a run are read, beside ``orjson.loads`` of the same lines.

``python benchmarks/records.py [FILE...]`` prints records per second of processor time, the best of
nine rounds that alternate between both. Without a file it makes a step of rewards: 6,000 records of
a judge with six scores each. ``orjson`` makes dicts and checks no field.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
from doctor_speed import rewards

from engine.base.typed import decode_record
from engine.run.history.reward_records import Position, RewardRecord

RECORDS = 6000
_ROUNDS = 9

READERS: dict[str, Callable[[bytes], Any]] = {
    "orjson.loads": orjson.loads,
    "a record": lambda line: decode_record(line, RewardRecord),
    "its position": lambda line: decode_record(line, Position),
}


def measure(lines: list[bytes]) -> dict[str, float]:
    """Records per second of processor time of each reader."""
    best = dict.fromkeys(READERS, float("inf"))
    for _ in range(_ROUNDS):
        for name, read in READERS.items():
            begin = time.process_time()
            for line in lines:
                read(line)
            best[name] = min(best[name], time.process_time() - begin)
    return {name: len(lines) / seconds for name, seconds in best.items()}


def report(title: str, lines: Iterable[bytes]) -> None:
    some = list(islice(lines, RECORDS))
    some *= max(1, RECORDS // len(some))
    print(f"{title}: {sum(map(len, some)) / len(some):.0f} bytes a record")
    for name, rate in measure(some).items():
        print(f"  {name:<14} {rate:12,.0f} records/s")


def main() -> None:
    if len(sys.argv) == 1:
        report("made", (line.encode() for line in rewards(random.Random(7))))
    for name in sys.argv[1:]:
        with Path(name).open("rb") as handle:
            report(name, handle)


if __name__ == "__main__":
    main()
