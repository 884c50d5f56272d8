"""Does the model see the question? One prompt is really rendered, and some are measured."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from jinja2 import TemplateError

from engine.launch.launcher import data_files
from engine.launch.recipe import Recipe
from engine.preflight.check import Check, Subject, fail, skip, summary, warn
from engine.preflight.models import local_folder, model_name
from engine.preflight.templates import ChatTemplate, read_template, token_counter

ID = "prompt"
MEASURED = 64
SHORTEST = 20
"""Tokens below which a prompt cannot hold a question: an empty one is 3 to about 15."""


@dataclass(frozen=True)
class Sample:
    """A row as the template gets it, and the text that must be found in what it renders."""

    messages: Sequence[dict[str, Any]]
    essential: str


def check(subject: Subject) -> Check:
    """Render the first prompt; measure the first ``MEASURED``."""
    recipe, name = subject.recipe, model_name(subject.recipe)
    folder = local_folder(name, subject.env)
    if folder is None:
        return skip(ID, f"{name} is not on this disk, so no prompt was rendered")
    template = read_template(folder)
    if template is None:
        return fail(ID, f"{folder} has no chat template, so prompts cannot be rendered")
    samples = list(islice(_samples(recipe), MEASURED))
    try:
        texts = [_render(recipe, template, sample) for sample in samples]
    except TemplateError as error:
        return fail(ID, f"the chat template of {folder} refuses the prompts: {error}")
    return _judge(recipe, folder, template, samples, texts)


def _judge(
    recipe: Recipe,
    folder: Path,
    template: ChatTemplate,
    samples: Sequence[Sample],
    texts: Sequence[str],
) -> Check:
    count = token_counter(folder)
    lengths = [count(text) for text in texts] if count is not None else []
    found = [
        *_essential(folder, samples, texts),
        *_short(folder, lengths),
        *_long(recipe, lengths),
        *_thinking(recipe, template),
    ]
    tokens = f"{min(lengths)} to {max(lengths)} tokens" if lengths else "tokens not counted"
    return summary(ID, found, f"{len(texts)} prompts rendered with {folder}: {tokens}")


def _samples(recipe: Recipe) -> Iterator[Sample]:
    path = data_files(recipe)[0].expanduser()
    if path.suffix == ".parquet":
        yield from _parquet_samples(path, str(recipe.get("data.prompt_key", "prompt")))
        return
    with path.open(encoding="utf-8") as handle:
        for line in filter(str.strip, handle):
            messages = json.loads(line)["messages"]
            yield Sample(messages, messages[-1]["content"])


def _parquet_samples(path: Path, key: str) -> Iterator[Sample]:
    file = pq.ParquetFile(path)
    for piece in file.iter_batches(batch_size=MEASURED, columns=[key, "extra_info"]):
        for row in piece.to_pylist():
            yield Sample(row[key], (row["extra_info"] or {}).get("question") or "")


def _render(recipe: Recipe, template: ChatTemplate, sample: Sample) -> str:
    options = recipe.section("data").get("apply_chat_template_kwargs") or {}
    generate = recipe.kind == "grpo"
    return template.render(sample.messages, add_generation_prompt=generate, **options)


def _essential(folder: Path, samples: Sequence[Sample], texts: Sequence[str]) -> Iterator[Check]:
    for number, (sample, text) in enumerate(zip(samples, texts, strict=True)):
        if sample.essential.strip() not in text:
            seen = " ".join(text.split())[:80]
            yield fail(
                ID,
                f"row {number} rendered with {folder} lacks its question; the model sees {seen!r}",
            )
            return


def _short(folder: Path, lengths: Sequence[int]) -> Iterator[Check]:
    if lengths and min(lengths) < SHORTEST:
        row = lengths.index(min(lengths))
        seen = f"row {row} rendered with {folder} has {lengths[row]} tokens"
        yield fail(ID, f"{seen}, fewer than the {SHORTEST} of any real question")


def _long(recipe: Recipe, lengths: Sequence[int]) -> Iterator[Check]:
    key = "data.max_seq_length" if recipe.kind == "sft" else "data.max_prompt_length"
    limit = int(recipe.get(key))
    long = [length for length in lengths if length > limit]
    if not long:
        return
    message = f"{len(long)} of {len(lengths)} prompts exceed {key}={limit} tokens"
    fix = f"{key}={max(long)}"
    filtered = recipe.kind == "grpo" and recipe.get("data.filter_overlong_prompts")
    if filtered and len(long) == len(lengths):
        yield fail(ID, f"{message} and would be dropped, which leaves none", fix)
    elif recipe.kind == "grpo" and not filtered and recipe.get("data.truncation") == "error":
        yield fail(ID, f"{message}; data.truncation=error stops the run at the first", fix)
    else:
        yield warn(ID, f"{message} and will be {'dropped' if filtered else 'cut'}", fix)


def _thinking(recipe: Recipe, template: ChatTemplate) -> Iterator[Check]:
    """A thinking model spends the response on thoughts, which would be judged as the rubric."""
    key = "data.apply_chat_template_kwargs.enable_thinking"
    if recipe.kind == "grpo" and "enable_thinking" in template.source and recipe.get(key) is None:
        yield warn(ID, f"the model thinks unless told not to, and {key} is not set", f"{key}=false")
