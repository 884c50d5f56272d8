"""A judge that is out of service for half a minute costs waits, and no score.

No attempt waits in real time: the server is back as soon as the waits of a call reach the length of
the outage.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.base import jsonl
from engine.data.adapters import Example
from engine.data.precompute import PrecomputePlan, PrecomputeReport, precompute
from engine.reward.formula import RewardSettings
from engine.reward.judge.api import ApiJudge, Backoff, make_openai_judge
from engine.reward.judge.settings import JudgeSettings
from engine.reward.judge.slots import LocalSlots
from engine.reward.scoring import RewardItem, score_rollout
from engine.run.history.reward_records import ErrorKind, RewardRecord
from tests.engine.reward.judge.server import JudgeServer, Reply
from tests.loopback import serving

OUTAGE_S = 30.0
ROWS = 6
ANSWERS = ("5 mg", "some")
RUBRIC = "Points: 10, Item: Names the dose"


@dataclass(frozen=True)
class PassingTime(Backoff):
    """The waits of a run without their jitter; they pass at once."""

    jitter: float = 0.0
    after_outage: Callable[[], None] = lambda: None

    def wait_s(self, attempt: int, kind: ErrorKind, retry_after_s: float | None) -> float:
        passed = sum(Backoff.wait_s(self, n, kind, None) for n in range(1, attempt + 1))
        if passed >= OUTAGE_S:
            self.after_outage()
        return 0.0


class ClosedServer(JudgeServer):
    """Has a port that refuses connections until ``listen``."""

    is_open = False

    def server_activate(self) -> None:
        """Not yet."""

    def listen(self) -> None:
        self.is_open = True
        super().server_activate()


@contextmanager
def out_of_service(kind: ErrorKind) -> Iterator[tuple[JudgeServer, Callable[[], None]]]:
    """A server that answers 503, or refuses connections; and what ends the outage."""
    with ExitStack() as stack:
        if kind == "server":
            failing = stack.enter_context(serving(JudgeServer([], Reply(503, body={"error": {}}))))
            yield failing, lambda: setattr(failing, "every", Reply())
            return
        closed = ClosedServer([], Reply())

        def resume() -> None:
            if not closed.is_open:
                closed.listen()
                stack.enter_context(serving(closed))

        yield closed, resume


def judge_of(server: JudgeServer, resume: Callable[[], None]) -> ApiJudge:
    settings = JudgeSettings(provider="openai", base_url=f"{server.url}/v1")
    backoff = PassingTime(after_outage=resume)
    return make_openai_judge(settings, LocalSlots(2), {"OPENAI_API_KEY": "k"}, backoff)


OUTAGES: list[ErrorKind] = ["connection", "server"]


@pytest.mark.parametrize("kind", OUTAGES)
def test_every_rollout_has_its_reward_after_an_outage(kind: ErrorKind) -> None:
    item = RewardItem("q", "Which dose?", ANSWERS, (1.0, 0.0))

    async def score(judge: ApiJudge) -> list[RewardRecord]:
        rows = [score_rollout(RUBRIC, item, judge, RewardSettings()) for _ in range(ROWS)]
        scores = await asyncio.gather(*rows)
        await judge.aclose()
        return scores

    with out_of_service(kind) as (server, resume):
        scores = asyncio.run(score(judge_of(server, resume)))
    assert [score.judge_scores for score in scores] == [(0.9, 0.1)] * ROWS
    failed = [score.failed_attempts or () for score in scores]
    assert max(failed) == (kind,) * 3
    assert [score.attempts for score in scores] == [len(each) + 1 for each in failed]


@pytest.mark.parametrize("kind", OUTAGES)
def test_every_question_has_its_gold_scores_after_an_outage(
    kind: ErrorKind, tmp_path: Path
) -> None:
    cache = tmp_path / "cache.jsonl"
    rows = [
        Example(f"{n}", f"{n}?", "", golden_rubric=RUBRIC, answers=ANSWERS) for n in range(ROWS)
    ]

    async def fill(judge: ApiJudge) -> PrecomputeReport:
        report = await precompute(rows, judge, cache, PrecomputePlan(num_evals=1))
        await judge.aclose()
        return report

    with out_of_service(kind) as (server, resume):
        report = asyncio.run(fill(judge_of(server, resume)))
    assert (report.written, report.failed) == (ROWS, {})
    assert [record["gold_scores"] for record in jsonl.read(cache)] == [[0.9, 0.1]] * ROWS


@pytest.mark.parametrize("kind", ["connection", "server", "timeout", "rate_limit"])
def test_the_waits_of_the_default_attempts_outlast_the_outage(kind: ErrorKind) -> None:
    backoff = Backoff(jitter=0)
    waits = [backoff.wait_s(n, kind, None) for n in range(1, JudgeSettings().max_attempts)]
    assert sum(waits) > OUTAGE_S
