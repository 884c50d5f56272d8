"""Does GRPO learn? SFT, then GRPO, of the tiny demo on a CPU, for several seeds.

    python benchmarks/learning.py [--seeds 0 1 2] [--steps 60] [--out DIR]

Goes through the project's own entry points and reads what they leave behind: reward.jsonl, one
line per rollout. Intervals are 95 % bootstrap intervals: over rollout groups for training, over
held-out questions for validation.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base import jsonl

WINDOW = 10
RESAMPLES = 2000


@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True)
class Outcome:
    """What one seed reached. ``group_std`` is the mean standard deviation inside a group."""

    seed: int
    train_first: Interval
    train_last: Interval
    val_before: Interval
    val_after: Interval
    group_std: float
    sft_seconds: float
    grpo_seconds: float

    def learned(self) -> bool:
        """Training and validation reward both rose beyond their intervals."""
        return (
            self.train_last.low > self.train_first.high
            and self.val_after.low > self.val_before.high
        )


def run_seed(seed: int, steps: int, out: Path) -> Outcome:
    """Train one seed from scratch below ``out``."""
    started = time.monotonic()
    _call("engine.data.tiny_world", "--seed", str(seed), "--out", str(out / "tiny"))
    sft = out / "sft"
    _train(
        "sft",
        out / "runs" / "sft" / "attempt_1",
        f"model.path={out}/tiny/model",
        f"data.train_file={out}/tiny/sft/train.jsonl",
        f"training.output_dir={sft}",
        f"training.seed={seed}",
    )
    sft_done = time.monotonic()
    attempt = out / "runs" / "grpo" / "attempt_1"
    _train(
        "grpo",
        attempt,
        f"actor_rollout_ref.model.path={sft}/final",
        f"data.train_files={out}/tiny/processed/train.parquet",
        f"data.val_files={out}/tiny/processed/val.parquet",
        f"data.seed={seed}",
        f"grubrics.seed={seed}",
        f"trainer.total_training_steps={steps}",
        f"trainer.test_freq={steps}",
        "trainer.save_freq=-1",
        f"trainer.default_local_dir={out}/grpo",
    )
    return read_outcome(
        seed,
        list(jsonl.read(attempt / "reward.jsonl")),
        sft_done - started,
        time.monotonic() - sft_done,
    )


def read_outcome(
    seed: int, records: Sequence[dict[str, Any]], sft_seconds: float, grpo_seconds: float
) -> Outcome:
    """The numbers of one seed, from the lines of its reward.jsonl."""
    scored = [record for record in records if record["reward"] is not None]
    groups: defaultdict[int, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in scored:
        if record["split"] == "train":
            groups[record["step"]][record["group"]].append(record["reward"])
    train = sorted(groups)
    val = [record for record in scored if record["split"] == "val"]
    first, last = min(r["step"] for r in val), max(r["step"] for r in val)
    chooser = random.Random(seed)
    return Outcome(
        seed=seed,
        train_first=interval(_group_means(groups, train[:WINDOW]), chooser),
        train_last=interval(_group_means(groups, train[-WINDOW:]), chooser),
        val_before=interval([r["reward"] for r in val if r["step"] == first], chooser),
        val_after=interval([r["reward"] for r in val if r["step"] == last], chooser),
        group_std=statistics.mean(
            statistics.stdev(rewards)
            for step in train
            for rewards in groups[step].values()
            if len(rewards) > 1
        ),
        sft_seconds=sft_seconds,
        grpo_seconds=grpo_seconds,
    )


def interval(values: Sequence[float], chooser: random.Random) -> Interval:
    """Bootstrap interval of the mean of ``values``."""
    means = sorted(
        statistics.fmean(chooser.choices(values, k=len(values))) for _ in range(RESAMPLES)
    )
    low, high = means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES)]
    return Interval(statistics.fmean(values), low, high)


def table(outcomes: Sequence[Outcome]) -> str:
    """The outcomes as a Markdown table."""
    head = (
        f"| seed | train, first {WINDOW} steps | train, last {WINDOW} steps | validation before | "
        "validation after | in-group std | SFT s | GRPO s | learned |"
    )
    rows = [
        f"| {o.seed} | {o.train_first} | {o.train_last} | {o.val_before} | {o.val_after} | "
        f"{o.group_std:.2f} | {o.sft_seconds:.0f} | {o.grpo_seconds:.0f} | "
        f"{'yes' if o.learned() else 'no'} |"
        for o in outcomes
    ]
    return "\n".join([head, "|---" * 9 + "|", *rows])


def _group_means(
    groups: defaultdict[int, defaultdict[str, list[float]]], steps: Sequence[int]
) -> list[float]:
    return [statistics.fmean(rewards) for step in steps for rewards in groups[step].values()]


def _train(kind: str, attempt: Path, *overrides: str) -> None:
    environment = {**os.environ, "GRUBRICS_ATTEMPT_DIR": str(attempt.resolve())}
    _call(
        f"engine.train.{kind}", "--config", f"configs/{kind}_tiny.yaml", *overrides, env=environment
    )


def _call(module: str, *arguments: str, env: dict[str, str] | None = None) -> None:
    """Run one of the project's commands; its output goes to stderr, so stdout is the table."""
    subprocess.run(
        [sys.executable, "-m", module, *arguments], env=env, stdout=sys.stderr, check=True
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Exit 0 when every seed learned, else 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--out", type=Path, default=Path("outputs/learning"))
    args = parser.parse_args(argv)
    outcomes = []
    for seed in args.seeds:
        outcomes.append(run_seed(seed, args.steps, args.out / f"seed_{seed}"))
        print(table(outcomes[-1:]), file=sys.stderr, flush=True)
    print(table(outcomes))
    return 0 if all(outcome.learned() for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
