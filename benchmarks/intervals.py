"""How often intervals and verdicts are right, beside what is usually computed in their place.

    python benchmarks/intervals.py [--experiments 2000]

Simulated scores with a known truth go through ``engine.base``. The right column is the usual
way on the same numbers, with NumPy and SciPy: normal intervals, samples taken as independent,
unpaired tests, a bootstrap over seeds, tests without correction. Goals for error rates of 5% leave
1% for the simulation. Exits with 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
from scipy import stats

from engine.base.intervals import (
    Estimate,
    estimate_clustered_mean,
    estimate_mean,
    estimate_rate,
    pass_at_k,
)
from engine.base.paired_comparison import (
    Comparison,
    adjust_for_many,
    alpha_of_looks,
    compare_paired,
    compare_unpaired,
    needed_n,
)

LOOKS = tuple(look / 10 for look in range(1, 11))
Z = stats.norm.ppf(0.975)


@dataclass(frozen=True)
class Row:
    """``ours`` must be within ``least`` and ``most``; ``usual`` is the other way's figure."""

    question: str
    least: float
    most: float
    ours: float
    usual: float
    usual_way: str

    @property
    def is_met(self) -> bool:
        return self.least <= self.ours <= self.most

    def __str__(self) -> str:
        goal = f"{self.least:g} to {self.most:g}"
        if self.least == -math.inf:
            goal = f"at most {self.most:g}"
        elif self.most == math.inf:
            goal = f"at least {self.least:g}"
        elif self.least == self.most:
            goal = f"{self.least:g}"
        cells = (self.question, goal, f"{self.ours:.3f}", f"{self.usual:.3f}, {self.usual_way}")
        return f"| {' | '.join(cells)} |"


at_least = partial(Row, most=math.inf)
at_most = partial(Row, least=-math.inf)


def covers(estimate: Estimate, truth: float) -> bool:
    return estimate.low is not None and estimate.high is not None and (
        estimate.low <= truth <= estimate.high
    )  # fmt: skip


def covers_normally(values: np.ndarray, truth: float) -> bool:
    error = values.std(ddof=1) / math.sqrt(len(values))
    return bool(abs(values.mean() - truth) <= Z * error)


def half_width(comparison: Comparison) -> float:
    return comparison.difference.half_width or math.nan


def coverage_of_means(random: np.random.Generator, experiments: int) -> Iterator[Row]:
    sets = random.beta(2, 3, size=(experiments, 200))
    ours = np.mean([covers(estimate_mean(values.tolist()), 0.4) for values in sets])
    usual = np.mean([covers_normally(values, 0.4) for values in sets])
    yield Row("coverage, mean of 200 items", 0.93, 0.97, ours, usual, "normal")
    for n, rate in ((20, 0.05), (50, 0.9), (100, 0.05)):
        hits = np.arange(n + 1)
        chances = stats.binom.pmf(hits, n, rate)
        ours = sum(chances[k] for k in hits if covers(estimate_rate(int(k), n), rate))
        errors = Z * np.sqrt(hits / n * (1 - hits / n) / n)
        usual = chances[np.abs(hits / n - rate) <= errors].sum()
        yield at_least(
            f"coverage, rate {rate:g} of {n} items (exact)",
            least=0.92,
            ours=ours,
            usual=usual,
            usual_way="normal",
        )


def samples_of_prompts(random: np.random.Generator, experiments: int) -> Iterator[Row]:
    """100 prompts with 4 rollouts, whose chance to pass is Beta(.5, .5)."""
    clusters = np.repeat(range(100), 4).tolist()
    clustered, naive, ratios = 0, 0, []
    experiments //= 2
    for _ in range(experiments):
        passes = random.random((100, 4)) < random.beta(0.5, 0.5, size=(100, 1))
        estimate = estimate_clustered_mean(passes.ravel().astype(float).tolist(), clusters)
        error = passes.std(ddof=1) / math.sqrt(passes.size)
        clustered += not covers(estimate, 0.5)
        naive += abs(passes.mean() - 0.5) > Z * error
        ratios.append((estimate.standard_error or math.nan) / error)
    usual = "as 400 independent values"
    yield at_least(
        "standard error, 100 prompts x 4 rollouts, over the naive one",
        least=1.4,
        ours=float(np.mean(ratios)),
        usual=1.0,
        usual_way=usual,
    )
    yield at_most(
        "truth outside the interval, the same",
        most=0.07,
        ours=clustered / experiments,
        usual=naive / experiments,
        usual_way=usual,
    )


def pairing(random: np.random.Generator, experiments: int) -> Iterator[Row]:
    """200 items that each target passes or not; their difficulty is a normal variable with this
    correlation between the targets. The second target passes 57% instead of 50%."""
    experiments //= 4
    for correlation, most, least in ((0.8, 0.68, 0.5), (0.9, 0.58, 0.65)):
        widths, paired, unpaired = [], 0, 0
        covariance = [[1, correlation], [correlation, 1]]
        for _ in range(experiments):
            latent = random.multivariate_normal([0, 0], covariance, size=200)
            a, b = (latent > [0, stats.norm.ppf(0.43)]).T.astype(float).tolist()
            of_pairs, of_samples = compare_paired(a, b), compare_unpaired(a, b)
            widths.append(half_width(of_pairs) / half_width(of_samples))
            paired += of_pairs.verdict == "better"
            unpaired += stats.ttest_ind(b, a).pvalue <= 0.05
        yield at_most(
            f"width of the paired interval over the unpaired, correlation {correlation:g}",
            most=most,
            ours=float(np.mean(widths)),
            usual=1.0,
            usual_way="unpaired",
        )
        yield at_least(
            "the gain of 7 points found, the same",
            least=least,
            ours=paired / experiments,
            usual=unpaired / experiments,
            usual_way="unpaired",
        )


