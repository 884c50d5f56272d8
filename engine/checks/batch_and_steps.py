"""Check that the batch sizes fit together, and that the data suffices for the steps."""

from __future__ import annotations

import ast
import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import UsageError, nearest
from engine.base.quantities import format_count
from engine.checks.check import Check, Subject, fail, ok, skip, summary, warn
from engine.checks.estimate.judge import calls_of
from engine.checks.token_view import NoModelError, ask_trainer
from engine.config.load import Config
from engine.config.scoring import asks_judge
from engine.config.steps import OWN_DATA_SET, StepPlan, own_data_set, plan_of_rows
from engine.run.kinds import GRPO, SFT

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


_USUAL_ROLLOUTS = 8


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
    """Check all relations of the sizes. The fix is one set of sizes that satisfies all of them."""
    config = subject.config
    if config.kind == SFT:
        names = ("per_device_train_batch_size", "gradient_accumulation_steps", "n_gpus")
        factors = [config.get(f"training.{name}") for name in names]
        product = f"{' x '.join(map(str, factors))} = {math.prod(factors)}"
        return ok(BATCH, f"{product} examples per update")
    sizes = batch_sizes(config)
    rollouts = sizes.batch * sizes.n
    problems = [
        fail(BATCH, f"{key}={config.get(key)} is deprecated; use {successor}")
        for key, successor in DEPRECATED.items()
        if config.get(key) is not None
    ]
    problems += [fail(BATCH, violation) for violation in violations(sizes)]
    if not problems and sizes.batch % sizes.mini:
        padded = sizes.rollouts_per_replica * sizes.replicas
        message = (
            f"{_setting(sizes, 'mini')} does not divide {_setting(sizes, 'batch')}: verl pads "
            f"every step from {rollouts} to {padded} rollouts with empty ones"
        )
        problems = [warn(BATCH, message)]
    if not problems:
        score = "judge call" if asks_judge(config) else "reward"
        updates = format_count(math.ceil(sizes.batch / sizes.mini), "update")
        is_cpu = config.get("grubrics.device") == "cpu"
        device = "the CPU" if is_cpu else format_count(sizes.gpus, "GPU")
        return ok(
            BATCH,
            f"{format_count(sizes.batch, 'prompt')} x {format_count(sizes.n, 'rollout')} = "
            f"{format_count(rollouts, score)} per step; "
            f"{updates} per step on {device}",
        )
    fix = " ".join([*removals(config), *overrides(sizes, repaired(sizes))])
    return dataclasses.replace(summary(BATCH, problems, ""), fix=fix)


def batch_sizes(config: Config) -> BatchSizes:
    """Read the sizes of a GRPO config."""

    def micro(name: str, dynamic: str, is_used: bool = True) -> int | None:
        by_tokens = bool(config.get(dynamic))
        return None if by_tokens or not is_used else int(config.get(KEYS[name]) or 0)

    with_reference = config.get(f"{_ACTOR}.use_kl_loss") or config.get("algorithm.use_kl_in_reward")
    return BatchSizes(
        batch=config.get(KEYS["batch"]),
        mini=config.get(KEYS["mini"]),
        n=config.get(KEYS["n"]),
        micro=micro("micro", f"{_ACTOR}.use_dynamic_bsz"),
        log_prob=micro("log_prob", f"{_ROLLOUT}.log_prob_use_dynamic_bsz"),
        ref_log_prob=micro(
            "ref_log_prob", f"{_REF}.log_prob_use_dynamic_bsz", is_used=bool(with_reference)
        ),
        gpus=config.get("trainer.n_gpus_per_node") * config.get("trainer.nnodes"),
        sequence_parallel=config.get(KEYS["sequence_parallel"]),
        rollout_parallel=config.get(KEYS["rollout_parallel"]),
    )


