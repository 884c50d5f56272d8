"""Check that the batch sizes fit together and that the data gives as many steps as asked for."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass

from engine.estimate.judge import calls_of
from engine.preflight.check import Check, Subject, fail, ok, skip, summary, warn
from engine.recipe.recipe import Recipe
from engine.recipe.scoring import asks_judge
from engine.recipe.steps import StepPlan, count_of, step_plan
from engine.runs.kinds import GRPO, SFT

BATCH = "batch"

_ACTOR = "actor_rollout_ref.actor"
_ROLLOUT = "actor_rollout_ref.rollout"
_REF = "actor_rollout_ref.ref"

KEYS = {
    "batch": "data.train_batch_size",
    "mini": f"{_ACTOR}.ppo_mini_batch_size",
    "micro": f"{_ACTOR}.ppo_micro_batch_size_per_gpu",
    "n": f"{_ROLLOUT}.n",
    "log_prob": f"{_ROLLOUT}.log_prob_micro_batch_size_per_gpu",
    "ref_log_prob": f"{_REF}.log_prob_micro_batch_size_per_gpu",
    "sequence_parallel": f"{_ACTOR}.ulysses_sequence_parallel_size",
    "rollout_parallel": f"{_ROLLOUT}.tensor_model_parallel_size",
}
DEPRECATED = {
    f"{_ACTOR}.ppo_micro_batch_size": KEYS["micro"],
    f"{_ROLLOUT}.log_prob_micro_batch_size": KEYS["log_prob"],
    f"{_REF}.log_prob_micro_batch_size": KEYS["ref_log_prob"],
}


@dataclass(frozen=True)
class BatchSizes:
    """The sizes that constrain each other.

    ``batch`` and ``mini`` count prompts, the micro batches count rollouts on one GPU; each prompt
    has ``n`` rollouts. A micro batch is None where verl sizes it by tokens or does not use it, and
    0 where it is needed but not set.
    """

    batch: int
    mini: int
    n: int
    micro: int | None
    log_prob: int | None
    ref_log_prob: int | None
    gpus: int
    sequence_parallel: int = 1
    rollout_parallel: int = 1

    @property
    def replicas(self) -> int:
        """Data-parallel replicas of the actor."""
        return max(1, self.gpus // self.sequence_parallel)

    @property
    def rollouts_per_mini(self) -> int:
        """Rollouts of one optimizer update on one replica."""
        return self.mini * self.n // self.replicas

    @property
    def rollouts_per_replica(self) -> int:
        """Rollouts of one step on one replica, with the filler verl adds to complete it."""
        multiple = math.lcm(self.replicas, self.mini * self.n)
        return math.ceil(self.batch * self.n / multiple) * multiple // self.replicas


def check_batch(subject: Subject) -> Check:
    """Every relation at once, with one set of values that satisfies all of them as the fix."""
    recipe = subject.recipe
    if recipe.kind == SFT:
        return ok(BATCH, _sft_sizes(recipe))
    sizes = batch_sizes(recipe)
    found = [*_deprecated(recipe), *(fail(BATCH, text) for text in violations(sizes))]
    if not found and sizes.batch % sizes.mini:
        found = [warn(BATCH, _filler(sizes))]
    if not found:
        return ok(BATCH, _fine(sizes, "judge calls" if asks_judge(recipe) else "rewards"))
    fix = " ".join([*removals(recipe), *overrides(sizes, repaired(sizes))])
    return dataclasses.replace(summary(BATCH, found, ""), fix=fix)


def batch_sizes(recipe: Recipe) -> BatchSizes:
    """The sizes of a GRPO recipe."""

    def micro(name: str, dynamic: str, used: bool = True) -> int | None:
        by_tokens = bool(recipe.get(dynamic))
        return None if by_tokens or not used else int(recipe.get(KEYS[name]) or 0)

    with_reference = recipe.get(f"{_ACTOR}.use_kl_loss") or recipe.get("algorithm.use_kl_in_reward")
    return BatchSizes(
        batch=recipe.get(KEYS["batch"]),
        mini=recipe.get(KEYS["mini"]),
        n=recipe.get(KEYS["n"]),
        micro=micro("micro", f"{_ACTOR}.use_dynamic_bsz"),
        log_prob=micro("log_prob", f"{_ROLLOUT}.log_prob_use_dynamic_bsz"),
        ref_log_prob=micro(
            "ref_log_prob", f"{_REF}.log_prob_use_dynamic_bsz", used=bool(with_reference)
        ),
        gpus=recipe.get("trainer.n_gpus_per_node") * recipe.get("trainer.nnodes"),
        sequence_parallel=recipe.get(KEYS["sequence_parallel"]),
        rollout_parallel=recipe.get(KEYS["rollout_parallel"]),
    )


def violations(sizes: BatchSizes) -> Iterator[str]:
    """Each relation that does not hold, in the words of the recipe's keys."""
    too_small = [name for name in _positive(sizes) if getattr(sizes, name) < 1]
    for name in too_small:
        yield f"{KEYS.get(name, name)}={getattr(sizes, name)} must be at least 1"
    if too_small:
        return
    if sizes.n < 2:
        yield (
            f"{_key(sizes, 'n')}: GRPO needs at least two rollouts per prompt; with one, the "
            "advantage is always 0"
        )
    yield from _parallel_violations(sizes)
    if sizes.micro is not None and sizes.batch < sizes.mini:
        yield f"{_key(sizes, 'batch')} is below {_key(sizes, 'mini')}"
    if sizes.micro is not None and sizes.batch * sizes.n % sizes.gpus:
        yield f"{_key(sizes, 'batch')} x {_key(sizes, 'n')} is not a multiple of {sizes.gpus} GPUs"
    if sizes.mini * sizes.n % sizes.replicas:
        yield (
            f"{_key(sizes, 'mini')} x {_key(sizes, 'n')} is not a multiple of "
            f"{sizes.replicas} replicas"
        )
        return
    yield from _micro_violations(sizes)


