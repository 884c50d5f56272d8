"""Remedies in the terms of the trainer that wrote a log.

Rules say what to change by this project's keys, most of which are verl's. Of a log from elsewhere
a change is told by that trainer's own argument where it has one; else the remedy's words are left.
What is too much or too little depends on the value that was set, which a log from elsewhere does
not tell: there such an argument is only named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

from engine.base import files
from engine.findings.finding import Change, Finding, Remedy


class Framework(StrEnum):
    OURS = "ours"
    VERL = "verl"
    TRL = "trl"
    HF = "hf"
    OTHER = "other"


_END = 256 * 1024
"""Bytes of either end of a file that are looked at."""
_MARKS = {
    Framework.VERL: re.compile(
        rb"\bverl/(?:trainer|workers|single_controller)|\bverl\.(?:trainer|workers)"
        rb"|actor_rollout_ref|\bstep:\d+ - (?:actor|critic|global|perf|train|training|timing_s|val)"
        rb"|\"data\": ?\{\"(?:actor|critic|training)/"
    ),
    Framework.TRL: re.compile(
        rb"\btrl[/.](?:trainer|scripts|core|extras)|\btrl (?:sft|dpo|grpo|vllm-serve)\b"
        rb"|\b(?:GRPO|SFT|DPO|RLOO|KTO)(?:Trainer|Config)\b"
        rb"|[\"'](?:reward_std|rewards/\w+|completions/\w+|mean_token_accuracy)[\"']"
    ),
    Framework.HF: re.compile(
        rb"transformers[/.]trainer\b|\bTrainingArguments\b|['\"]train_runtime['\"]"
        rb"|['\"]loss['\"]: ?['\"]?[\d.e-]+['\"]?, ?['\"](?:grad_norm|learning_rate)['\"]"
        rb"|['\"]log_history['\"]"
    ),
}
"""The first that is found counts: verl's and TRL's logs name transformers as well."""

_ACTOR, _ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
_HF_ARGUMENTS: Mapping[str, tuple[str, object]] = {
    f"{_ACTOR}.ppo_micro_batch_size_per_gpu": ("per_device_train_batch_size", None),
    f"{_ACTOR}.fsdp_config.model_dtype": ("bf16", True),
    f"{_ACTOR}.grad_clip": ("max_grad_norm", None),
    f"{_ACTOR}.optim.lr": ("learning_rate", None),
    "actor_rollout_ref.model.enable_gradient_checkpointing": ("gradient_checkpointing", None),
    "trainer.max_actor_ckpt_to_keep": ("save_total_limit", None),
    "data.dataloader_num_workers": ("dataloader_num_workers", None),
}
"""Our key -> the argument, and its value where that is another one than ours."""
_TRL_ARGUMENTS: Mapping[str, tuple[str, object]] = {
    **_HF_ARGUMENTS,
    f"{_ROLLOUT}.gpu_memory_utilization": ("vllm_gpu_memory_utilization", None),
    f"{_ROLLOUT}.max_model_len": ("vllm_max_model_length", None),
    f"{_ROLLOUT}.n": ("num_generations", None),
    "data.max_response_length": ("max_completion_length", None),
}
_ARGUMENTS = {Framework.TRL: _TRL_ARGUMENTS, Framework.HF: _HF_ARGUMENTS}
_RELATIVE = frozenset({f"{_ROLLOUT}.gpu_memory_utilization", f"{_ROLLOUT}.max_model_len"})
"""Keys of which only a person who knows the present value can say what is more or less."""
_SPOKEN: Mapping[str, str] = {
    "Lower the learning rate": f"{_ACTOR}.optim.lr",
    "Multiply the learning rate": f"{_ACTOR}.optim.lr",
    "Set the learning rate": f"{_ACTOR}.optim.lr",
    "Clip gradients": f"{_ACTOR}.grad_clip",
    "Allow longer responses": "data.max_response_length",
    "Sample more rollouts": f"{_ROLLOUT}.n",
}
"""How a remedy without a value begins -> the key that it is about."""
_MICRO_BATCH = f"{_ACTOR}.ppo_micro_batch_size_per_gpu"
_SAME_BATCH = "the batch stays the same if gradient_accumulation_steps rises by the same factor"
_SMALLER: Mapping[Framework, str] = {
    Framework.HF: _SAME_BATCH,
    Framework.TRL: f"{_SAME_BATCH}; in GRPO it must stay a multiple of num_generations",
    Framework.OTHER: "accumulate over as many times more of them, else the batch shrinks",
}
"""What a smaller micro batch asks for where the batch is made of them: verl divides a batch."""
_VERLS_OWN = ("actor_rollout_ref.", "algorithm.", "critic.", "data.", "ray_kwargs.", "trainer.")
_OUR_TOOLS = re.compile(r"\bgrubrics\b|\bengine\.")


def framework_of(files: Sequence[Path], findings: Iterable[Finding] = ()) -> Framework:
    """Which trainer wrote the files, by both ends of each and by what the findings quote."""
    if any(map(is_ours, files)):
        return Framework.OURS
    said = [*map(_ends, dict.fromkeys(files)), *(_quoted(one) for one in findings)]
    for framework, marks in _MARKS.items():
        if any(marks.search(text) for text in said):
            return framework
    return Framework.OTHER


def is_ours(path: Path) -> bool:
    """Whether it lies in an attempt of a run that was launched here."""
    attempt = path.parent
    return attempt.name.startswith("attempt_") and (attempt.parent / "manifest.json").is_file()


def _ends(path: Path) -> bytes:
    try:
        with files.open_regular(path) as file:
            head = file.read(_END)
            file.seek(max(len(head), path.stat().st_size - _END))
            return head + b"\n" + file.read(_END)
    except OSError:
        return b""


def _quoted(finding: Finding) -> bytes:
    return "\n".join(one.text for one in finding.evidence).encode(errors="replace")


def in_terms_of(framework: Framework, findings: Iterable[Finding]) -> list[Finding]:
    """The findings, with remedies that a user of the framework can follow."""
    if framework is Framework.OURS:
        return list(findings)
    return [_finding(framework, one) for one in findings]


def _finding(framework: Framework, one: Finding) -> Finding:
    remedies: dict[str, Remedy] = {}
    for remedy in one.remedies:
        if not _OUR_TOOLS.search(remedy.title) and not any(map(_is_our_command, remedy.changes)):
            # The same for another kind of our recipes has the same title.
            remedies.setdefault(remedy.title, _remedy(framework, remedy))
    followed = tuple(_finding(framework, other) for other in one.followed_by)
    return replace(one, remedies=tuple(remedies.values()), followed_by=followed)


def _remedy(framework: Framework, one: Remedy) -> Remedy:
    """The remedy with the framework's arguments: set to a value where that is right for all."""
    told = [(old.key, new) for old in one.changes if (new := _change(framework, old)) is not None]
    named = [new.key for key, new in told if key in _RELATIVE] or _spoken(framework, one)
    keys = {change.key for change in one.changes}
    return Remedy(
        ": ".join((one.title, *named)),
        tuple(new for key, new in told if key not in _RELATIVE),
        _SMALLER.get(framework, one.effect) if _MICRO_BATCH in keys else one.effect,
    )


def _spoken(framework: Framework, one: Remedy) -> list[str]:
    """The argument that a remedy in words is about."""
    if one.changes:
        return []
    keys = [key for words, key in _SPOKEN.items() if one.title.startswith(words)]
    if framework is Framework.VERL:  # Where the actor's settings stand depends on the trainer.
        return [key.removeprefix(f"{_ACTOR}.") for key in keys]
    return [found[0] for key in keys if (found := _ARGUMENTS.get(framework, {}).get(key))]


def _change(framework: Framework, one: Change) -> Change | None:
    """The same change in the framework's terms; None where it has none of its own."""
    if one.kind != "config":
        return one
    if framework is Framework.VERL:
        return one if one.key.startswith(_VERLS_OWN) else None
    key, after = _ARGUMENTS.get(framework, {}).get(one.key, ("", None))
    return replace(one, key=key, after=one.after if after is None else after) if key else None


def _is_our_command(one: Change) -> bool:
    return one.kind == "command" and _OUR_TOOLS.search(str(one.after)) is not None
