"""Metric names: the canonical ones, and what other writers call the same quantity."""

from __future__ import annotations

from collections.abc import Collection

from engine.runs import figures

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
GROUPS_TRAINED = "groups/trained"
GROUPS_REFILLED = "groups/refilled"
GROUPS_EQUAL = "groups/evicted_equal"
GROUPS_FAILED = "groups/evicted_failed"
GROUPS_STALE = "groups/evicted_stale"
GROUPS_SURPLUS = "groups/discarded"
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

MOST_USED = (
    REWARD_MEAN,
    REWARD_STD,
    VALIDATION_REWARD,
    TRAIN_LOSS,
    VALIDATION_LOSS,
    "actor/kl_loss",
    "actor/entropy",
    "response_length/mean",
    JUDGE_LATENCY,
    STEP_TIME,
)
"""The metrics that a message names first."""

USUAL: tuple[tuple[str, ...], ...] = (
    (REWARD_MEAN,),
    (VALIDATION_REWARD,),
    (TRAIN_LOSS,),
    (VALIDATION_LOSS,),
    (REWARD_STD,),
    ("actor/pg_loss", "actor/loss"),
    ("actor/kl_loss", "actor/reward_kl_penalty", "actor/ppo_kl"),
    ("actor/entropy", "actor/entropy_loss"),
    ("actor/grad_norm",),
    ("actor/pg_clipfrac",),
    ("response_length/mean",),
    ("train/grad_norm",),
    ("train/lr",),
    (JUDGE_LATENCY,),
    (STEP_TIME,),
)
"""What is worth a look in any run; of each quantity, the first name that a run has logged."""

# The phases of a GRPO step, in the order they happen; their sum is about STEP_TIME.
STEP_PHASES = (
    "timing_s/gen",
    "timing_s/reward",
    "timing_s/old_log_prob",
    "timing_s/ref",
    "timing_s/values",
    "timing_s/adv",
    "timing_s/update_critic",
    "timing_s/update_actor",
    "timing_s/update_weights",
    "timing_s/save_checkpoint",
)

ALIASES = {
    "train/reward_mean": REWARD_MEAN,
    "train/reward_std": REWARD_STD,
    "reward_mean": REWARD_MEAN,
    "reward_std": REWARD_STD,
    "timing/gpu_phase_duration_s": GPU_PHASE,
    "timing/reward_total_duration_s": REWARD_DURATION,
    "timing/judge_api_latency_s": JUDGE_LATENCY,
    "timing/semaphore_wait_s": SEMAPHORE_WAIT,
    "policy_loss": "actor/pg_loss",
    "loss": TRAIN_LOSS,
    "grad_norm": "actor/grad_norm",
    "kl": "actor/ppo_kl",
    "entropy": "actor/entropy",
    "step_time": STEP_TIME,
    "perf/time_per_step": STEP_TIME,
    "val_reward": VALIDATION_REWARD,
    # verl's V1 trainer calls a group of rollouts a sample; ours are of engine/train/sampler.py
    "training/groups/trained_total": GROUPS_TRAINED,
    "training/groups/refilled_total": GROUPS_REFILLED,
    "training/filter_groups/evicted_samples": GROUPS_EQUAL,
    "training/rollout_failure/evicted_samples": GROUPS_FAILED,
    "training/off_policy/evicted_samples": GROUPS_STALE,
    "training/filter_groups/discarded_surplus_samples": GROUPS_SURPLUS,
    # engine/train/skipped_updates.py, of the policy
    f"actor/{SKIPPED_SHARE}": SKIPPED_SHARE,
    f"actor/{MAX_SKIPPED_IN_A_ROW}": MAX_SKIPPED_IN_A_ROW,
    # HF's Trainer and TRL
    "learning_rate": "train/lr",
    "eval_loss": VALIDATION_LOSS,
    "eval/loss": VALIDATION_LOSS,
    "eval_reward": VALIDATION_REWARD,
    "eval/reward": VALIDATION_REWARD,
    "reward": REWARD_MEAN,
    "frac_reward_zero_std": ZERO_STD_SHARE,
    "completion_length": "response_length/mean",
    "completions/mean_length": "response_length/mean",
    "completions/min_length": "response_length/min",
    "completions/max_length": "response_length/max",
    "completions/clipped_ratio": "response_length/clip_ratio",
    # agent_stable_slo
    "mean_reward": REWARD_MEAN,
    # slime; its rewards are normalized within their groups, unless they are not
    "pg_loss": "actor/pg_loss",
    "ppo_kl": "actor/ppo_kl",
    "kl_loss": "actor/kl_loss",
    "entropy_loss": "actor/entropy",
    "pg_clipfrac": "actor/pg_clipfrac",
    "rollout/raw_reward": REWARD_MEAN,
    "rollout/rewards": REWARD_MEAN,
    "rollout/response_lengths": "response_length/mean",
    "rollout/response_len/mean": "response_length/mean",
    "rollout/response_len/min": "response_length/min",
    "rollout/response_len/max": "response_length/max",
    "rollout/truncated": "response_length/clip_ratio",
    "rollout/truncated_ratio": "response_length/clip_ratio",
    "perf/step_time": STEP_TIME,
    "perf/tokens_per_gpu_per_sec": THROUGHPUT,
}
"""The canonical name of another; of two for one metric, the first counts."""

