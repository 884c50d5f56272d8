"""The reward inside verl: scores one rollout, writes one line to reward.jsonl, hands verl a number.

A reward *manager* and not a reward function, because verl tells only the manager to which group
and step a rollout belongs. A rollout that cannot be scored raises ``NoRewardError``: verl then
leaves it out of the step instead of training on a made-up zero, and the sampler stops the run when
that happens too often.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import structs
from omegaconf import OmegaConf
from verl import DataProto
from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase

from engine.base.typed import convert_record
from engine.config.scoring import scores_all_turns
from engine.reward.formula import RewardSettings
from engine.reward.judge.settings import JudgeSettings, make_judge
from engine.reward.own.function import RewardFunction
from engine.reward.own.processes import RewardProcesses, source_of
from engine.reward.scorer import (
    Blocklist,
    FunctionScorer,
    Rollout,
    RubricScorer,
    ScoredRollout,
    Scorer,
    append_record,
    split_of,
)
from engine.run.conversation import FIELD, Conversation
from engine.run.history.reward_records import OVERLONG, Position, ScoringError
from engine.run.run import ATTEMPT_DIR_VARIABLE, Run
from engine.train.agent_loop import SPLIT


class NoRewardError(RuntimeError):
    """A rollout has no reward; the message says why."""


@dataclass(frozen=True)
class Overlong:
    """DAPO's overlong shaping: the reward falls linearly over the last tokens before a limit.

        overlong = min(-(length - (max_resp_len - len)) / len * penalty_factor, 0)

    Read from ``reward.reward_kwargs``: tokens of the buffer, their highest cost, the hard limit.
    Computed on a tensor as verl's ``DAPORewardManager`` does (``reward_manager/dapo.py``), so that
    both agree to the last bit: a length is a tensor there, and its division is one of float32.
    """

    buffer: int
    factor: float
    limit: int
    log: bool

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Overlong | None:
        """None where the buffer is not enabled. Raises KeyError for a part that is missing."""
        buffer = settings.get("overlong_buffer_cfg") or {}
        if not buffer.get("enable"):
            return None
        return cls(
            buffer=int(buffer["len"]),
            factor=float(buffer["penalty_factor"]),
            limit=int(settings["max_resp_len"]),
            log=bool(buffer.get("log", False)),
        )

    def shape(self, reward: float, length: Any) -> tuple[float, float]:
        """The shaped reward and what the length took of it (at most 0). ``length`` is a tensor."""
        exceeding = length - (self.limit - self.buffer)
        taken = min(-exceeding / self.buffer * self.factor, 0)
        return float(reward + taken), float(taken)

    def numbers(self, taken: float) -> dict[str, float]:
        """What verl's manager adds to the validation metrics."""
        return {OVERLONG: taken, "overlong": float(taken < 0)} if self.log else {}


@dataclass(frozen=True)
class _Sample:
    """A rollout to score. ``length`` counts its tokens, as a tensor; ``generated`` is all that the
    model wrote."""

    rollout: Rollout
    length: Any
    generated: str
    conversation: Conversation | None = None


