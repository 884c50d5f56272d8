"""The reward inside verl: scores one rollout, writes one line to reward.jsonl, hands verl a number.

A reward *manager* and not a reward function, because verl tells only the manager to which group
and step a rollout belongs. A rollout that cannot be scored raises ``NoRewardError``: verl then
leaves it out of the step instead of training on a made-up zero, and the sampler stops the run when
that happens too often.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from verl import DataProto
from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase

from engine.base import jsonl
from engine.base.masking import mask_data
from engine.judge.interface import ScoringError
from engine.judge.settings import JudgeSettings, make_judge
from engine.reward.custom import custom_score, own_record
from engine.reward.formula import RewardSettings
from engine.reward.scoring import RewardItem, RolloutScore, score_rollout
from engine.train import overlong
from engine.train.agent_loop import SPLIT
from engine.train.overlong import Overlong

RECORD_VERSION = 1
HELD_OUT_SPLITS = frozenset({"val", "valid", "validation", "test", "holdout"})


class NoRewardError(RuntimeError):
    """This rollout has no reward; the message says why."""


@dataclass(frozen=True)
class Rollout:
    """One finished generation, as verl hands it to the reward manager."""

    text: str
    data_source: str
    ground_truth: Any
    extra_info: Mapping[str, Any]
    group: str
    rollout: int | None
    step: int | None
    length: Any
    """Its tokens, as a tensor."""
    told: str | None = None
    """The split that verl generated it for."""

    @property
    def split(self) -> str:
        """``val`` or ``train``, as told; else ``val`` for held-out rows and before step 1."""
        if self.told is not None:
            return self.told
        held_out = self.extra_info.get("split") in HELD_OUT_SPLITS
        return "val" if held_out or self.step == 0 else "train"


class RecordingRewardManager(RewardManagerBase):
    """Scores with GRubrics, or with ``reward.custom_reward_function`` where a recipe names one.

    In the place of verl's ``naive`` manager, and of its ``dapo`` manager: with
    ``reward.reward_kwargs.overlong_buffer_cfg`` long responses lose a part of their reward.
    """

    def __init__(self, config: Any, tokenizer: Any, compute_score: Any, **_: Any) -> None:
        super().__init__(config, tokenizer, compute_score)
        attempt = os.environ.get("GRUBRICS_ATTEMPT_DIR")
        self.record_path = Path(attempt) / "reward.jsonl" if attempt else None
        self.overlong = Overlong.of(_section(config.reward, "reward_kwargs"))
        self.custom: Any = compute_score if config.reward.custom_reward_function.path else None
        if self.custom is None:
            self.settings = RewardSettings.model_validate(_section(config, "reward_config"))
            judge = JudgeSettings.model_validate(_section(config, "judge"))
            slots = Path(attempt) / "judge_slots" if attempt else None
            self.judge = make_judge(judge, slots, os.environ)

    async def run_single(self, data: DataProto) -> dict[str, Any]:
        """``reward_score`` and numbers for verl's validation metrics. Raises NoRewardError."""
        rollout = self._rollout(data)
        score, numbers = await self._score(rollout)
        if self.custom is None:
            told, result = numbers, score.to_record()
        else:  # verl's managers give a bare number a name
            told = numbers or {"acc": score.reward or 0.0}
            result = own_record(score, numbers, rollout.ground_truth)
        if self.overlong is not None and score.reward is not None:
            reward, taken = self.overlong.shape(score.reward, rollout.length)
            score, told = replace(score, reward=reward), {**told, **self.overlong.numbers(taken)}
            parts = {**(result["parts"] or {}), overlong.NAME: taken}
            result = {**result, "reward": reward, "parts": parts}
        self._record(rollout, result)
        if score.reward is None:
            why = score.error or ScoringError("other", "the reward function returned no number")
            raise NoRewardError(f"{why.kind}: {why.message} (question '{score.question_id}')")
        return {"reward_score": score.reward, "reward_extra_info": told}

    def _rollout(self, data: DataProto) -> Rollout:
        item = data[-1:][0]  # of a multi-turn rollout verl scores the last output
        row = item.non_tensor_batch
        tokens = item.batch["responses"]
        length = item.batch["attention_mask"][-tokens.shape[-1] :].sum()
        return Rollout(
            text=self.tokenizer.decode(tokens[:length], skip_special_tokens=True),
            data_source=str(row["data_source"]),
            ground_truth=row["reward_model"]["ground_truth"],
            extra_info=row.get("extra_info") or {},
            group=str(row.get("uid", "")),
            rollout=_whole(row.get("session_id")),
            step=_whole(row.get("global_steps")),
            length=length,
            told=row.get(SPLIT),
        )

    async def _score(self, rollout: Rollout) -> tuple[RolloutScore, dict[str, float]]:
        if self.custom is not None:
            return await custom_score(
                self.custom,
                rollout.text,
                data_source=rollout.data_source,
                ground_truth=rollout.ground_truth,
                extra_info=rollout.extra_info,
            )
        item = RewardItem.from_extra_info(rollout.data_source, rollout.extra_info)
        score = await score_rollout(rollout.text, item, self.judge, self.settings)
        parts = {} if score.parts is None else vars(score.parts)
        return score, {**parts, "n_chars": float(len(rollout.text))}

    def _record(self, rollout: Rollout, result: Mapping[str, Any]) -> None:
        if self.record_path is None:
            return
        placed = {
            "v": RECORD_VERSION,
            "t": time.time(),
            "split": rollout.split,
            "step": rollout.step,
            "group": rollout.group,
            "rollout": rollout.rollout,
            "pid": os.getpid(),
        }
        record = {**placed, **result}
        # Errors quote what they failed at; texts and scores are kept as they are.
        jsonl.append(self.record_path, {**record, "error": mask_data(record.get("error"))})


def _section(config: Any, name: str) -> Any:
    return OmegaConf.to_container(config[name], resolve=True) if name in config else {}


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)
