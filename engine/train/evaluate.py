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
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.base.errors import UsageError, guarded
from engine.base.typed import to_json
from engine.run.conversation import FIELD
from engine.train import vllm_backend
from engine.train.backends import Backend, HfBackend, Prompt, load_target
from engine.train.generation import Generated, Request, Sampling
from engine.train.vllm_backend import VllmBackend


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
    if "loss" in job:
        return _write(target, job, _losses(target, job))
    name = _backend_name(job)
    if job["backend"] not in (None, name):
        raise UsageError(
            f"{name} would generate here, and {job['backend']} generated the answers that are "
            f"there. Evaluate where {job['backend']} runs, or all again with another --seed"
        )
    with _backend(target, job) as backend:
        return _write(target, job, _answers(backend, target["requests"], job))


def _write(
    target: Mapping[str, Any], job: Mapping[str, Any], batches: Iterator[list[dict[str, Any]]]
) -> None:
    for rows in batches:
        for row in rows:
            jsonl.append(Path(target["answers"]), row)
        if os.getppid() != job["parent"]:
            return


def _backend_name(job: Mapping[str, Any]) -> str:
    """vLLM if the config names it and it can run here."""
    is_vllm = job["vllm"] is not None and vllm_backend.is_available()
    return VllmBackend.name if is_vllm else HfBackend.name


@contextmanager
def _backend(target: Mapping[str, Any], job: Mapping[str, Any]) -> Iterator[Backend]:
    """What generates with the target's weights."""
    if _backend_name(job) == VllmBackend.name:
        with vllm_backend.opened(target["form"], target["source"], job) as backend:
            yield backend
    else:
        yield HfBackend(*load_target(target["form"], target["source"], job), job["batch"])


def _answers(
    backend: Backend, requests: Sequence[Mapping[str, Any]], job: Mapping[str, Any]
) -> Iterator[list[dict[str, Any]]]:
    """The lines of each batch. A prompt that is too long gets a line with its error."""
    sampling = Sampling(**job["sampling"])
    prompts, refused = [], []
    for request in requests:
        try:
            prompts.append(_prompt(backend.tokenizer, request, job))
        except UsageError as error:
            refused.append({**request["row"], "answer": None, "error": str(error)})
    yield refused
    # Prompts of similar length share a batch: padding costs as much as tokens do.
    prompts.sort(key=lambda prompt: len(prompt.tokens))
    for start in range(0, len(prompts), backend.batch):
        batch = prompts[start : start + backend.batch]
        if tools := job.get("tools"):
            yield _tool_lines(
                backend, batch, Request([], job["max_answer_tokens"], sampling), tools
            )
            continue
        drawn = backend.generate(
            [Request(p.tokens, job["max_answer_tokens"], sampling, p.seed) for p in batch]
        )
        yield [_line(backend, p, made) for p, made in zip(batch, drawn, strict=True)]


def _tool_lines(
    backend: Backend, batch: Sequence[Prompt], request: Request, tools: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The lines of answers that may call tools. verl is imported, which other answers do not
    need."""
    from engine.train.tool_answers import answer_with_tools

    answers = answer_with_tools(backend, batch, request, tools)
    return [
        {
            **prompt.row,
            "answer": answer.text,
            "tokens": answer.generated,
            "stopped": answer.stopped,
            "error": None,
            "backend": backend.name,
            FIELD: to_json(answer.conversation),
        }
        for prompt, answer in zip(batch, answers, strict=True)
    ]


def _losses(target: Mapping[str, Any], job: Mapping[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """The lines of each batch of conversations. verl is imported, which answers do not need."""
    from engine.train.losses import conversation_losses

    model, tokenizer = load_target(target["form"], target["source"], job)
    return conversation_losses(model, tokenizer, target["requests"], job)


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
    seed = request_seed(job["seed"], request["row"])
    extra_info = request.get("extra_info") or {}
    return Prompt(request["row"], request["messages"], tokens, seed, extra_info)


def request_seed(seed: int, row: Mapping[str, Any]) -> int:
    """The same random numbers for a sample of an item, whichever model answers."""
    identity = f"{seed} {row['item_sha256']} {row['sample']}".encode()
    return int.from_bytes(hashlib.sha256(identity).digest()[:8], "big") >> 1


def _line(backend: Backend, prompt: Prompt, made: Generated) -> dict[str, Any]:
    return {
        **prompt.row,
        "answer": backend.tokenizer.decode(made.tokens, skip_special_tokens=True),
        "tokens": len(made.tokens),
        "stopped": bool(made.tokens) and made.tokens[-1] in backend.stops,
        "error": None,
        "backend": backend.name,
    }


if __name__ == "__main__":
    sys.exit(guarded(main))
