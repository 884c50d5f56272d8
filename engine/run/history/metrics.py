"""Metric names: the canonical ones, and what other writers call the same quantity."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import msgspec

from engine.run import figures

REWARD_MEAN = figures.REWARD
REWARD_STD = "reward/std"
REWARD_MIN = "reward/min"
REWARD_MAX = "reward/max"
ZERO_STD_SHARE = "reward/zero_std_share"
FAILED_SHARE = "reward/failed_share"
REWARD_ERRORS = "reward/errors"
REWARD_TIMEOUTS = "reward/timeouts"
BLOCKED_SHARE = "reward/blocked"
"""The share of the responses with a text of grubrics.blocklist."""
ROLLOUT_TEMPERATURE = "rollout/temperature"
"""The temperature of the training rollouts of a step, with grubrics.temperature_schedule."""
ROLLOUT_LENGTH = "rollout/max_response_length"
"""The tokens that they could have at most, with grubrics.response_length_schedule."""
SKIPPED_SHARE = "updates/skipped_share"
"""The share of a step's updates that were skipped: their gradient norm was NaN or infinite."""
MAX_SKIPPED_IN_A_ROW = "updates/max_skipped_in_a_row"
"""How many updates had been skipped one after the other, also in the steps before."""
CURRICULUM_PHASE = "curriculum/phase"
"""The phase of a step, from 1, with grubrics.curriculum."""
CURRICULUM_PHASES = "curriculum/phases"
"""The number of phases."""
VERIFIABLE_SHARE = "curriculum/verifiable_share"
"""The share of verifiable prompts among those that the step trained on."""
JUDGE_LATENCY = "judge_api_latency_s"
JUDGE_LATENCY_P50 = "judge_api_latency_p50_s"
JUDGE_LATENCY_P95 = "judge_api_latency_p95_s"
SEMAPHORE_WAIT = "semaphore_wait_s"
REWARD_DURATION = "reward_total_duration_s"
REWARD_WAIT = "reward_wait_s"
GPU_PHASE = "gpu_phase_duration_s"
JUDGE_CALLS = "judge/calls"
JUDGE_ERRORS = "judge/errors"
JUDGE_TIMEOUTS = "judge/timeouts"
JUDGE_RATE_LIMITS = "judge/rate_limits"
JUDGE_PARSE_FAILURES = "judge/parse_failures"
JUDGE_TOKENS_IN = "judge/tokens_in"
JUDGE_TOKENS_OUT = "judge/tokens_out"
GROUPS_EQUAL = "groups/evicted_equal"
VALIDATION_REWARD = figures.VALIDATION
VALIDATION_LOW, VALIDATION_HIGH = "val/reward_low", "val/reward_high"
"""The 95% interval of the mean, over the prompts."""
VALIDATION_BEST = "val/best_of_k"
"""The mean over the prompts of the best of their k rollouts; with val_kwargs.n above 1."""
STEP_TIME = "timing_s/step"
DATA_TIME = "timing_s/data"
"""The seconds that a step of SFT waited for its rows, with their tokenization."""
UPDATE_TIME = "timing_s/update"
"""The seconds of a step of SFT after that."""
THROUGHPUT = "perf/throughput"
"""Tokens per second and GPU."""
TOKENS = ("perf/total_num_tokens", "train/global_tokens")
"""The tokens of a step, of GRPO and of SFT."""
TRAIN_LOSS = "train/loss"
VALIDATION_LOSS = "val/loss"
# What a progress bar of an external log shows. They are logged only if nothing else is.
PROGRESS_PERCENT = "progress/percent"
PROGRESS_TOTAL = "progress/total_steps"
PROGRESS_ELAPSED = "progress/elapsed_s"
PROGRESS_REMAINING = "progress/remaining_s"
PROGRESS_RATE = "progress/steps_per_s"


class _Tables(msgspec.Struct, frozen=True):
    """The tables of ``metrics.json``: YAML would take longer to read than all else of a command."""

    most_used: tuple[str, ...]
    usual: tuple[tuple[str, ...], ...]
    step_phases: tuple[str, ...]
    aliases: dict[str, dict[str, str]]
    tracked: tuple[str, ...]
    rewards: frozenset[str]
    supervised: dict[str, str]
    rewarded: dict[str, str]
    siblings: dict[str, tuple[str, ...]]
    dashboard_names: dict[str, tuple[str, ...]]
    not_logged: dict[str, str]


_TABLES = msgspec.json.decode(Path(__file__).with_suffix(".json").read_bytes(), type=_Tables)

MOST_USED = _TABLES.most_used
"""The metrics that a message names first."""
USUAL = _TABLES.usual
"""What is worth a look in any run; of each quantity, the first name that a run has logged."""
STEP_PHASES = _TABLES.step_phases
"""The phases of a GRPO step, in the order they happen; their sum is about STEP_TIME."""
ALIASES = {name: known for names in _TABLES.aliases.values() for name, known in names.items()}
"""The canonical name of another; of two for one metric, the first counts."""
TRACKED = _TABLES.tracked
"""What W&B, the console and ``metrics.jsonl`` of a run get beside verl's numbers: the names that
guides to its logs filter for. ``train_log.jsonl`` has each quantity once, under its own name."""
REWARDS = _TABLES.rewards
"""Names by which a log shows that its run learns from rewards."""
SUPERVISED, REWARDED = _TABLES.supervised, _TABLES.rewarded
"""Names that mean one quantity in a run that learns from labels, and another in one that learns
from rewards; in the words of HF's Trainer, TRL and slime."""
SIBLINGS = _TABLES.siblings
"""One quantity that trainers of different kinds log under names of their own."""
DASHBOARD_NAMES = _TABLES.dashboard_names
"""Names that dashboards of W&B use for what verl logs under another name."""
NOT_LOGGED = _TABLES.not_logged
"""Why a metric with a known name may be in no step."""


def canonical(name: str) -> str:
    """The canonical name of a metric; an unknown name is its own."""
    return ALIASES.get(name, name)


def usual_metrics(names: Collection[str]) -> list[str]:
    """Of each quantity of ``USUAL``, the first name that is among ``names``."""
    logged = (next((name for name in group if name in names), None) for group in USUAL)
    return [name for name in logged if name is not None]
