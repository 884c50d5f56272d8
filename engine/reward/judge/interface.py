"""The interface of every judge, its results and its errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from engine.run.history.reward_records import ErrorKind, ScoringError, Tokens


@dataclass(frozen=True)
class JudgeResult:
    """Scores in answer order, each in [0, 1], or the error that prevented them; never both.

    ``latency_s`` is the successful call alone; ``semaphore_wait_s`` sums the waits for a free
    slot over all ``attempts``. Both are in seconds. ``failed_attempts`` has the reason of each
    failed attempt; ``tokens`` sums the usage that replies report, None if none does.
    """

    scores: tuple[float, ...] | None
    error: ScoringError | None
    latency_s: float | None
    semaphore_wait_s: float | None
    attempts: int
    failed_attempts: tuple[ErrorKind, ...] = ()
    tokens: Tokens | None = None


@dataclass(frozen=True)
class Completion:
    """A text that the judge's model wrote, or the error that prevented it; never both.

    ``stopped``: whether the model ended the text itself, and not its token limit. ``attempts`` and
    ``tokens`` count every call that was made for it.
    """

    text: str | None
    stopped: bool
    error: ScoringError | None
    attempts: int
    tokens: Tokens | None = None


class Judge(Protocol):
    """Scores all answers to a question with one rubric. Use one judge per event loop."""

    async def evaluate_answers_batched(
        self, question: str, answers: Sequence[str], rubric: str
    ) -> JudgeResult: ...

    async def aclose(self) -> None: ...


@runtime_checkable
class Writer(Protocol):
    """A judge whose model can also be asked for a text of its own."""

    async def complete(self, messages: Sequence[Mapping[str, str]]) -> Completion: ...

    async def aclose(self) -> None: ...
