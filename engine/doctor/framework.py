"""Remedies in the terms of the trainer that wrote a log.

Rules say what to change by this project's keys, most of which are verl's. Of a log from elsewhere
a change is told by that trainer's own argument where it has one; else the remedy's words are left.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

from engine import jsonl
from engine.doctor.finding import Change, Finding, Remedy


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
    "actor_rollout_ref.model.enable_gradient_checkpointing": ("gradient_checkpointing", None),
    "trainer.max_actor_ckpt_to_keep": ("save_total_limit", None),
}
"""Our key -> the argument, and its value where that is another one than ours."""
_TRL_ARGUMENTS: Mapping[str, tuple[str, object]] = {
    **_HF_ARGUMENTS,
    f"{_ROLLOUT}.gpu_memory_utilization": ("vllm_gpu_memory_utilization", None),
}
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
        with jsonl.open_regular(path) as file:
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
    changes = (change for old in one.changes if (change := _change(framework, old)) is not None)
    return replace(one, changes=tuple(changes))


def _change(framework: Framework, one: Change) -> Change | None:
    """The same change in the framework's terms; None where it has none of its own."""
    if one.kind != "config":
        return one
    if framework is Framework.VERL:
        return one if one.key.startswith(_VERLS_OWN) else None
    arguments = {Framework.TRL: _TRL_ARGUMENTS, Framework.HF: _HF_ARGUMENTS}.get(framework, {})
    key, after = arguments.get(one.key, ("", None))
    return replace(one, key=key, after=one.after if after is None else after) if key else None


def _is_our_command(one: Change) -> bool:
    return one.kind == "command" and _OUR_TOOLS.search(str(one.after)) is not None