def violations(sizes: BatchSizes) -> Iterator[str]:
    """Yield each relation that does not hold, with the keys of the config."""
    values = dataclasses.asdict(sizes)
    too_small = [name for name, value in values.items() if value is not None and value < 1]
    for name in too_small:
        key = KEYS.get(name, name)
        is_unset = values[name] == 0 and name in ("micro", "log_prob", "ref_log_prob")
        needs = "is not set: verl needs the rollouts that one GPU computes with at once"
        yield f"{key} {needs}" if is_unset else f"{key}={values[name]} must be at least 1"
    if too_small:
        return
    if sizes.n < 2:
        yield (
            f"{_setting(sizes, 'n')}: GRPO needs at least two rollouts per prompt; with one, verl "
            "uses the reward as advantage"
        )
    for name in ("sequence_parallel", "rollout_parallel"):
        if sizes.gpus % values[name]:
            yield f"{_setting(sizes, name)} does not divide {format_count(sizes.gpus, 'GPU')}"
    if sizes.micro is not None and sizes.batch < sizes.mini:
        yield f"{_setting(sizes, 'batch')} is below {_setting(sizes, 'mini')}"
    if sizes.micro is not None and sizes.batch * sizes.n % sizes.gpus:
        product = f"{_setting(sizes, 'batch')} x {_setting(sizes, 'n')}"
        yield f"{product} is not a multiple of {sizes.gpus} GPUs"
    if sizes.mini * sizes.n % sizes.replicas:
        yield (
            f"{_setting(sizes, 'mini')} x {_setting(sizes, 'n')} is not a multiple of "
            f"{sizes.replicas} replicas"
        )
        return
    micro_batches = (
        ("micro", sizes.rollouts_per_mini, "rollouts of a mini batch"),
        ("log_prob", sizes.rollouts_per_replica, "rollouts of a step"),
        ("ref_log_prob", sizes.rollouts_per_replica, "rollouts of a step"),
    )
    where = " on each GPU" if sizes.replicas > 1 else ""
    for name, rollouts, noun in micro_batches:
        if values[name] is not None and rollouts % values[name]:
            yield f"{_setting(sizes, name)} does not divide the {rollouts} {noun}{where}"