class RecordingRewardManager(RewardManagerBase):
    """Scores with GRubrics, or with ``reward.custom_reward_function`` where a config names one.

    It replaces verl's ``naive`` manager, and its ``dapo`` manager: with
    ``reward.reward_kwargs.overlong_buffer_cfg`` long responses lose a part of their reward.
    """

    def __init__(self, config: Any, tokenizer: Any, compute_score: Any, **_: Any) -> None:
        super().__init__(config, tokenizer, compute_score)
        attempt = os.environ.get(ATTEMPT_DIR_VARIABLE)
        self.attempt = Path(attempt) if attempt else None
        self.overlong = Overlong.of(_section(config.reward, "reward_kwargs"))
        self.blocklist = Blocklist.of_section(_section(config, "grubrics"))
        self.scorer = self._make_scorer(compute_score)
        self.scores_all_turns = scores_all_turns(config.reward.custom_reward_function.path)

    async def run_single(self, data: DataProto) -> dict[str, Any]:
        """``reward_score`` and numbers for verl's validation metrics. Raises NoRewardError."""
        item = data[-1:][0]  # of a rollout with several outputs verl scores the last one
        row, sample = item.non_tensor_batch, self._sample(item)
        scored = await self.scorer.score(sample.rollout)
        if not scored.numbers:  # verl's managers give a bare number the name "acc".
            scored = replace(scored, numbers={"acc": scored.record.reward or 0.0})
        if self.overlong is not None:
            scored = _shaped(scored, self.overlong, sample.length)
        if self.blocklist is not None:
            scored = self.blocklist.apply(scored, sample.generated)
        if sample.conversation is not None:
            scored = _with_turns(scored, sample.conversation)
        if self.attempt is not None:
            position = _position(row, sample.rollout)
            append_record(self.attempt / "reward.jsonl", position, scored.record)
        record = scored.record
        if record.reward is None:
            error = record.error or ScoringError("other", "the reward function returned no number")
            raise NoRewardError(f"{error.kind}: {error.message} (question '{record.question_id}')")
        return {"reward_score": record.reward, "reward_extra_info": dict(scored.numbers)}

    def _sample(self, item: Any) -> _Sample:
        """Decode the response. Of a conversation, tasks and judges score the model's last turn; a
        function of the user gets the whole response, and verl's extra fields, as from verl."""
        row, tokens = item.non_tensor_batch, item.batch["responses"]
        length = item.batch["attention_mask"][-tokens.shape[-1] :].sum()
        tokens = tokens[:length]
        decode = partial(self.tokenizer.decode, skip_special_tokens=True)
        extra = row.get("tool_extra_fields") or {}
        conversation = convert_record(extra.get(FIELD), Conversation)
        if conversation is None:
            text = decode(tokens)
            return _Sample(Rollout.of_row(text, row), length, text)
        info = {**(row.get("extra_info") or {}), **extra, "num_turns": row.get("__num_turns__")}
        scored = tokens if self.scores_all_turns else tokens[conversation.last_answer()]
        rollout = Rollout.of_row(decode(scored), {**row, "extra_info": info})
        generated = "".join(turn.text for turn in conversation.turns if turn.trained)
        return _Sample(rollout, length, generated, conversation)

    def _make_scorer(self, compute_score: Any) -> Scorer:
        if self.config.reward.custom_reward_function.path:
            return FunctionScorer(compute_score)
        settings = JudgeSettings.model_validate(_section(self.config, "judge"))
        slots = self.attempt / "judge_slots" if self.attempt else None
        judge = make_judge(settings, slots, os.environ)
        return RubricScorer(
            judge, RewardSettings.model_validate(_section(self.config, "reward_config"))
        )


def _shaped(scored: ScoredRollout, overlong: Overlong, length: Any) -> ScoredRollout:
    """A rollout without a score stays without."""
    record = scored.record
    if record.reward is None:
        return scored
    reward, taken = overlong.shape(record.reward, length)
    record = structs.replace(record, reward=reward, parts={**(record.parts or {}), OVERLONG: taken})
    return ScoredRollout(record, {**scored.numbers, **overlong.numbers(taken)})


def _with_turns(scored: ScoredRollout, conversation: Conversation) -> ScoredRollout:
    """Record the turns, and give verl the numbers of turns and calls."""
    record = structs.replace(scored.record, conversation=conversation)
    return ScoredRollout(record, {**scored.numbers, **conversation.numbers()})


def reward_processes(config: Any) -> RewardProcesses | None:
    """Processes of the function that ``config`` names; None where it names none.

    They execute the copies that the run keeps. UsageError when the function cannot be loaded.
    """
    section = OmegaConf.to_container(config.reward.custom_reward_function, resolve=True)
    function = RewardFunction.of_section(section)  # type: ignore[arg-type]
    if function is None:
        return None
    attempt = os.environ.get(ATTEMPT_DIR_VARIABLE)
    copies = Run(Path(attempt).parent).code if attempt else None
    return RewardProcesses(source_of(function, copies), float(config.grubrics.reward_timeout_s))


def _position(row: Mapping[str, Any], rollout: Rollout) -> Position:
    """What verl says of a rollout. ``SPLIT`` is the split that it was generated for."""
    step = _whole(row.get("global_steps"))
    return Position(
        split=row.get(SPLIT) or split_of(rollout.extra_info, step),
        step=step,
        group=str(row.get("uid", "")),
        rollout=_whole(row.get("session_id")),
    )


def _section(config: Any, name: str) -> Any:
    return OmegaConf.to_container(config[name], resolve=True) if name in config else {}


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)
