"""Generate answers of an evaluation, or measure losses: ``python -m engine.train.evaluate < JOB``.

One process loads one target after the other and appends each answer to the target's folder as soon
as its batch is done. A target that fails does not keep the others from being answered. No Ray, no
trainer, and nothing is ever written to a checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.base.errors import UsageError, guarded
from engine.train.final_checkpoint import build, shard_folder
from engine.train.generation import Generated, Request, Sampling, generate
from engine.train.hf_server import stop_tokens


@dataclass(frozen=True)
class Prompt:
    """One answer to generate, and what its line says beside the answer."""

    row: Mapping[str, Any]
    tokens: list[int]
    seed: int


def main() -> int:
    import torch

    job = json.load(sys.stdin)
    os.nice(job["niceness"])
    if job["threads"]:
        torch.set_num_threads(job["threads"])
    errors = []
    for target in job["targets"]:
        if os.getppid() != job["parent"]:
            return 1  # Whoever asked is gone.
        print(json.dumps({"loading": target["name"]}), flush=True)
        try:
            _answer_target(target, job)
        except Exception as error:
            traceback.print_exc()
            errors.append(f"{target['name']}: {' '.join(str(error).split()) or repr(error)}")
    for line in errors:
        print(line, file=sys.stderr)
    return 1 if errors else 0


def _answer_target(target: Mapping[str, Any], job: Mapping[str, Any]) -> None:
    """Append a line per request, until all are answered or whoever asked is gone."""
    model, tokenizer = load_target(target["form"], target["source"], job)
    measure = _losses if "loss" in job else _answers
    for rows in measure(model, tokenizer, target["requests"], job):
        for row in rows:
            jsonl.append(Path(target["answers"]), row)
        if os.getppid() != job["parent"]:
            return


def load_target(form: str, source: str, job: Mapping[str, Any]) -> tuple[Any, Any]:
    """The model, LoRA merged, on the job's device, and its tokenizer.

    UsageError for a tokenizer without chat template if the job names none.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    dtype = getattr(torch, job["dtype"])
    names: Path | str
    if form == "checkpoint":
        shards = shard_folder(Path(source))
        weights, names = build(shards), shards / "huggingface"
        # ``build`` leaves the buffers that no checkpoint holds, such as rotary frequencies, unset.
        model = type(weights).from_pretrained(
            None, config=weights.config, state_dict=weights.state_dict(), dtype=dtype
        )
    elif (Path(source) / "adapter_config.json").is_file():
        model, names = _with_adapter(source, dtype)
    else:
        model = AutoModelForCausalLM.from_pretrained(source, dtype=dtype)
        names = Path(source) if Path(source).is_dir() else source
    tokenizer = AutoTokenizer.from_pretrained(names)
    if job["chat_template"]:
        tokenizer.chat_template = job["chat_template"]
    if not tokenizer.chat_template:
        raise UsageError(
            f"the tokenizer has no chat template. Set {job['template_key']} in the config"
        )
    return model.to(job["device"], dtype).eval(), tokenizer


def _with_adapter(folder: str, dtype: Any) -> tuple[Any, Any]:
    """The base model that an adapter names, with the adapter merged."""
    from peft import AutoPeftModelForCausalLM

    model = AutoPeftModelForCausalLM.from_pretrained(folder, dtype=dtype)
    base = model.peft_config["default"].base_model_name_or_path
    own = any((Path(folder) / name).is_file() for name in ("tokenizer.json", "tokenizer.model"))
    return model.merge_and_unload(), Path(folder) if own else base


def _answers(
    model: Any, tokenizer: Any, requests: Sequence[Mapping[str, Any]], job: Mapping[str, Any]
) -> Iterator[list[dict[str, Any]]]:
    """The lines of each batch. A prompt that is too long gets a line with its error."""
    sampling = Sampling(**job["sampling"])
    stops = stop_tokens(tokenizer, model.generation_config)
    prompts, refused = [], []
    for request in requests:
        try:
            prompts.append(_prompt(tokenizer, request, job))
        except UsageError as error:
            refused.append({**request["row"], "answer": None, "error": str(error)})
    yield refused
    # Prompts of similar length share a batch: padding costs as much as tokens do.
    prompts.sort(key=lambda prompt: len(prompt.tokens))
    for start in range(0, len(prompts), job["batch"]):
        batch = prompts[start : start + job["batch"]]
        drawn = generate(
            model,
            [Request(p.tokens, job["max_answer_tokens"], sampling, p.seed) for p in batch],
            stops,
            tokenizer.pad_token_id or 0,
        )
        yield [_line(tokenizer, p, made, stops) for p, made in zip(batch, drawn, strict=True)]


def _losses(
    model: Any, tokenizer: Any, requests: Sequence[Mapping[str, Any]], job: Mapping[str, Any]
) -> Iterator[list[dict[str, Any]]]:
    """The lines of each batch of conversations. verl is imported, which answers do not need."""
    from engine.train.losses import conversation_losses

    return conversation_losses(model, tokenizer, requests, job)


def _prompt(tokenizer: Any, request: Mapping[str, Any], job: Mapping[str, Any]) -> Prompt:
    """The tokens of a prompt. Of one that is too long, the last, as in verl's rollouts whatever
    ``data.truncation`` says. UsageError for one that the run would filter out."""
    encoded = tokenizer.apply_chat_template(
        request["messages"],
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        **job["template_arguments"],
    )
    tokens, limit = [int(token) for token in encoded["input_ids"]], job["max_prompt_tokens"]
    if len(tokens) > limit:
        if job["filter_long_prompts"]:
            raise UsageError(f"prompt: {len(tokens)} tokens, above data.max_prompt_length={limit}")
        tokens = tokens[-limit:]
    return Prompt(request["row"], tokens, request_seed(job["seed"], request["row"]))


def request_seed(seed: int, row: Mapping[str, Any]) -> int:
    """The same random numbers for a sample of an item, whichever model answers."""
    identity = f"{seed} {row['item_sha256']} {row['sample']}".encode()
    return int.from_bytes(hashlib.sha256(identity).digest()[:8], "big") >> 1


def _line(tokenizer: Any, prompt: Prompt, made: Generated, stops: Sequence[int]) -> dict[str, Any]:
    return {
        **prompt.row,
        "answer": tokenizer.decode(made.tokens, skip_special_tokens=True),
        "tokens": len(made.tokens),
        "stopped": bool(made.tokens) and made.tokens[-1] in stops,
        "error": None,
    }


if __name__ == "__main__":
    sys.exit(guarded(main))
