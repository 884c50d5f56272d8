"""Check lengths and LoRA rank against the limits of the model, the trainer and vLLM."""

from __future__ import annotations

import re
from collections.abc import Iterator

from engine.checks.check import Check, Subject, fail, summary
from engine.checks.estimate.model_shape import ModelShape, context_of, shape_of
from engine.config.load import Config
from engine.config.places import lora_rank, model_name
from engine.run.kinds import SFT

ID = "limits"
MAX_LORA_RANK = 512
"""The largest of vLLM's ``MaxLoRARanks``; verl refuses more before the start."""

_ACTOR = "actor_rollout_ref.actor"
_ROLLOUT = "actor_rollout_ref.rollout"
_REF = "actor_rollout_ref.ref"
_MODEL_LEN = f"{_ROLLOUT}.max_model_len"
_PROMPT = "data.max_prompt_length"
_RESPONSE = "data.max_response_length"
_SFT_LENGTH = "data.max_seq_length"


def check(subject: Subject) -> Check:
    """Check every limit, and name the numbers that collide."""
    config, shape = subject.config, shape_of(subject.config, subject.env)
    context = context_of(model_name(config), subject.env)
    if config.kind == SFT:
        longest = int(config.get(_SFT_LENGTH))
        problems = []
        if context and longest > context:
            message = f"{_SFT_LENGTH}={longest}, but the model has a context of {context} tokens"
            problems.append(fail(ID, message, f"{_SFT_LENGTH}={context}"))
        problems += check_targets(config, shape)
    else:
        longest = sum(_lengths(config))
        problems = [*_context(subject, context), *_budgets(config), *check_targets(config, shape)]
        problems += _lora(config)
    of_context = f"of a model context of {context}" if context else "(model context unknown)"
    return summary(ID, problems, f"samples have at most {longest} tokens {of_context}")


def _lengths(config: Config) -> tuple[int, int]:
    return int(config.get(_PROMPT)), int(config.get(_RESPONSE))


def _context(subject: Subject, context: int) -> Iterator[Check]:
    """Check the lengths of prompt and response against the contexts of the model and of vLLM."""
    config = subject.config
    prompt, response = _lengths(config)
    if context and prompt + response > context:
        # The response keeps its length if the prompts of the data allow it: it is what is trained.
        longest = min(subject.prompts.longest or 1, context - 1)
        shorter = max(longest, context - response)
        fix = f"{_PROMPT}={shorter}" if shorter != prompt else ""
        if shorter + response > context:
            fix += f" {_RESPONSE}={context - shorter}"
        yield fail(
            ID,
            f"{_PROMPT}={prompt} + {_RESPONSE}={response} = {prompt + response} tokens, but the "
            f"model's context is {context} tokens",
            fix.strip(),
        )
    # verl raises an error for a prompt that leaves no room for a response (vllm_async_server.py).
    limit = config.get(_MODEL_LEN)
    if limit is None:
        return
    if limit < prompt + response:
        message = f"{_MODEL_LEN}={limit} truncates responses: prompt and response may have"
        fix = f"{_MODEL_LEN}={prompt + response}"
        yield fail(ID, f"{message} {prompt} + {response} tokens", fix)
    elif context and limit > context:
        message = f"{_MODEL_LEN}={limit} is more than the model context of {context} tokens"
        yield fail(ID, message, f"{_MODEL_LEN}={context}")


def _budgets(config: Config) -> Iterator[Check]:
    """A micro batch that is sized by tokens must hold the longest sample (seqlen_balancing.py)."""
    parallel = int(config.get(f"{_ACTOR}.ulysses_sequence_parallel_size"))
    longest = sum(_lengths(config))
    for dynamic, key in (
        (f"{_ACTOR}.use_dynamic_bsz", f"{_ACTOR}.ppo_max_token_len_per_gpu"),
        (f"{_ROLLOUT}.log_prob_use_dynamic_bsz", f"{_ROLLOUT}.log_prob_max_token_len_per_gpu"),
        (f"{_REF}.log_prob_use_dynamic_bsz", f"{_REF}.log_prob_max_token_len_per_gpu"),
    ):
        tokens = config.get(key)
        if config.get(dynamic) and tokens is not None and tokens * parallel < longest:
            message = f"{key}={tokens} is smaller than the longest sample ({longest} tokens)"
            yield fail(ID, message, f"{key}={-(-longest // parallel)}")


def check_targets(config: Config, shape: ModelShape | None) -> Iterator[Check]:
    """Check for LoRA targets that match no module: PEFT refuses them after loading the model."""
    key = config.kind.lora_targets_key
    targets = config.get(key)
    if shape is None or not lora_rank(config) or not targets:
        return
    names = targets if isinstance(targets, list) else [targets]
    unknown = [name for name in names if not shape.adapted(name if name is targets else [name])]
    if unknown:
        known = ",".join(shape.linears)
        message = f"{key}={', '.join(unknown)} matches no module of the model; it has {known}"
        # The list may have been typed as one text.
        parts = [part for name in names for part in re.split(r"[,;\s]+", name.strip())]
        existing = [part for part in parts if shape.adapted([part])]
        yield fail(ID, message, f"{key}=[{','.join(existing) or known}]")


def _lora(config: Config) -> Iterator[Check]:
    rank, merged = lora_rank(config), config.get("actor_rollout_ref.model.lora.merge")
    if config.get(f"{_ROLLOUT}.name") != "vllm" or merged or rank <= MAX_LORA_RANK:
        return
    key = "actor_rollout_ref.model.lora.rank"
    key = key if config.get(key) else "actor_rollout_ref.model.lora_rank"
    yield fail(
        ID,
        f"LoRA rank {rank} is more than vLLM's {MAX_LORA_RANK}",
        f"{key}={MAX_LORA_RANK}",
    )
