"""Fixes with the arguments of the trainer that wrote a log.

Rules name changes by this project's keys, most of which are verl's. For an external log a change
uses that trainer's argument; if the trainer has none, only the text of the fix is left. Whether a
value is too large or too small depends on the present one, which an external log does not show:
such an argument is only named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from pathlib import Path

import msgspec

from engine.base import files
from engine.base.yaml_files import read_table
from engine.doctor.text.facts import Phase
from engine.run.finding import Change, Finding, Fix
from engine.run.fixes import ACTOR
from engine.run.kinds import GRPO
from engine.run.run import Run
from engine.run.trainer_settings import SETTINGS, key_of


class Framework(StrEnum):
    OURS = "ours"
    VERL = "verl"
    TRL = "trl"
    HF = "hf"
    DEEPSPEED_CHAT = "deepspeed-chat"
    OTHER = "other"


_END = 256 * 1024
"""Bytes that are read at either end of a file."""
_MARKS = {
    Framework.VERL: re.compile(
        rb"\bverl/(?:trainer|workers|single_controller)|\bverl\.(?:trainer|workers)"
        rb"|actor_rollout_ref|\bstep:\d+ - (?:actor|critic|global|perf|train|training|timing_s|val)"
        rb"|\"data\": ?\{\"(?:actor|critic|training)/"
    ),
    Framework.TRL: re.compile(
        rb"\btrl[/.](?:trainer[/.](?:grpo|rloo)|scripts|core|extras)|\btrl (?:grpo|vllm-serve)\b"
        rb"|\b(?:GRPO|RLOO)(?:Trainer|Config)\b"
        rb"|[\"'](?:reward_std|rewards/(?!chosen|rejected|margins|accurac)\w+|completions/\w+)[\"']"
    ),
    Framework.HF: re.compile(
        rb"\btrl[/.]trainer\b|\btrl (?:sft|dpo)\b|\b(?:SFT|DPO|KTO)(?:Trainer|Config)\b"
        rb"|[\"'](?:rewards/\w+|mean_token_accuracy)[\"']"
        rb"|transformers[/.]trainer\b|\bTrainingArguments\b|['\"]train_runtime['\"]"
        rb"|['\"]loss['\"]: ?['\"]?[\d.e-]+['\"]?, ?['\"](?:grad_norm|learning_rate)['\"]"
        rb"|['\"]log_history['\"]"
    ),
    Framework.DEEPSPEED_CHAT: re.compile(
        rb"(?i)deepspeed-?chat|dschat|PPO Epoch: \d+ \| Actor Loss"
    ),
}
"""The first match counts: logs of verl and TRL also mention transformers. ``TRL`` is what samples
responses; its other trainers have the arguments of transformers."""


class _Tables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of ``trainer_dialects.yaml``, which describes each field."""

    no_advice: Mapping[Framework, Sequence[str]]
    smaller_batch: Mapping[Framework, str]
    doing: Mapping[Phase, str]
    names: str
    renamed: Mapping[str, str]
    packages: Mapping[str, str]


@cache
def tables() -> _Tables:
    return msgspec.convert(read_table(Path(__file__).with_suffix(".yaml")), _Tables)


@cache
def _arguments(framework: Framework) -> Mapping[str, str | Mapping[str, object]]:
    """The framework's argument for each of our keys that it has one for."""
    found = {s.keys.get(GRPO.name): s.argument(framework) for s in SETTINGS.values()}
    return {key: argument for key, argument in found.items() if key and argument}


_RELATIVE = frozenset({key_of("rollout_memory"), key_of("rollout_context")})
"""Keys whose better value depends on the present one, which the log does not show."""
_MICRO_BATCH = key_of("micro_batch")
_VERL_KEYS = (
    "actor_rollout_ref.",
    "algorithm.",
    "critic.",
    "data.",
    "ray_kwargs.",
    "trainer.",
    "reward.",
    "reward_model.",
)
_KEY_IN_TEXT = re.compile(
    r"\b(?:actor_rollout_ref|algorithm|critic|data|grubrics|guard|judge|model|ray_kwargs|reward"
    r"|trainer|training)\.[a-z]\w*(?:\.\w+)*"
)
_OUR_TOOLS = re.compile(r"\bgrubrics\b(?!-tui model fetch)|\bengine\.|of this project\b")


def for_phase(fixes: Iterable[Fix], phase: Phase | None) -> list[Fix]:
    """Return the fixes with the keys of the role that ran; without those that do nothing for it."""
    if phase is None:
        return list(fixes)
    phases = {key_of(name): setting.phases for name, setting in SETTINGS.items()}
    keys = {key: of_role[phase] for key, of_role in phases.items() if phase in of_role}
    moved = []
    for fix in fixes:
        renamed = [(change, keys.get(change.key, change.key)) for change in fix.changes]
        changes = tuple(replace(change, key=key) for change, key in renamed if key)
        if changes or not fix.changes:
            moved.append(replace(fix, changes=changes))
    return moved


