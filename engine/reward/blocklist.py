"""Texts that a response must not contain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.reward.scorer import Done, Rollout, ScoredRollout, Scorer

BLOCKED = "blocked"
"""The field of a record that lists the texts found in its response."""


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
        score, record = scored.score, dict(scored.record)
        record[BLOCKED] = found = self.find(score.rubric if generated is None else generated)
        if found and self.reward is not None and score.reward is not None:
            score = replace(score, reward=self.reward)
            record["reward"] = self.reward
        numbers = {**scored.numbers, BLOCKED: float(bool(found))}
        return ScoredRollout(score, numbers, record)


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