def seeds(random: np.random.Generator, experiments: int) -> Iterator[Row]:
    """Differences of arm and base by seed, with a standard deviation of 1."""
    for k in (3, 5):
        differences = random.normal(0.7, 1.0, size=(experiments, k))
        pairs = [compare_paired([0.0] * k, values.tolist()) for values in differences]
        ours = np.mean([covers(pair.difference, 0.7) for pair in pairs])
        resampled = differences[:, [*product(range(k), repeat=k)]].mean(axis=2)
        low, high = np.quantile(resampled, [0.025, 0.975], axis=1, method="inverted_cdf")
        usual = np.mean((low <= 0.7) & (high >= 0.7))
        yield Row(f"coverage, {k} seeds", 0.93, 0.97, float(ours), float(usual), "bootstrap")
    for k, effect in ((3, 0.0), (3, 4.0), (5, 2.0)):
        differences = random.normal(effect, 1.0, size=(experiments, k))
        verdicts = [compare_paired([0.0] * k, values.tolist()).verdict for values in differences]
        z = differences.mean(axis=1) / differences.std(axis=1, ddof=1) * math.sqrt(k)
        if effect:
            yield at_least(
                f"'better', {k} seeds, effect of {effect:g} standard deviations",
                least=0.88,
                ours=verdicts.count("better") / experiments,
                usual=float(np.mean(z > Z)),
                usual_way="normal",
            )
        else:
            yield at_most(
                f"any verdict, {k} seeds, equal arms",
                most=0.06,
                ours=1 - verdicts.count("undecided") / experiments,
                usual=float(np.mean(np.abs(z) > Z)),
                usual_way="normal",
            )


def many_arms(random: np.random.Generator, experiments: int) -> Iterator[Row]:
    """Ten arms that equal their base, five seeds."""
    adjusted, alone = 0, 0
    for _ in range(experiments):
        base, arms = random.normal(size=5), random.normal(size=(10, 5))
        pairs = [compare_paired(base.tolist(), arm.tolist()) for arm in arms]
        alone += any(pair.verdict != "undecided" for pair in pairs)
        adjusted += any(pair.verdict != "undecided" for pair in adjust_for_many(pairs))
    yield at_most(
        "any false verdict, 10 equal arms",
        most=0.06,
        ours=adjusted / experiments,
        usual=alone / experiments,
        usual_way="without correction",
    )


def early_looks(random: np.random.Generator, experiments: int) -> Iterator[Row]:
    """An arm that equals its base, looked at ten times while both train."""
    levels = np.array(alpha_of_looks(LOOKS))
    for k in (3, 5):
        steps = random.normal(size=(experiments, len(LOOKS), k)).cumsum(axis=1)
        p_values = stats.ttest_1samp(steps, 0.0, axis=2).pvalue
        yield at_most(
            f"false stop in ten looks, {k} seeds",
            most=0.05,
            ours=float((p_values <= levels).any(axis=1).mean()),
            usual=float((p_values <= 0.05).any(axis=1).mean()),
            usual_way="5% at each look",
        )


def sample_sizes(random: np.random.Generator, experiments: int) -> Iterator[Row]:
    """The printed number of units, tested on so many simulated comparisons."""
    for effect in (0.2, 0.4, 2.0):
        n = needed_n(effect, 1.0) or 0
        usual = math.ceil(((Z + stats.norm.ppf(0.8)) / effect) ** 2)
        power = [
            np.mean(stats.ttest_1samp(draws, 0.0, axis=1).pvalue < 0.05)
            for draws in (random.normal(effect, 1.0, (10 * experiments, k)) for k in (n, usual))
        ]
        question = f"power with the {n} units that are printed, effect {effect:g}"
        yield Row(question, 0.78, 0.95, float(power[0]), float(power[1]), f"{usual} units, normal")


def pass_rates(_: np.random.Generator, __: int) -> Iterator[Row]:
    """One correct answer of eight."""
    for k, exact in ((8, 1.0), (4, 0.5), (1, 0.125)):
        usual = 1 - (7 / 8) ** k
        yield Row(f"pass@{k}, 1 of 8 correct", exact, exact, pass_at_k(8, 1, k), usual,
                  "with replacement, as verl's best@N")  # fmt: skip


SECTIONS = (
    coverage_of_means,
    samples_of_prompts,
    pairing,
    seeds,
    many_arms,
    early_looks,
    sample_sizes,
    pass_rates,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit 0 when every goal is met, else 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiments", type=int, default=2000)
    experiments = parser.parse_args(argv).experiments
    random = np.random.default_rng(0)
    print("| simulated | goal | here | the usual way |\n|---|---|---|---|")
    missed = 0
    for section in SECTIONS:
        for row in section(random, experiments):
            missed += not row.is_met
            print(row, flush=True)
    print(f"\n{missed} goals missed" if missed else "\nall goals met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
