"""How quickly the records of a run are read, beside ``orjson.loads`` of the same lines.

``python benchmarks/records.py [FILE...]`` prints records per second of processor time, the best of
nine rounds that alternate between both. A file is a ``reward.jsonl`` or ``train_log.jsonl``;
without one it makes 6,000 records of a judge with six scores, and as many steps with ninety
metrics. ``orjson`` makes dicts and checks no field.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import orjson
from doctor_speed import rewards

from engine.base.typed import decode_record
from engine.run.history.reward_records import Position, RewardRecord
from engine.run.history.train_log import Step

RECORDS = 6000
_ROUNDS = 9

Readers = dict[str, Callable[[bytes], Any]]
REWARDS: Readers = {
    "orjson.loads": orjson.loads,
    "a record": lambda line: decode_record(line, RewardRecord),
    "its position": lambda line: decode_record(line, Position),
}
STEPS: Readers = {"orjson.loads": orjson.loads, "a step": Step.parse}


def steps(draw: random.Random) -> Iterator[bytes]:
    """Lines of ``train_log.jsonl`` with ninety metrics."""
    for number in count(1):
        values = {f"part_{part % 12}/metric_{part}": draw.random() for part in range(90)}
        yield orjson.dumps(Step(number, 1, 1.7e9 + number, values).to_json())


def measure(lines: list[bytes], readers: Readers) -> dict[str, float]:
    """Records per second of processor time of each reader."""
    best = dict.fromkeys(readers, float("inf"))
    for _ in range(_ROUNDS):
        for name, read in readers.items():
            begin = time.process_time()
            for line in lines:
                read(line)
            best[name] = min(best[name], time.process_time() - begin)
    return {name: len(lines) / seconds for name, seconds in best.items()}


def report(title: str, lines: Iterable[bytes], readers: Readers) -> None:
    some = list(islice(lines, RECORDS))
    some *= max(1, RECORDS // len(some))
    print(f"{title}: {sum(map(len, some)) / len(some):.0f} bytes a record")
    for name, rate in measure(some, readers).items():
        print(f"  {name:<14} {rate:12,.0f} records/s")


def main() -> None:
    if len(sys.argv) == 1:
        report("rewards", (line.encode() for line in rewards(random.Random(7))), REWARDS)
        report("steps", steps(random.Random(7)), STEPS)
    for name in sys.argv[1:]:
        with Path(name).open("rb") as handle:
            report(name, handle, STEPS if Path(name).name == "train_log.jsonl" else REWARDS)


if __name__ == "__main__":
    main()
