"""How quickly the records of a run are read, beside ``orjson.loads`` of the same bytes.

``python benchmarks/records.py [FILE...]`` prints records per second of processor time, the best of
nine rounds that alternate between the readers. A file is a ``reward.jsonl`` or ``train_log.jsonl``;
without one it makes 6,000 records of a judge with six scores, as many steps with ninety metrics,
and two folders of a run of ``grpo_tiny``: one of today, and one of an earlier version, which has
its config in ``manifest.json``. ``orjson`` and ``msgspec`` make dicts and check no field; of a
folder they read the bytes of the same files.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import orjson
from doctor_speed import rewards

from engine.base import jsonl
from engine.base.typed import decode_record, to_json
from engine.config.load import load_config
from engine.launch.launcher import manifest, plan
from engine.run.history.reward_records import Position, RewardRecord
from engine.run.history.train_log import Step
from engine.run.run import Run

RECORDS = 6000
_ROUNDS = 9
_READS = 200

T = TypeVar("T")
Readers = dict[str, Callable[[T], Any]]
REWARDS: Readers[bytes] = {
    "orjson.loads": orjson.loads,
    "a record": lambda line: decode_record(line, RewardRecord),
    "its position": lambda line: decode_record(line, Position),
}
STEPS: Readers[bytes] = {"orjson.loads": orjson.loads, "a step": Step.parse}
FOLDERS: Readers[Run] = {
    "orjson.loads": lambda run: orjson.loads(run.manifest_file.read_bytes()),
    "the manifest": Run.read_manifest,
    "orjson, all": lambda run: [orjson.loads(file.read_bytes()) for file in _settings(run)],
    "msgspec, all": lambda run: [msgspec.json.decode(file.read_bytes()) for file in _settings(run)],
    "with the config": Run.read_full_manifest,
}


def _settings(run: Run) -> list[Path]:
    return [file for file in (run.manifest_file, run.settings_file) if file.exists()]


def steps(draw: random.Random) -> Iterator[bytes]:
    """Lines of ``train_log.jsonl`` with ninety metrics."""
    for number in count(1):
        values = {f"part_{part % 12}/metric_{part}": draw.random() for part in range(90)}
        yield orjson.dumps(Step(number, 1, 1.7e9 + number, values).to_json())


def measure(records: Sequence[T], readers: Readers[T]) -> dict[str, float]:
    """Records per second of processor time of each reader."""
    best = dict.fromkeys(readers, float("inf"))
    for _ in range(_ROUNDS):
        for name, read in readers.items():
            begin = time.process_time()
            for record in records:
                read(record)
            best[name] = min(best[name], time.process_time() - begin)
    return {name: len(records) / seconds for name, seconds in best.items()}


def report(title: str, records: Sequence[T], readers: Readers[T]) -> None:
    print(title)
    for name, rate in measure(records, readers).items():
        print(f"  {name:<16} {rate:12,.0f} records/s")


def report_lines(title: str, lines: Iterable[bytes], readers: Readers[bytes]) -> None:
    some = list(islice(lines, RECORDS))
    some *= max(1, RECORDS // len(some))
    report(f"{title}: {sum(map(len, some)) / len(some):.0f} bytes a record", some, readers)


def report_folders(root: Path) -> None:
    """The readers of a run's manifest and config."""
    facts = manifest(plan(load_config("grpo_tiny"), "template"))
    today, earlier = Run(root / "today"), Run(root / "earlier")
    for run in (today, earlier):
        run.path.mkdir()
    today.write_manifest(facts)
    jsonl.write_json(earlier.manifest_file, to_json(facts))
    for run in (today, earlier):
        sizes = " + ".join(f"{file.stat().st_size:,}" for file in _settings(run))
        report(f"a folder of {run.id}: {sizes} bytes", [run] * _READS, FOLDERS)


def main() -> None:
    if len(sys.argv) == 1:
        report_lines("rewards", (line.encode() for line in rewards(random.Random(7))), REWARDS)
        report_lines("steps", steps(random.Random(7)), STEPS)
        with tempfile.TemporaryDirectory() as folder:
            report_folders(Path(folder))
    for name in sys.argv[1:]:
        with Path(name).open("rb") as handle:
            report_lines(name, handle, STEPS if Path(name).name == "train_log.jsonl" else REWARDS)


if __name__ == "__main__":
    main()
