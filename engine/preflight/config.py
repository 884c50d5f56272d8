"""Values that are allowed, load, and still are not what one wants."""

from __future__ import annotations

import re
from collections.abc import Iterator

from engine.launch.exposure import exposure_complaint
from engine.launch.recipe import Recipe
from engine.launch.scoring import asks_judge
from engine.launch.steps import count_of
from engine.preflight.check import Check, Subject, fail, summary, warn
from engine.preflight.models import lora_rank
from engine.writers import foreign_writer

ID = "config"

_ACTOR = "actor_rollout_ref.actor"
_ROLLOUT = "actor_rollout_ref.rollout"
_LOSS_MODES = (
    "token-mean",
    "token-sum",
    "seq-mean-token-sum",
    "seq-mean-token-mean",
    "seq-mean-token-sum-norm",
)
_RESUME_MODES = ("auto", "disable", "resume_path")
_REASONING = re.compile(r"(gpt-5|o[134])(?!\d)")
_REASONING_TIMEOUT_S = 300
_REASONING_TOKENS = 16000


def check(subject: Subject) -> Check:
    """The recipe loaded, so its keys and types are right; this is about what they say."""
    recipe = subject.recipe
    grpo = recipe.kind == "grpo"
    judge = _judge(recipe) if grpo and asks_judge(recipe) else ()
    found = [*_stranger(recipe), *(_grpo(recipe) if grpo else _sft(recipe)), *judge]
    notes = f"{_kl(recipe)}; {_lora(recipe)}" if grpo else _lora(recipe)
    return summary(
        ID, found, f"{recipe.path}: {count_of(len(recipe.changes), 'override')}; {notes}"
    )


def _stranger(recipe: Recipe) -> Iterator[Check]:
    """A recipe names code to execute and addresses that are sent keys."""
    if recipe.path.exists() and (complaint := foreign_writer(recipe.path)) is not None:
        yield warn(ID, f"{recipe.path} {complaint}", "read it, and launch a copy of your own")


def _grpo(recipe: Recipe) -> Iterator[Check]:
    yield from _one_of(recipe, f"{_ACTOR}.loss_agg_mode", _LOSS_MODES)
    yield from _one_of(recipe, "trainer.resume_mode", _RESUME_MODES)
    yield from _one_of(recipe, f"{_ROLLOUT}.mode", ("async",))
    yield from _rollout(recipe)
    yield from _strategy(recipe)
    if (exposed := exposure_complaint(recipe)) is not None:
        yield fail(ID, exposed, "remove it")
    if recipe.get("algorithm.adv_estimator") == "gae":
        yield _wrong(
            recipe,
            "algorithm.adv_estimator",
            "trains PPO with a critic",
            "algorithm.adv_estimator=grpo",
        )
    if not recipe.get("trainer.save_freq", -1) > 0 and not recipe.get("trainer.val_only"):
        yield warn(
            ID,
            f"{_shown(recipe, 'trainer.save_freq')} writes no checkpoint at all",
            "trainer.save_freq=50",
        )
    sequence_parallel = recipe.get(f"{_ACTOR}.ulysses_sequence_parallel_size")
    if sequence_parallel > 1 and not recipe.get("actor_rollout_ref.model.use_remove_padding"):
        key = "actor_rollout_ref.model.use_remove_padding"
        yield _wrong(recipe, key, "is needed for sequence parallelism", f"{key}=true")


def _rollout(recipe: Recipe) -> Iterator[Check]:
    key = f"{_ROLLOUT}.name"
    name = recipe.get(key)
    if name in (None, "???"):
        yield _wrong(recipe, key, "is not set", f"{key}=vllm")
    elif recipe.get("grubrics.device") == "cpu" and name != "hf":
        yield _wrong(recipe, key, "does not run on grubrics.device=cpu", f"{key}=hf")
    sampled = recipe.get(f"{_ROLLOUT}.val_kwargs.do_sample")
    if sampled and not recipe.get(f"{_ROLLOUT}.temperature") > 0:
        key = f"{_ROLLOUT}.temperature"
        yield _wrong(recipe, key, "must be above 0 when validation samples", f"{key}=1.0")


def _strategy(recipe: Recipe) -> Iterator[Check]:
    """FSDP1 broadcasts its weights through a device, which a CPU run does not have."""
    for key in (f"{_ACTOR}.strategy", "actor_rollout_ref.ref.strategy"):
        if recipe.get("grubrics.device") == "cpu" and recipe.get(key) == "fsdp":
            yield _wrong(recipe, key, "does not run on grubrics.device=cpu", f"{key}=fsdp2")


def _sft(recipe: Recipe) -> Iterator[Check]:
    if recipe.get("lora.r") and recipe.get("lora.dropout"):
        yield _wrong(recipe, "lora.dropout", "is not supported by verl's engine", "lora.dropout=0")


def _judge(recipe: Recipe) -> Iterator[Check]:
    """Reasoning models think for minutes and in thousands of tokens before they answer."""
    model = str(recipe.get("judge.model"))
    if recipe.get("judge.provider") == "offline" or not _REASONING.match(model):
        return
    floors = {"judge.timeout_s": _REASONING_TIMEOUT_S, "judge.max_tokens": _REASONING_TOKENS}
    for key, floor in floors.items():
        if recipe.get(key) < floor:
            yield warn(
                ID,
                f"{_shown(recipe, key)} is little for the reasoning judge {model}",
                f"{key}={floor}",
            )
    if recipe.get("judge.temperature") != 1.0:
        yield _wrong(
            recipe,
            "judge.temperature",
            f"is refused by {model}: only 1 is allowed",
            "judge.temperature=1.0",
        )


def _one_of(recipe: Recipe, key: str, allowed: tuple[str, ...]) -> Iterator[Check]:
    if recipe.get(key) not in allowed:
        yield _wrong(recipe, key, f"is not one of {', '.join(allowed)}", f"{key}={allowed[0]}")


def _wrong(recipe: Recipe, key: str, problem: str, fix: str) -> Check:
    return fail(ID, f"{recipe.path}: {_shown(recipe, key)} {problem}", fix)


def _shown(recipe: Recipe, key: str) -> str:
    return f"{key}={recipe.get(key)}"


def _kl(recipe: Recipe) -> str:
    """Where the policy is held near the reference; ``kl_coef`` alone holds it nowhere."""
    in_loss = recipe.get(f"{_ACTOR}.use_kl_loss")
    in_reward = recipe.get("algorithm.use_kl_in_reward")
    places = [name for name, on in (("loss", in_loss), ("reward", in_reward)) if on]
    return f"KL: {' and '.join(places) or 'off'}"


def _lora(recipe: Recipe) -> str:
    rank = lora_rank(recipe)
    return f"LoRA rank {rank}" if rank else "every weight is trained"
