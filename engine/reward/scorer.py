"""Score rollouts as a run does, with or without a trainer around it.

A ``Scorer`` takes rollouts of any origin: the trainer's reward entry, the rollouts that a run
recorded, the sample rows of a check, an evaluation of a checkpoint. It asks a judge with rubrics
(``RubricScorer``) or calls the config's reward function (``FunctionScorer``).
``engine.config.scoring.make_scorer`` makes the one that a config names.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from msgspec import structs

from engine.base import jsonl
from engine.base.masking import mask_data
from engine.reward.formula import RewardSettings
from engine.reward.judge.interface import Judge
from engine.reward.scoring import CustomReward, RewardItem, custom_score, score_rollout
from engine.run.history.reward_records import Position, RewardRecord, Split


@dataclass(frozen=True)
class Rollout:
    """A generated text and what its row says: the columns of a training file."""

    text: str
    data_source: str
    ground_truth: Any
    extra_info: Mapping[str, Any]

    @classmethod
    def of_row(cls, text: str, row: Mapping[str, Any]) -> Rollout:
        """An answer to a row of a training file."""
        reward_model = row.get("reward_model") or {}
        return cls(
            text=text,
            data_source=str(row.get("data_source")),
            ground_truth=reward_model.get("ground_truth"),
            extra_info=row.get("extra_info") or {},
        )


@dataclass(frozen=True)
class ScoredRollout:
    """``record`` has the reward or the error, without a position; ``numbers`` is what to log beside
    it."""

    record: RewardRecord
    numbers: Mapping[str, float]


Done = Callable[[int, ScoredRollout], None]
"""Called with the index of a rollout and its score."""


def _ignore(index: int, scored: ScoredRollout) -> None:
    """Nobody waits for single scores."""


class Scorer(Protocol):
    """Gives rollouts their rewards. Use one scorer per event loop."""

    async def score(self, rollout: Rollout) -> ScoredRollout:
        """Never raises for bad data, a failing judge or function: the record holds the error."""

    async def score_all(
        self, rollouts: Sequence[Rollout], done: Done = _ignore
    ) -> list[ScoredRollout]:
        """The scores of ``rollouts``, in their order. ``done`` gets each one as it is ready."""

    async def aclose(self) -> None:
        """Free connections and processes."""


class RubricScorer:
    """The text is a rubric: a judge uses it on the row's answers, gold scores say how well."""

    def __init__(self, judge: Judge, settings: RewardSettings) -> None:
        self._judge = judge
        self._settings = settings

    async def score(self, rollout: Rollout) -> ScoredRollout:
        item = RewardItem.from_extra_info(rollout.extra_info)
        record = await score_rollout(rollout.text, item, self._judge, self._settings)
        return ScoredRollout(record, {**record.numbers, "n_chars": float(len(rollout.text))})

    async def score_all(
        self, rollouts: Sequence[Rollout], done: Done = _ignore
    ) -> list[ScoredRollout]:
        """All at once; the judge bounds the calls in flight."""

        async def score(index: int, rollout: Rollout) -> ScoredRollout:
            scored = await self.score(rollout)
            done(index, scored)
            return scored

        return list(await asyncio.gather(*map(score, range(len(rollouts)), rollouts)))

    async def aclose(self) -> None:
        await self._judge.aclose()


class FunctionScorer:
    """The text is an answer: a function under verl's ``compute_score`` contract scores it."""

    def __init__(self, function: CustomReward, end: Callable[[], None] = lambda: None) -> None:
        """``end`` frees what the function runs in."""
        self._function = function
        self._end = end

    async def score(self, rollout: Rollout) -> ScoredRollout:
        scored = await custom_score(
            self._function,
            rollout.text,
            data_source=rollout.data_source,
            ground_truth=rollout.ground_truth,
            extra_info=rollout.extra_info,
        )
        return ScoredRollout(*scored)

    async def score_all(
        self, rollouts: Sequence[Rollout], done: Done = _ignore
    ) -> list[ScoredRollout]:
        """One after the other: what a function keeps in memory sees the order."""
        scores = []
        for index, rollout in enumerate(rollouts):
            scores.append(await self.score(rollout))
            done(index, scores[-1])
        return scores

    async def aclose(self) -> None:
        self._end()


@dataclass(frozen=True)
class Blocklist:
    """Texts, found in any case, and the reward of a response that contains one; None: its own."""

    texts: tuple[str, ...]
    reward: float | None = None

    @classmethod
    def of_section(cls, section: Mapping[str, Any]) -> Blocklist | None:
        """The list of the section ``grubrics``; None if it is empty."""
        texts = tuple(section.get("blocklist") or ())
        return cls(texts, section.get("blocked_reward")) if texts else None

    def find(self, text: str) -> list[str]:
        """The listed texts that ``text`` contains, in the order of the list."""
        folded = text.casefold()
        return [blocked for blocked in self.texts if blocked.casefold() in folded]

    def apply(self, scored: ScoredRollout, generated: str | None = None) -> ScoredRollout:
        """Record what was found in the scored text, or in all that the model wrote.

        If something was, the reward is replaced, if there is one: a rollout without a score stays
        without.
        """
        record = scored.record
        found = self.find(record.text if generated is None else generated)
        record = structs.replace(record, blocked=tuple(found))
        if found and self.reward is not None and record.reward is not None:
            record = structs.replace(record, reward=self.reward)
        return ScoredRollout(record, {**scored.numbers, "blocked": float(bool(found))})


class BlockingScorer:
    """Applies a blocklist to what another scorer scores."""

    def __init__(self, scorer: Scorer, blocklist: Blocklist) -> None:
        self._scorer, self._blocklist = scorer, blocklist

    async def score(self, rollout: Rollout) -> ScoredRollout:
        return self._blocklist.apply(await self._scorer.score(rollout))

    async def score_all(
        self, rollouts: Sequence[Rollout], done: Done = lambda index, scored: None
    ) -> list[ScoredRollout]:
        def apply(index: int, scored: ScoredRollout) -> None:
            done(index, self._blocklist.apply(scored))

        scores = await self._scorer.score_all(rollouts, apply)
        return [self._blocklist.apply(scored) for scored in scores]

    async def aclose(self) -> None:
        await self._scorer.aclose()


HELD_OUT_SPLITS = frozenset({"val", "valid", "validation", "test", "holdout"})


def split_of(extra_info: Mapping[str, Any], step: int | None) -> Split:
    """``val`` for rows of a held-out split and before step 1, else ``train``."""
    return "val" if extra_info.get("split") in HELD_OUT_SPLITS or step == 0 else "train"


def append_record(path: Path, position: Position, record: RewardRecord) -> None:
    """Add the line of a record, with its position, the time and this process.

    Errors quote what they failed at, so they are masked; texts and scores are kept as they are.
    """
    members = {**record.to_json(), **structs.asdict(position), "t": time.time(), "pid": os.getpid()}
    jsonl.append(path, {**members, "error": mask_data(members["error"])})