TRACKED = (
    REWARD_MEAN,
    REWARD_STD,
    "train/reward_mean",
    "train/reward_std",
    "timing/gpu_phase_duration_s",
    "timing/reward_total_duration_s",
    "timing/judge_api_latency_s",
    "timing/semaphore_wait_s",
)
"""What W&B, the console and ``metrics.jsonl`` of a run get beside verl's numbers: the names that
guides to its logs filter for. ``train_log.jsonl`` has each quantity once, under its own name."""

REWARDS = frozenset({"reward", "mean_reward", "rollout/raw_reward", "rollout/rewards"})
"""Names by which a log shows that its run learns from rewards."""

# Names that mean one quantity in a run that learns from labels, and another in one that learns from
# rewards; in the words of HF's Trainer, TRL and slime.
SUPERVISED = {
    "loss": TRAIN_LOSS,
    "grad_norm": "train/grad_norm",
    "learning_rate": "train/lr",
    "lr": "train/lr",
    "lr-pg_0": "train/lr",
    "entropy": "train/entropy",
}
REWARDED = {
    "loss": "actor/loss",
    "grad_norm": "actor/grad_norm",
    "learning_rate": "actor/lr",
    "lr": "actor/lr",
    "lr-pg_0": "actor/lr",
    "entropy": "actor/entropy",
    "kl": "actor/kl_loss",
    "clip_ratio": "actor/pg_clipfrac",
    "clip_ratio/region_mean": "actor/pg_clipfrac",
}
"""The same of a run that learns from rewards."""

# One quantity that trainers of different kinds log under names of their own.
SIBLINGS = {
    TRAIN_LOSS: ("actor/loss", "actor/pg_loss"),
    "actor/pg_loss": ("actor/loss", TRAIN_LOSS),
    "actor/grad_norm": ("train/grad_norm",),
    "train/lr": ("actor/lr",),
    "actor/entropy": ("train/entropy",),
    "actor/ppo_kl": ("actor/kl_loss",),
}

DASHBOARD_NAMES = {
    "train/policy_loss": ("actor/pg_loss",),
    "train/value_loss": ("critic/vf_loss",),
    "train/kl_loss": ("actor/kl_loss",),
    "train/reward": (REWARD_MEAN,),
    "train/advantage": ("critic/advantages/mean",),
    "train/entropy": ("actor/entropy",),
    "train/learning_rate": ("train/lr", "actor/lr"),
    "train/global_step": ("training/global_step",),
    "train/epoch": ("training/epoch",),
    "rollout/throughput": (THROUGHPUT,),
}
"""Names that dashboards of W&B use for what verl logs under another name."""

_CRITIC = "only a critic has a value loss (algorithm.adv_estimator=gae); GRPO has no critic"
_KL = "logged with actor_rollout_ref.actor.use_kl_loss=true"
_BY_STEP = "SFT logs neither; every value is printed with its step"
_SAMPLES = "samples are not counted; tokens per second and GPU: perf/throughput"
_BY_TIME = "recorded by time, not by step: panel machine of watch, and system.jsonl of the run"
NOT_LOGGED = {
    "train/value_loss": _CRITIC,
    "critic/vf_loss": _CRITIC,
    "train/kl_loss": _KL,
    "actor/kl_loss": _KL,
    VALIDATION_REWARD: "logged by validations: trainer.test_freq",
    VALIDATION_LOSS: "logged by validations: data.val_file, training.eval_steps",
    "train/epoch": _BY_STEP,
    "train/global_step": _BY_STEP,
    "train/throughput": _SAMPLES,
    "system/gpu_utilization": _BY_TIME,
    "system/memory_usage": _BY_TIME,
}
"""Why a metric with a known name may be in no step."""


def canonical(name: str) -> str:
    """The canonical name of a metric; an unknown name is its own."""
    return ALIASES.get(name, name)


def usual_metrics(names: Collection[str]) -> list[str]:
    """Of each quantity of ``USUAL``, the first name that is among ``names``."""
    logged = (next((name for name in group if name in names), None) for group in USUAL)
    return [name for name in logged if name is not None]
