"""Check lengths and LoRA rank against the limits of the model, the trainer and vLLM."""

from __future__ import annotations

import re
from collections.abc import Iterator

from engine.estimate.model_shape import ModelShape, shape_of
from engine.preflight.check import Check, Subject, fail, summary
from engine.recipe.places import lora_rank
from engine.recipe.recipe import Recipe
from engine.runs.kinds import SFT

ID = "limits"
MAX_LORA_RANK = 512
"""vLLM's ``MaxLoRARanks`` ends here; verl refuses more before the start."""

_ACTOR = "actor_rollout_ref.actor"
_ROLLOUT = "actor_rollout_ref.rollout"
_REF = "actor_rollout_ref.ref"
_LONGEST = f"{_ROLLOUT}.max_model_len"
_PROMPT = "data.max_prompt_length"
_RESPONSE = "data.max_response_length"
_SFT_LENGTH = "data.max_seq_length"


def check(subject: Subject) -> Check:
    """Every limit at once, with the numbers that meet there."""
    recipe, shape = subject.recipe, shape_of(subject.recipe, subject.env)
    positions = shape.positions if shape else 0
    targets = list(check_targets(recipe, shape))
    if recipe.kind == SFT:
        length = int(recipe.get(_SFT_LENGTH))
        return summary(ID, [*_sft(length, positions), *targets], _fine(length, positions))
    found = [*_positions(recipe, positions), *_engine(recipe, positions), *_budgets(recipe)]
    return summary(ID, [*found, *targets, *_lora(recipe)], _fine(sum(_lengths(recipe)), positions))


def _lengths(recipe: Recipe) -> tuple[int, int]:
    return int(recipe.get(_PROMPT)), int(recipe.get(_RESPONSE))


def _positions(recipe: Recipe, positions: int) -> Iterator[Check]:
    """The response keeps its length where it can: it is what is trained."""
    prompt, response = _lengths(recipe)
    if not positions or prompt + response <= positions:
        return
    shorter = positions - response
    fix = f"{_PROMPT}={shorter}" if shorter > 0 else f"{_RESPONSE}={max(1, positions - prompt)}"
    yield fail(
        ID,
        f"{_PROMPT}={prompt} + {_RESPONSE}={response} = {prompt + response} tokens, but the model "
        f"knows {positions} positions",
        fix,
    )


def _engine(recipe: Recipe, positions: int) -> Iterator[Check]:
    """verl's ``vllm_async_server.py``: a prompt that leaves no room for an answer is an error."""
    given, (prompt, response) = recipe.get(_LONGEST), _lengths(recipe)
    if given is None:
        return
    if given < prompt + response:
        message = f"{_LONGEST}={given} cuts answers: prompt and response may have"
        yield fail(ID, f"{message} {prompt} + {response} tokens", f"{_LONGEST}={prompt + response}")
    elif positions and given > positions:
        message = f"{_LONGEST}={given} is more than the model context of {positions} tokens"
        yield fail(ID, message, f"{_LONGEST}={positions}")


def _budgets(recipe: Recipe) -> Iterator[Check]:
    """verl's ``seqlen_balancing.py``: a micro batch by tokens must hold the longest sample."""
    parallel = int(recipe.get(f"{_ACTOR}.ulysses_sequence_parallel_size"))
    longest = sum(_lengths(recipe))
    for dynamic, key in (
        (f"{_ACTOR}.use_dynamic_bsz", f"{_ACTOR}.ppo_max_token_len_per_gpu"),
        (f"{_ROLLOUT}.log_prob_use_dynamic_bsz", f"{_ROLLOUT}.log_prob_max_token_len_per_gpu"),
        (f"{_REF}.log_prob_use_dynamic_bsz", f"{_REF}.log_prob_max_token_len_per_gpu"),
    ):
        tokens = recipe.get(key)
        if recipe.get(dynamic) and tokens is not None and tokens * parallel < longest:
            message = f"{key}={tokens} is smaller than the longest sample ({longest} tokens)"
            yield fail(ID, message, f"{key}={-(-longest // parallel)}")


def check_targets(recipe: Recipe, shape: ModelShape | None) -> Iterator[Check]:
    """PEFT refuses targets that match no module, after every worker has loaded the model."""
    key = recipe.kind.lora_targets_key
    targets = recipe.get(key)
    if shape is None or not lora_rank(recipe) or not targets:
        return
    names = targets if isinstance(targets, list) else [targets]
    wrong = [name for name in names if not shape.adapted(name if name is targets else [name])]
    if wrong:
        known = ",".join(shape.linears)
        message = f"{key}={', '.join(wrong)} matches no module of the model; it has {known}"
        # A list that was typed as a text.
        meant = [part for name in names for part in re.split(r"[,;\s]+", name.strip())]
        is_list = all(shape.adapted([part]) for part in meant)
        yield fail(ID, message, f"{key}=[{','.join(meant) if is_list else known}]")


def _lora(recipe: Recipe) -> Iterator[Check]:
    rank, merged = lora_rank(recipe), recipe.get("actor_rollout_ref.model.lora.merge")
    if recipe.get(f"{_ROLLOUT}.name") != "vllm" or merged or rank <= MAX_LORA_RANK:
        return
    key = "actor_rollout_ref.model.lora.rank"
    key = key if recipe.get(key) else "actor_rollout_ref.model.lora_rank"
    yield fail(
        ID,
        f"LoRA rank {rank} is more than vLLM's {MAX_LORA_RANK}",
        f"{key}={MAX_LORA_RANK}",
    )


def _sft(length: int, positions: int) -> list[Check]:
    if not positions or length <= positions:
        return []
    message = f"{_SFT_LENGTH}={length}, but the model has a context of {positions} tokens"
    return [fail(ID, message, f"{_SFT_LENGTH}={positions}")]


def _fine(longest: int, positions: int) -> str:
    known = f"of a model context of {positions}" if positions else "(model context unknown)"
    return f"longest sample: {longest} tokens {known}"