def repaired(sizes: BatchSizes) -> BatchSizes:
    """The nearest sizes that satisfy every relation; micro batches only ever get smaller."""
    n = max(2, sizes.n)
    gpus = max(1, sizes.gpus)
    step = gpus // math.gcd(gpus, n)
    batch = max(step, sizes.batch // step * step)
    sequence_parallel = _divisor(gpus, sizes.sequence_parallel)
    replicas = gpus // sequence_parallel
    fitting = [d for d in _divisors(batch) if d * n % replicas == 0]
    mini = max((d for d in fitting if d <= sizes.mini), default=min(fitting))
    per_replica = batch * n // replicas
    return BatchSizes(
        batch=batch,
        mini=mini,
        n=n,
        micro=_fit(mini * n // replicas, sizes.micro),
        log_prob=_fit(per_replica, sizes.log_prob),
        ref_log_prob=_fit(per_replica, sizes.ref_log_prob),
        gpus=gpus,
        sequence_parallel=sequence_parallel,
        rollout_parallel=_divisor(gpus, sizes.rollout_parallel),
    )


def overrides(before: BatchSizes, after: BatchSizes) -> list[str]:
    """``key=value`` for every size that differs."""
    return [_key(after, name) for name in KEYS if getattr(before, name) != getattr(after, name)]


def _positive(sizes: BatchSizes) -> list[str]:
    named = [field.name for field in dataclasses.fields(sizes)]
    return [name for name in named if getattr(sizes, name) is not None]


def _parallel_violations(sizes: BatchSizes) -> Iterator[str]:
    for name in ("sequence_parallel", "rollout_parallel"):
        if sizes.gpus % getattr(sizes, name):
            yield f"{_key(sizes, name)} does not divide {sizes.gpus} GPUs"


def _micro_violations(sizes: BatchSizes) -> Iterator[str]:
    whole = {
        "micro": (sizes.rollouts_per_mini, "rollouts of a mini batch"),
        "log_prob": (sizes.rollouts_per_replica, "rollouts of a step"),
        "ref_log_prob": (sizes.rollouts_per_replica, "rollouts of a step"),
    }
    for name, (rollouts, what) in whole.items():
        size = getattr(sizes, name)
        if size is not None and rollouts % size:
            yield f"{_key(sizes, name)} does not divide the {rollouts} {what} on each GPU"


def _deprecated(recipe: Recipe) -> Iterator[Check]:
    for key, successor in DEPRECATED.items():
        if recipe.get(key) is not None:
            yield fail(BATCH, f"{key}={recipe.get(key)} is deprecated; use {successor}")


def removals(recipe: Recipe) -> list[str]:
    """``key=null`` for every deprecated size that is set."""
    return [f"{key}=null" for key in DEPRECATED if recipe.get(key) is not None]


def _filler(sizes: BatchSizes) -> str:
    total = sizes.rollouts_per_replica * sizes.replicas
    return (
        f"{_key(sizes, 'mini')} does not divide {_key(sizes, 'batch')}: verl pads every step "
        f"from {sizes.batch * sizes.n} to {total} rollouts with empty ones"
    )


def _fine(sizes: BatchSizes, scored: str) -> str:
    updates = math.ceil(sizes.batch / sizes.mini)
    return (
        f"{sizes.batch} prompts x {sizes.n} rollouts = {sizes.batch * sizes.n} {scored} per step; "
        f"{updates} update{'' if updates == 1 else 's'} per step on "
        f"{sizes.gpus} GPU{'' if sizes.gpus == 1 else 's'}"
    )


def _sft_sizes(recipe: Recipe) -> str:
    names = ("per_device_train_batch_size", "gradient_accumulation_steps", "n_gpus")
    sizes = [recipe.get(f"training.{name}") for name in names]
    return f"{' x '.join(str(size) for size in sizes)} = {math.prod(sizes)} examples per update"


def _key(sizes: BatchSizes, name: str) -> str:
    return f"{KEYS[name]}={getattr(sizes, name)}"


def _fit(whole: int, size: int | None) -> int | None:
    return None if size is None else _divisor(whole, size)


def _divisor(whole: int, limit: int) -> int:
    """The largest divisor of ``whole`` that is not above ``limit``, and at least 1."""
    return max((d for d in _divisors(whole) if d <= limit), default=1)


def _divisors(whole: int) -> list[int]:
    small = [d for d in range(1, math.isqrt(whole) + 1) if whole % d == 0]
    return sorted({*small, *(whole // d for d in small)})


STEPS = "steps"


def check_steps(subject: Subject) -> Check:
    """Steps asked for against steps the data can give, with the arithmetic."""
    recipe = subject.recipe
    plan = step_plan(recipe)
    if plan is None:
        return skip(STEPS, "the training file is unreadable")
    if not plan.trains:
        return ok(STEPS, "trainer.val_only=true: one validation, no training step")
    if plan.rows < plan.batch:
        return _no_batch(recipe, plan)
    if recipe.kind == SFT:
        return ok(STEPS, _supervised(plan))
    if plan.asked is not None and plan.asked > plan.reachable:
        return _out_of_reach(plan)
    return ok(STEPS, f"{plan.total} steps ({plan.arithmetic()}); {_scores(recipe, plan)}")


def _supervised(plan: StepPlan) -> str:
    """``training.max_steps`` replaces the epochs, as in the HF Trainer, so it is never too many."""
    if plan.asked is None:
        return f"{plan.total} steps: {plan.arithmetic()}"
    per_epoch = plan.rows // plan.batch
    return (
        f"{plan.total} steps (training.max_steps) = {plan.total / per_epoch:.3g} epochs; "
        f"{plan.rows} rows // batch {plan.batch} = {count_of(per_epoch, 'step')}/epoch"
    )


def _no_batch(recipe: Recipe, plan: StepPlan) -> Check:
    key = recipe.kind.batch_key
    size = max(1, plan.rows * recipe.get(key) // plan.batch)
    changes = [f"{key}={size}"]
    mini_key = "actor_rollout_ref.actor.ppo_mini_batch_size"
    if recipe.get(mini_key, 0) > size:
        changes.append(f"{mini_key}={size}")
    if recipe.kind == GRPO and plan.asked is not None and plan.asked > plan.epochs:
        changes.append(f"trainer.total_epochs={plan.asked}")
    message = f"only {plan.rows} training rows for a batch of {plan.batch}"
    return fail(
        STEPS, f"{message}; verl drops incomplete batches, so no step would run", " ".join(changes)
    )


def _out_of_reach(plan: StepPlan) -> Check:
    epochs = math.ceil((plan.asked or 0) / (plan.rows // plan.batch))
    return fail(
        STEPS,
        f"trainer.total_training_steps={plan.asked} is unreachable ({plan.arithmetic()}); "
        "the run would end early, without a final checkpoint",
        f"trainer.total_epochs={epochs}",
    )


def _scores(recipe: Recipe, plan: StepPlan) -> str:
    calls = calls_of(recipe, plan)
    what = "judge calls" if asks_judge(recipe) else "rewards"
    return (
        f"{calls.step} {what} per step, {calls.step * calls.steps} in all, and "
        f"{calls.validation} in {count_of(calls.validations, 'validation')}"
    )