def repaired(sizes: BatchSizes) -> BatchSizes:
    """Return the nearest sizes that satisfy every relation; micro batches only become smaller."""
    n = sizes.n if sizes.n > 1 else _USUAL_ROLLOUTS
    gpus = max(1, sizes.gpus)
    step = gpus // math.gcd(gpus, n)
    batch = max(step, sizes.batch // step * step)
    sequence_parallel = _divisor(gpus, sizes.sequence_parallel)
    replicas = gpus // sequence_parallel
    minis = [mini for mini in _divisors(batch) if mini * n % replicas == 0]
    mini = max((mini for mini in minis if mini <= sizes.mini), default=min(minis))
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
    """Return ``key=value`` for every size that differs."""
    return [_setting(after, name) for name in KEYS if getattr(before, name) != getattr(after, name)]


def removals(config: Config) -> list[str]:
    """Return ``key=null`` for every deprecated size that is set."""
    return [f"{key}=null" for key in DEPRECATED if config.get(key) is not None]


def _setting(sizes: BatchSizes, name: str) -> str:
    return f"{KEYS[name]}={getattr(sizes, name)}"


def _fit(number: int, size: int | None) -> int | None:
    return None if size is None else _divisor(number, size)


def _divisor(number: int, limit: int) -> int:
    """Return the largest divisor of ``number`` up to ``limit``, and at least 1."""
    return max((divisor for divisor in _divisors(number) if divisor <= limit), default=1)


def _divisors(number: int) -> list[int]:
    small = [divisor for divisor in range(1, math.isqrt(number) + 1) if number % divisor == 0]
    return sorted({*small, *(number // divisor for divisor in small)})


STEPS = "steps"


def check_steps(subject: Subject) -> Check:
    """Check that the data suffices for the steps that the config asks for."""
    config, plan = subject.config, subject.steps
    if own_data_set(config):
        try:
            rows = count_own_rows(subject)
        except UsageError as error:
            return fail(STEPS, str(error))
        if rows is None:
            return skip(STEPS, "unknown: the data set class does not say its length")
        plan = plan_of_rows(config, rows)
    if plan is None:
        return skip(STEPS, "the training file is unreadable")
    plan = dataclasses.replace(plan, dropped=subject.prompts.dropped)
    if not plan.trains:
        return ok(STEPS, "trainer.val_only=true: one validation, no training step")
    if plan.used < plan.batch:
        return _no_batch(config, plan)
    per_epoch = plan.used // plan.batch
    if config.kind == SFT:
        # ``training.max_steps`` replaces the epochs, as in the HF Trainer, so all steps run.
        if plan.asked is None:
            return ok(STEPS, plan.arithmetic())
        return ok(
            STEPS,
            f"{format_count(plan.total, 'step')} (training.max_steps) = "
            f"{plan.total / per_epoch:.3g} epochs; "
            f"{plan.rows} rows // batch {plan.batch} = {format_count(per_epoch, 'step')}/epoch",
        )
    if plan.asked is not None and plan.asked > plan.reachable:
        return fail(
            STEPS,
            f"trainer.total_training_steps={plan.asked} is unreachable ({plan.arithmetic()}); "
            "the run would end early, without a final checkpoint",
            f"trainer.total_epochs={math.ceil(plan.asked / per_epoch)}",
        )
    calls = calls_of(config, plan)
    score = "judge call" if asks_judge(config) else "reward"
    limit = "" if plan.asked is None else "trainer.total_training_steps; the data allows "
    return ok(
        STEPS,
        f"{format_count(plan.total, 'step')} ({limit}{plan.arithmetic()}); "
        f"{format_count(calls.step, score)} per step, "
        f"{calls.step * calls.steps:,} in all, and {calls.validation} in "
        f"{format_count(calls.validations, 'validation')}",
    )


def _no_batch(config: Config, plan: StepPlan) -> Check:
    """The training data has too few rows for one step."""
    key, mini_key = config.kind.batch_key, KEYS["mini"]
    size = max(1, plan.used * config.get(key) // plan.batch)
    changes = [f"{key}={size}"]
    if config.get(mini_key, 0) > size:
        changes.append(f"{mini_key}={size}")
    if config.kind == GRPO and plan.asked is not None and plan.asked > plan.epochs:
        changes.append(f"trainer.total_epochs={plan.asked}")
    message = (
        f"only {format_count(plan.used, 'training row')} for a batch of {plan.batch}; verl drops "
        "incomplete batches, so no step would run"
    )
    return fail(STEPS, message, " ".join(changes))


def count_own_rows(subject: Subject) -> int | None:
    """The length of the class's training data; None if another user could have written the code, or
    if the model is not on this disk.

    UsageError, with file and line, for a class that cannot be constructed.
    """
    config = subject.config
    file = Path(str(own_data_set(config))).expanduser()
    if "://" not in str(own_data_set(config)):
        _require_class(file, str(config.get(f"{OWN_DATA_SET}.name")))
    if subject.objection is not None:
        return None
    try:
        value = ask_trainer(config, "length", "train")
    except NoModelError:
        return None
    return None if value["rows"] is None else int(value["rows"])


def _require_class(file: Path, name: str) -> None:
    """UsageError for a file that is not Python, and for one that does not define the name."""
    try:
        body = ast.parse(file.read_text(encoding="utf-8")).body
    except OSError as error:
        raise UsageError(f"{OWN_DATA_SET}.path={file}: {error.strerror}") from error
    except (SyntaxError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) else ""
        raise UsageError(f"{file}{line}: {type(error).__name__}: {error}") from error
    classes = [node.name for node in body if isinstance(node, ast.ClassDef)]
    nodes = [*ast.walk(ast.Module(body, []))]
    names = {
        node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    imported = {
        alias.asname or alias.name
        for node in body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    if name in {*classes, *names, *imported} or "*" in imported:
        return
    close = nearest(name, classes)
    hint = f"; did you mean {close}?" if close else f"; it has {', '.join(classes) or 'no class'}"
    raise UsageError(f"{file} has no class '{name}' ({OWN_DATA_SET}.name){hint}")
