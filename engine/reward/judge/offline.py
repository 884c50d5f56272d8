"""The offline judge: deterministic, for wiring, tests and the tiny demo."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence

from engine.reward.judge.interface import JudgeResult
from engine.reward.judge.settings import JudgeSettings
from engine.reward.judge.slots import LocalSlots, Slots
from engine.tasks.rubrics import RubricItem, parse_rubric

# Words that say how an item is phrased, not what it asks for.
_FRAMING = frozenset(
    """a about advises advising an and answer any are as ask asking asks at be by checks
    describes encourages explains explaining for from gives giving has have how in into is
    it its limits lists mentions names of on or out person recommends response says should
    states suggests that the their them this to user warns when which with what who""".split()  # noqa: SIM905
)
_FULL_SHARE = 0.8
_HALF_SHARE = 0.5


class OfflineKeywordJudge:
    """Count the rubric items that an answer satisfies by the words they share.

    Not a model of quality: an item is met when the answer contains its content words. Items of
    negative points lower the score when met. The same input always gives the same scores.
    """

    def __init__(self, slots: Slots | None = None) -> None:
        self._slots = slots or LocalSlots(1)

    async def evaluate_answers_batched(
        self, question: str, answers: Sequence[str], rubric: str
    ) -> JudgeResult:
        """Wait for a slot like every judge, so that limits can be tried without a server."""
        queued = time.perf_counter()
        async with self._slots.held():
            started = time.perf_counter()
            items = parse_rubric(rubric)
            scores = tuple(answer_score(answer, items) for answer in answers)
            done = time.perf_counter()
        return JudgeResult(scores, None, done - started, started - queued, 1)

    async def aclose(self) -> None:
        return None


def make_offline_judge(
    settings: JudgeSettings, slots: Slots, env: Mapping[str, str]
) -> OfflineKeywordJudge:
    """The offline judge; it reads neither settings nor environment."""
    return OfflineKeywordJudge(slots)


def answer_score(answer: str, items: Sequence[RubricItem]) -> float:
    """Points earned over positive points available, clipped to [0, 1]; 0 without any."""
    available = sum(item.points for item in items if item.points > 0)
    if available <= 0:
        return 0.0
    words = content_words(answer)
    earned = sum(item.points * satisfaction(item.criterion, words) for item in items)
    return min(1.0, max(0.0, earned / available))


def satisfaction(criterion: str, words: frozenset[str]) -> float:
    """0, 0.5 or 1 by the share of the criterion's content words that are in ``words``."""
    wanted = content_words(criterion)
    if not wanted:
        return 0.0
    share = len(wanted & words) / len(wanted)
    return 1.0 if share >= _FULL_SHARE else 0.5 if share >= _HALF_SHARE else 0.0


def content_words(text: str) -> frozenset[str]:
    """Lower-case words that carry content, with plural and verb endings removed."""
    words = re.findall(r"[^\W\d_]+", text.lower())
    return frozenset(_stem(word) for word in words if word not in _FRAMING)


def _stem(word: str) -> str:
    for ending in ("ing", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word.removesuffix(ending)
    return word
