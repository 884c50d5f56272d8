"""How long a filter takes over 10,000 runs, as one key press in the list of runs.

    python benchmarks/filters.py

Manifests and configs are those of ``grpo_tiny``, 0.1 MB each, so 1.1 GB go to the temporary folder
meanwhile. ``first`` reads what the filter asks for, ``again`` finds it in memory.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from listing import make_runs

from engine.base import jsonl
from engine.run.columns import RunRow
from engine.run.history.run_filter import RunFiles, RunFilter
from engine.run.index import Index
from engine.run.registry import list_runs
from engine.run.run import Run

COUNT = 10_000
STEPS = 60
FILTERS = (
    "night",
    "state:failed step>30",
    "started<2d -state:failed or recipe:sft",
    "state:failed reward/mean>0.5",
    "reward/mean>0.5",
    "started<2d config.actor_rollout_ref.actor.optim.lr>=1e-5",
    "config.actor_rollout_ref.actor.optim.lr>=1e-5",
)


def log_steps(root: Path) -> None:
    """The same history for every run: twenty metrics a step."""
    log = Run(root / "log")
    log.path.mkdir()
    for step in range(1, STEPS + 1):
        metrics = {
            "reward/mean": step / 60,
            **{f"actor/metric_{n}": 0.123456789 for n in range(19)},
        }
        record = {"v": 1, "step": step, "attempt": 1, "t": 1.0, "metrics": metrics}
        jsonl.append(log.train_log, record)
    text = log.train_log.read_bytes()
    for run in (root / "runs").iterdir():
        (run / "train_log.jsonl").write_bytes(text)


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_runs(folder / "runs", COUNT)
        log_steps(folder)
        index = Index(folder / "runs", RunRow, folder / "index.sqlite")
        list_runs(folder / "runs", index)
        started = time.monotonic()
        runs = list_runs(folder / "runs", index)
        print(f"list of {len(runs):,} runs: {time.monotonic() - started:.3f} s\n")
        print("| filter | passed | first, s | again, s |\n|---|---|---|---|")
        for text in FILTERS:
            files, chosen, took = RunFiles(folder / "runs"), RunFilter(text), []
            for _ in range(2):
                started = time.monotonic()
                passed = len(list(chosen.select(runs, files)))
                took.append(time.monotonic() - started)
            print(f"| `{text}` | {passed:,} | {took[0]:.3f} | {took[1]:.3f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
