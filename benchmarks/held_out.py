"""Is GRPO better than SFT on held-out items, and are the printed intervals right?

    python benchmarks/held_out.py [--seeds 1 2 3] [--steps 60] [--out DIR]

Trains the tiny demo in an empty folder: SFT once, then GRPO with each seed. ``evaluate`` measures
the untrained model, the SFT model and the last checkpoint of every GRPO run on the 64 held-out
items. SciPy computes the paired differences, intervals and p values (Holm) a second time from
answers.jsonl and scores.jsonl alone. Exits with 1 if a number differs, or if the interval of a
GRPO run over SFT is not above 0. With ``--out`` of an earlier call nothing is trained again.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy import stats
from tiny_project import TinyProject

BASELINES = ("base", "sft")


@dataclass(frozen=True)
class Paired:
    """The difference of two targets over the items that both have a score for."""

    difference: float
    low: float
    high: float
    p: float
    n: int

    def equals(self, other: Paired) -> bool:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return all(math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9) for a, b in pairs)

    def __str__(self) -> str:
        return f"{self.difference:+.4f} | {self.low:+.4f} to {self.high:+.4f} | {self.p:.1e}"


def train(project: TinyProject, seeds: Sequence[int], steps: int) -> list[str]:
    """The names of the GRPO runs."""
    project.prepare()
    runs = {f"grpo-{seed}": seed for seed in seeds}
    for run, seed in runs.items():
        project.train_grpo(run, seed, f"trainer.total_training_steps={steps}")
    return [*runs]


def printed_pairs(answer: Mapping[str, Any]) -> dict[tuple[str, str], Paired]:
    """What ``evaluate`` says of the reward, by target and baseline."""
    return {
        (pair["b"], pair["a"]): Paired(pair["difference"], *pair["ci"], pair["p"], pair["n"])
        for pair in answer["comparisons"]
        if pair["metric"] == "reward"
    }


def computed_pairs(folder: Path) -> dict[tuple[str, str], Paired]:
    """The same from the lines of the folder, with SciPy."""
    rewards = {
        json.loads(file.read_text())["name"]: read_rewards(file.parent)
        for file in folder.glob("*/target.json")
    }
    pairs = {}
    for baseline in BASELINES:
        targets = [name for name in rewards if name not in BASELINES]
        tested = [test_paired(rewards[target], rewards[baseline]) for target in targets]
        adjusted = holm([pair.p for pair in tested])
        for target, pair, p in zip(targets, tested, adjusted, strict=True):
            pairs[target, baseline] = Paired(pair.difference, pair.low, pair.high, p, pair.n)
    return pairs


def read_rewards(folder: Path) -> dict[tuple[str, int], float]:
    """The reward of every answer, by item and sample."""
    answers = [json.loads(line) for line in (folder / "answers.jsonl").open()]
    scores = [json.loads(line) for line in (folder / "scores.jsonl").open()]
    rewards = {(score["uid"], score["sample"]): score["reward"] for score in scores}
    return {(row["uid"], row["sample"]): rewards[row["uid"], row["sample"]] for row in answers}


def test_paired(
    target: Mapping[tuple[str, int], float], baseline: Mapping[tuple[str, int], float]
) -> Paired:
    keys = sorted(target)
    result = stats.ttest_rel([target[key] for key in keys], [baseline[key] for key in keys])
    interval = result.confidence_interval(0.95)
    mean = (interval.low + interval.high) / 2
    return Paired(mean, interval.low, interval.high, result.pvalue, len(keys))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p values: the i-th smallest of m times m - i + 1, never below a smaller one's."""
    ordered = sorted(p_values)
    adjusted = [min(1.0, (len(ordered) - rank) * p) for rank, p in enumerate(ordered)]
    return [max(adjusted[: ordered.index(p) + 1]) for p in p_values]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--out", type=Path, help="keep the project here (default: a new folder)")
    given = parser.parse_args()
    out = (given.out or Path(tempfile.mkdtemp(prefix="held-out-"))).resolve()
    project = TinyProject(out)
    runs = train(project, given.seeds, given.steps)
    answer = project.call("evaluate", *runs, "--baseline", ",".join(BASELINES))
    printed, computed = printed_pairs(answer), computed_pairs(out / answer["dir"])
    for result in answer["results"]:
        if result["metric"] == "reward":
            low, high = result["ci"]
            print(f"{result['target']:12} {result['mean']:+.3f}  ({low:+.3f} to {high:+.3f})")
    print("\n| run | over | items | difference | 95% interval | p (Holm) | SciPy |")
    print("|---" * 7 + "|")
    is_right = printed.keys() == computed.keys()
    for (target, baseline), pair in printed.items():
        other = computed.get((target, baseline))
        is_equal = other is not None and pair.equals(other)
        is_right = is_right and is_equal and pair.low > 0
        print(f"| {target} | {baseline} | {pair.n} | {pair} | {'equal' if is_equal else other} |")
    print(f"\nproject: {out}")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