def nearest_argument(name: str) -> str:
    """Return the argument of TRL or transformers whose name is the nearest; empty if none is.

    Also empty for one of its own, which the installed version does not have.
    """
    arguments = (setting.argument(Framework.TRL) for setting in SETTINGS.values())
    names = {*tables().names.split(), *(each for each in arguments if isinstance(each, str))}
    if not name or name in tables().renamed or name in names:
        return tables().renamed.get(name, "")
    return next(iter(get_close_matches(name, names, 1, 0.7)), "")


def full_key(key: str) -> str:
    """Return the key of the installed verl that ends in the last name of ``key``, if it is one."""
    from engine.config.load import defaults_of  # Few logs name a key: start-up time.

    end = "." + key.strip(".-`").rpartition(".")[2].replace("-", "_")
    keys = [known for known in defaults_of(GRPO) if known.endswith(end)]
    return keys[0] if key and len(keys) == 1 else ""


def framework_of(files: Sequence[Path], findings: Iterable[Finding] = ()) -> Framework:
    """Return the trainer that wrote the files, by their first and last bytes and the evidence."""
    if any(map(is_ours, files)):
        return Framework.OURS
    evidence = "\n".join(item.text for finding in findings for item in finding.evidence)
    texts = [*map(read_ends, dict.fromkeys(files)), evidence.encode(errors="replace")]
    for framework, marks in _MARKS.items():
        if any(marks.search(text) for text in texts):
            return framework
    return Framework.OTHER


def is_ours(path: Path) -> bool:
    """Return whether our trainer wrote the file: it is in a run, and the run has a config."""
    attempt, run = path.parent, Run(path.parent.parent)
    if not attempt.name.startswith("attempt_") or not run.manifest_file.is_file():
        return False
    return not run.is_command


def read_ends(path: Path) -> bytes:
    """Return the first and the last bytes of a file."""
    try:
        with files.open_regular(path) as file:
            head = file.read(_END)
            file.seek(max(len(head), path.stat().st_size - _END))
            return head + b"\n" + file.read(_END)
    except OSError:
        return b""


def in_terms_of(framework: Framework, findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings with fixes that a user of the framework can apply."""
    if framework is Framework.OURS:
        return list(findings)
    return [_finding(framework, finding) for finding in findings]


def _finding(framework: Framework, finding: Finding) -> Finding:
    fixes: dict[str, Fix] = {}
    for fix in finding.fixes:
        if not _is_for_others(framework, fix):
            # A fix for several kinds of runs appears once for each, under the same title.
            fixes.setdefault(fix.title, _translated(framework, fix))
    consequences = tuple(_finding(framework, follower) for follower in finding.followed_by)
    return replace(finding, fixes=tuple(fixes.values()), followed_by=consequences)


def _is_for_others(framework: Framework, fix: Fix) -> bool:
    """Whether the fix names a key or a program that the framework's users do not have, or what the
    framework does by default."""
    named = _KEY_IN_TEXT.findall(f"{fix.title} {fix.effect}")
    if any(framework is not Framework.VERL or not key.startswith(_VERL_KEYS) for key in named):
        return True
    keys = {fix.key, *(change.key for change in fix.changes)}
    if not keys.isdisjoint(map(key_of, tables().no_advice.get(framework, ()))):
        return True
    commands = (str(change.after) for change in fix.changes if change.kind == "command")
    return any(_OUR_TOOLS.search(text) for text in (fix.title, *commands))


def _translated(framework: Framework, fix: Fix) -> Fix:
    """Return the fix with the framework's arguments; relative ones are only named."""
    translated = [(old.key, _change(framework, old)) for old in fix.changes]
    changes = [(key, new) for key, new in translated if new is not None]
    named = [new.key for key, new in changes if key in _RELATIVE]
    if not fix.changes and (advised := _change(framework, Change("config", fix.key, None))):
        # The prefix depends on verl's trainer.
        named = [advised.key.removeprefix(f"{ACTOR}.")]
    smaller = tables().smaller_batch.get(framework)
    batches = (_MICRO_BATCH, _arguments(framework).get(_MICRO_BATCH))
    is_smaller = any(key in batches or (new and new.key in batches) for key, new in translated)
    return Fix(
        ": ".join((fix.title, *named)),
        tuple(new for key, new in changes if key not in _RELATIVE),
        smaller if smaller and is_smaller else fix.effect,
    )


def _change(framework: Framework, change: Change) -> Change | None:
    """Return the change with the framework's argument; None if it has none."""
    if change.kind != "config":
        return change
    if framework is Framework.VERL:
        return change if change.key.startswith(_VERL_KEYS) else None
    argument = _arguments(framework).get(change.key)
    if isinstance(argument, Mapping):
        [(key, value)] = argument.items()
        return replace(change, key=key, after=value)
    return replace(change, key=argument) if argument else None
