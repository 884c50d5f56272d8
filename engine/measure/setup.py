"""What all answers of an evaluation have in common. Targets are comparable only under one setup."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError
from engine.base.files import content_hash
from engine.config.load import Config
from engine.config.schedule import rollout_temperature
from engine.config.scoring import asks_judge, calls_tools, reward_function, tools_files
from engine.data.contract import read_facts
from engine.data.conversations import first_record, holds_conversations
from engine.measure.items import Item, digest, read_conversation_items, read_items
from engine.measure.targets import judge_identity
from engine.reward.own.files import code_files, input_files
from engine.reward.own.function import KEY, TASK, RewardFunction


@dataclass(frozen=True)
class SamplingSettings:
    """How an answer is drawn. ``samples`` answers per item; ``seed`` fixes all random numbers."""

    samples: int
    seed: int
    temperature: float
    top_p: float
    top_k: int
    max_prompt_tokens: int
    max_answer_tokens: int
    filter_long_prompts: bool
    """``data.filter_overlong_prompts``: prompts above ``max_prompt_tokens`` get no answer."""
    template_arguments: dict[str, Any]
    chat_template: str | None
    """In place of the one that each model brings."""


@dataclass(frozen=True)
class Setup:
    """Items, sampling and scoring. ``items_sha256`` covers every item in order; ``scoring`` holds
    the values of the config that decide a score."""

    data: str
    items: int
    items_sha256: str
    sampling: SamplingSettings | None
    """None where nothing is generated: a loss is measured."""
    scoring: dict[str, Any]

    @property
    def samples(self) -> int:
        return 1 if self.sampling is None else self.sampling.samples

    @property
    def id(self) -> str:
        """The name of the evaluation's folder: the data file and a digest of the setup."""
        identity = {key: value for key, value in asdict(self).items() if key != "data"}
        return f"{Path(self.data).stem}-{digest(identity)[:8]}"


def validation_file(config: Config) -> Path:
    """The items that the config validates on. UsageError for a config without such a file, and with
    several."""
    if not config.kind.has_rollouts:
        return _held_out_conversations(config)
    value = config.get("data.val_files")
    files = value if isinstance(value, list) else [value] if value else []
    if len(files) != 1:
        raise UsageError(
            f"{config.path}: data.val_files names {len(files)} files; name one with --data"
        )
    return Path(str(files[0]))


def _held_out_conversations(config: Config) -> Path:
    file = config.get("data.val_file")
    if not file:
        raise UsageError(
            f"{config.path}: data.val_file names no held-out conversations. Name them with --data, "
            "or score answers as another config does: --config CONFIG"
        )
    return Path(str(file))


def read_data(path: Path, limit: int | None, config: Config) -> list[Item]:
    """The items that ``config`` can be measured on: prompts, or conversations for SFT. UsageError
    for a file of the other kind."""
    if config.kind.has_rollouts:
        return read_items(path, limit)
    if path.suffix == ".parquet" and not holds_conversations(first_record(path)):
        raise UsageError(
            f"{path} holds no conversations, and {config.path} is for SFT, which is measured by "
            "its loss on them. Name a config or a run that scores answers: --config CONFIG"
        )
    return read_conversation_items(path, limit)


def scored_as(config: Config, path: Path) -> Config:
    """The config that scores the answers to a file: for a benchmark its task does, otherwise what
    the config names. UsageError for a benchmark with a config for SFT."""
    facts = read_facts(path) if path.suffix == ".parquet" else None
    if facts is None or facts.benchmark is None:
        return config
    if not config.kind.has_rollouts:
        raise UsageError(
            f"{path} is the benchmark {facts.benchmark}, and {config.path} is for SFT. "
            "Name a config with rollouts: --config CONFIG"
        )
    others = {key: value for key, value in config.values.items() if not key.startswith(f"{KEY}.")}
    return replace(config, values={**others, f"{KEY}.path": f"{TASK}{facts.preset}"})


def make_setup(data: Path, items: Sequence[Item], config: Config, samples: int, seed: int) -> Setup:
    """The setup of ``config``'s validation: one greedy answer, or ``samples`` at its rollout's
    temperature, the final one of a schedule; for SFT the loss.

    UsageError for a bad number of samples.
    """
    if samples < 1:
        raise UsageError(f"--samples {samples} must be at least 1")
    identity = str(data), len(items), digest([item.sha256 for item in items])
    if not config.kind.has_rollouts:
        if samples > 1:
            raise UsageError(f"--samples {samples}: the loss of a conversation needs no answers")
        return Setup(*identity, None, {"loss": _loss_settings(config)})
    return Setup(*identity, _sampling(config, samples, seed), scoring_of(config))


def _loss_settings(config: Config) -> dict[str, Any]:
    """The values of an SFT config that decide which tokens count."""
    return {
        "max_length": int(config.get("data.max_seq_length")),
        "ignore_input_ids_mismatch": bool(config.get("data.ignore_input_ids_mismatch")),
        "chat_template": _chat_template(config),
    }


def _chat_template(config: Config) -> str | None:
    return str(config.get(config.kind.template_key or "") or "") or None


def _sampling(config: Config, samples: int, seed: int) -> SamplingSettings:
    return SamplingSettings(
        samples,
        seed,
        temperature=0.0 if samples == 1 else rollout_temperature(config),
        top_p=float(_rollout(config, "top_p", 1.0)),
        top_k=int(_rollout(config, "top_k", -1)),
        max_prompt_tokens=int(config.get("data.max_prompt_length")),
        max_answer_tokens=int(config.get("data.max_response_length")),
        filter_long_prompts=bool(config.get("data.filter_overlong_prompts")),
        template_arguments=config.tree.get("data", {}).get("apply_chat_template_kwargs") or {},
        chat_template=_chat_template(config),
    )


def _rollout(config: Config, name: str, default: float) -> Any:
    return config.get(f"actor_rollout_ref.rollout.{name}", default)


def scoring_of(config: Config) -> dict[str, Any]:
    """What decides a score: the function's files, or the judge and the weights of the reward; the
    tools, if there are any."""
    tools = _tools_of(config)
    function = reward_function(config)
    if function is not None:
        files = _function_files(function)
        scored = {"function": function.label, "files": files, "kwargs": dict(function.kwargs)}
        return {**scored, **tools}
    if not asks_judge(config):
        raise UsageError(f"{config.path}: only the trainer can use a reward model")
    judged = {"judge": judge_identity(config), "reward": config.section("reward_config")}
    return {**judged, **tools}


def _tools_of(config: Config) -> dict[str, Any]:
    """The files that declare tools, by their SHA-256, and the limits of turns and replies."""
    if not calls_tools(config):
        return {}
    files = {path.name: content_hash(path) for path in tools_files(config)}
    limits = (config.section("actor_rollout_ref").get("rollout") or {}).get("multi_turn") or {}
    limits = {key: value for key, value in limits.items() if not key.endswith("_path")}
    return {"tools": {"files": files, **limits}}


def _function_files(function: RewardFunction) -> dict[str, str]:
    """SHA-256 of the function's file, of what it imports from its folder and the working directory,
    and of what it reads; by path from its folder, so that a copy of the project scores alike."""
    code = code_files(function, everywhere=True)
    paths = [*code, *input_files(function)]
    return {os.path.relpath(path, code[0].parent): content_hash(path) for path in paths}
