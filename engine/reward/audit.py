"""Score right, wrong and hostile answers to the rows of a config's training file.

The reference for a hostile answer is the best constant answer, which is the best of the right
answers given to every question: a reward above it by three standard errors is paid for something
else than the right answer.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from engine.base.intervals import percentile
from engine.base.quantities import format_count
from engine.reward.answers import (
    AS_ASKED,
    AS_STORED,
    CONSTANTS,
    OF_ROWS,
    STYLES,
    Row,
    Write,
    writer_of,
    writer_of_task,
)
from engine.reward.own.function import RewardFunction
from engine.reward.own.processes import START_LIMIT_S, RewardProcesses, source_of
from engine.reward.scorer import FunctionScorer
from engine.tasks.registry import find_task
from engine.tasks.task import answers_of

_ERRORS_BOUND = 3.0
"""Standard errors."""
_AT_ONCE = 4
_MOST_CONSTANTS = 6
_MOST_TIMEOUTS = 2
"""Timeouts of one kind of answer, after which no more of them are tried."""
_ALL_TIMEOUTS = 8
_PACE_CALLS = 5
_STYLE_ROWS = 4
_SMALL = 1e-9
NO_TRUTH = (
    "no row has a ground truth, so no right answer can be tried and no other one compared with it"
)
_MOST_NAMED = 10
_NOTED_SHARE = 0.01
"""Of the full score, what a wrong answer may get without a note."""


@dataclass(frozen=True)
class AuditOptions:
    """At most ``hostile_rows`` of the rows get hostile answers.

    ``style`` writes a right answer (``#### {}``). An answer may take ``limit_s``. No answer is
    tried once the others took ``budget_s``, four of them at once, or the median of them is above
    ``pace_s``: both without the time in which other programs had the processor.
    """

    hostile_rows: int = 64
    style: str | None = None
    limit_s: float = 10.0
    budget_s: float = math.inf
    pace_s: float = math.inf
    start_limit_s: float = START_LIMIT_S


@dataclass(frozen=True)
class Failure:
    """An answer without a score."""

    row: int
    message: str
    is_timeout: bool


@dataclass
class Scores:
    """The scores of one kind of answer, by row: ``answer`` names it."""

    answer: str
    by_row: dict[int, float] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    @property
    def scores(self) -> list[float]:
        return list(self.by_row.values())

    @property
    def mean(self) -> float:
        """0 without any score."""
        return math.fsum(self.scores) / len(self.scores) if self.scores else 0.0

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        mean, count = self.mean, len(self.scores)
        if count < 2:
            return 0.0
        return math.sqrt(math.fsum((score - mean) ** 2 for score in self.scores) / count / count)

    @property
    def rows(self) -> str:
        """``40 rows``: how many have a score."""
        return format_count(len(self.scores), "row")

    def to_json(self) -> dict[str, Any]:
        return {
            "answer": self.answer,
            "mean": self.mean if self.scores else None,
            "error": self.error,
            "scored": len(self.scores),
            "failures": [asdict(failure) for failure in self.failures],
        }


@dataclass(frozen=True)
class Audit:
    """``right`` are right answers written in ``style``; None where no style got more than others.

    ``asked`` are those of a few rows in the form that their prompts ask for, of which ``asked_as``
    is the first, and ``asked_wrong`` other answers in this form. ``below`` are rows whose right
    answer gets less than ``full``, the highest score of the audit, as row, truth and score; rows
    ``without_truth`` have none. ``are_plain``: all ground truths are answers, not such as tests.
    ``other`` is the right answer of another row, and ``styles`` are the right answers in the styles
    that were tried. ``times`` are the seconds of each answer.
    """

    label: str
    is_task: bool
    rows: int
    style: str | None
    full: float
    right: Scores
    below: tuple[tuple[int, str, float], ...]
    other: Scores
    constants: tuple[Scores, ...]
    hostile: tuple[Scores, ...]
    styles: tuple[Scores, ...]
    asked: Scores
    asked_wrong: Scores
    asked_as: str
    are_plain: bool
    without_truth: tuple[int, ...]
    times: tuple[float, ...]
    is_complete: bool
    seconds: float

    @property
    def best_constant(self) -> Scores | None:
        """The answer that scores most when it is given to every question."""
        known = [*self.constants, *(group for group in self.hostile if group.answer in CONSTANTS)]
        return max((c for c in known if c.scores), key=lambda c: c.mean, default=None)

    @property
    def seconds_each(self) -> tuple[float, float]:
        """Median and longest time of an answer."""
        times = sorted(self.times)
        return percentile(times, 0.5) or 0.0, times[-1] if times else 0.0

    @property
    def unpaid(self) -> str | None:
        """What of a right answer the reward never pays for, in one line: it teaches nothing."""
        known = (self.right, *(group for group in self.styles if group.scores))
        best = max(group.mean for group in known)
        most = min(best - _SMALL, self.asked_wrong.mean + _SMALL)
        if self.asked.scores and self.asked_wrong.scores and self.asked.mean < most:
            return (
                f"a right answer in the form that the prompt asks for, {self.asked_as!r}, scores "
                f"{self.asked.mean:.3g}, no more than a wrong one; written "
                f"{format_style(self.style or '{}')}, it scores {best:.3g}"
            )
        groups = (self.right, self.other, *self.constants, *self.hostile, *self.styles)
        scores = {score for group in groups for score in group.scores}
        if self.is_complete and self.right.scores and self.are_plain and len(scores) == 1:
            tried = sum(len(group.scores) for group in groups)
            return f"all of {tried} answers score {scores.pop():.3g}, right and wrong ones alike"
        return None

    def problems(self) -> list[str]:
        """What is wrong, the worst first; one line each."""
        return [
            *filter(None, [self.unpaid]),
            *self._failure_problems(),
            *self._right_problems(),
            *(self._pay_problem(group) for group in self.hostile if self._pays(group)),
        ]

    def notes(self) -> list[str]:
        """What may be meant, but is to be known when rewards are read; one line each."""
        if self.rows and not (self.right.scores or self.right.failures):
            return [NO_TRUTH]
        scores = [score for group in (self.other, *self.hostile) for score in group.scores]
        lowest = min(scores, default=0.0)
        share = (self.other.mean - lowest) / (self.full - lowest) if self.full > lowest else 0.0
        notes = []
        if self.without_truth:
            rows = ", ".join(map(str, self.without_truth[:_MOST_NAMED]))
            notes.append(
                f"{len(self.without_truth)} of {self.rows} rows have no ground truth, which no "
                f"answer can match (row {rows})"
            )
        if self.style is None or share < _NOTED_SHARE:
            return notes
        return [
            *notes,
            f"a wrong answer of the right form, that of another row, scores {self.other.mean:.3g}: "
            f"{share:.0%} of the range from {lowest:.3g} to {self.full:.3g}",
        ]

    def to_json(self) -> dict[str, Any]:
        best, (middle, longest) = self.best_constant, self.seconds_each
        below = [{"row": row, "truth": truth, "score": score} for row, truth, score in self.below]
        return {
            "reward": self.label,
            "rows": self.rows,
            "style": self.style,
            "full": self.full,
            "right": self.right.to_json(),
            "below": below,
            "asked": {**self.asked.to_json(), "form": self.asked_as},
            "without_truth": list(self.without_truth),
            "other": self.other.to_json(),
            "best_constant": best.to_json() if best else None,
            "hostile": [group.to_json() for group in self.hostile],
            "seconds": {"median": middle, "longest": longest, "all": self.seconds},
            "is_complete": self.is_complete,
            "problems": self.problems(),
            "notes": self.notes(),
        }

    def _failure_problems(self) -> Iterator[str]:
        for group in (self.right, self.other, *self.constants, *self.hostile, *self.styles):
            if group.failures:
                first, count = group.failures[0], len(group.failures)
                total = count + len(group.scores)
                yield (
                    f"{group.answer}: no score for {count} of {total}; "
                    f"row {first.row}: {first.message}"
                )

    def _right_problems(self) -> Iterator[str]:
        if not self.right.scores:
            return
        if self.style is None and self.unpaid is None:
            yield (
                f"the right answer scores {self.right.mean:.3g}, no more than that of another row "
                f"({self.other.mean:.3g})"
            )
        elif self.below:
            row, truth, score = self.below[0]
            yield (
                f"{len(self.below)} of {len(self.right.scores)} right answers score less than "
                f"{self.full:.3g}; row {row}, {truth[:40]!r}: {score:.3g}"
            )

    def _pays(self, group: Scores) -> bool:
        reference = self._reference
        if not reference.scores:
            return False
        spread = math.hypot(reference.error, group.error)
        return group.mean > reference.mean + _ERRORS_BOUND * spread + _SMALL

    @property
    def _reference(self) -> Scores:
        """The right answer that scores most when it is given to every question."""
        return max(self.constants, key=lambda c: c.mean, default=self.other)

    def _pay_problem(self, group: Scores) -> str:
        """Both means with their numbers of rows: another sample of the file has other means."""
        best = self._reference
        name = f"{best.answer} given to every question" if self.constants else best.answer
        return (
            f"{group.answer} scores {group.mean:.3g} (mean of {group.rows}), more than {name}: "
            f"{best.mean:.3g} ({best.rows})"
        )


def format_style(style: str) -> str:
    """How an answer is written, for a line of text."""
    if style in (AS_ASKED, AS_STORED):
        return style
    return "alone" if style == "{}" else f"as {' '.join(style.split()).replace('{}', 'ANSWER')}"


async def run_audit(
    function: RewardFunction,
    rows: Sequence[Row],
    options: AuditOptions,
    env: Mapping[str, str] | None = None,
) -> Audit:
    """Audit the function on ``rows``. UsageError when it cannot be loaded.

    It runs in processes of its own, also when it hangs: an answer without a score is a failure.
    """
    times: list[float] = []
    processes = RewardProcesses(
        source_of(function),
        options.limit_s,
        options.start_limit_s,
        quiet=True,
        env=env,
        note_time=times.append,
    )
    trial = _Trial(FunctionScorer(processes.score, processes.end), options, times)
    try:
        return await trial.audit(function, rows)
    finally:
        await trial.scorer.aclose()


class _Trial:
    """Scores groups of answers until the time is over."""

    def __init__(self, scorer: FunctionScorer, options: AuditOptions, times: list[float]) -> None:
        """``times`` gets the seconds of every answer that ends in time."""
        self.scorer = scorer
        self._options = options
        self._start = time.monotonic()
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._is_complete = True
        self._times = times
        self._timeouts = 0

    async def audit(self, function: RewardFunction, rows: Sequence[Row]) -> Audit:
        known = [row for row in rows if row.truth]
        few = _spread(rows, self._options.hostile_rows)
        few_known = _spread(known, _STYLE_ROWS)
        style, write, styles = await self._find_style(function, few_known)
        asking = [row for row in few_known if row.asked is not None and function.task is None]
        as_asked = writer_of(AS_ASKED)
        asked = await self._score(
            "the right answer in the form that the prompt asks for",
            asking,
            [as_asked(row.truth, row) for row in asking],
        )
        wrong = ["zzz" if row.other == row.truth else row.other for row in asking]
        asked_wrong = await self._score(
            "a wrong answer in the form that the prompt asks for",
            asking,
            list(map(as_asked, wrong, asking)),
        )
        rights = [write(row.truth, row) for row in known]
        right = await self._score("the right answer", known, rights)
        differing = [row for row in known if row.other != row.truth]
        others = [write(row.other, row) for row in differing]
        other = await self._score("the right answer of another row", differing, others)
        constants = [
            await self._score(f"{truth[:40]!r}", known, [write(truth, row) for row in known])
            for truth, _ in Counter(row.truth for row in known).most_common(_MOST_CONSTANTS)
        ]
        hostile = [
            await self._score(name, few, [text] * len(few)) for name, text in CONSTANTS.items()
        ]
        hostile += [
            await self._score(name, few, [make(row, write) for row in few])
            for name, make in OF_ROWS.items()
        ]
        groups = (right, other, *constants, *hostile)
        full = max((score for group in groups for score in group.scores), default=0.0)
        bound = _ERRORS_BOUND * math.hypot(right.error, other.error)
        is_better = not other.scores or right.mean > other.mean + bound
        truths = {row.number: row.truth for row in known}
        below = [
            (number, truths[number], score)
            for number, score in right.by_row.items()
            if score < full - _SMALL
        ]
        return Audit(
            label=function.label,
            is_task=function.task is not None,
            rows=len(rows),
            style=style if is_better else None,
            full=full,
            right=right,
            below=tuple(below),
            other=other,
            constants=tuple(constants),
            hostile=tuple(hostile),
            styles=styles,
            asked=asked,
            asked_wrong=asked_wrong,
            asked_as=next((as_asked(row.truth, row) for row in asking), ""),
            are_plain=all(answers_of(row.text) for row in known),
            without_truth=tuple(row.number for row in rows if not row.truth),
            times=tuple(self._times),
            is_complete=self._is_complete,
            seconds=time.monotonic() - self._start,
        )

    async def _find_style(
        self, function: RewardFunction, rows: Sequence[Row]
    ) -> tuple[str, Write, tuple[Scores, ...]]:
        """How right answers are written: as the task does, as an option says, or as scores most,
        where the form that the prompts ask for comes first.

        Also returns the scores of the other styles.
        """
        if function.task is not None:
            return f"task {function.task}", writer_of_task(find_task(function.task)), ()
        if self._options.style is not None:
            return self._options.style, writer_of(self._options.style), ()
        asked = [AS_ASKED] if any(row.asked for row in rows) else []
        stored = [AS_STORED] if any(row.truth != row.text for row in rows) else []
        tried = {}
        for form in (*asked, *STYLES, *stored):
            write, name = writer_of(form), f"the right answer {format_style(form)}"
            rights = [write(row.truth, row) for row in rows]
            tried[form] = await self._score(name, rows, rights)
        best = max(tried, key=lambda form: tried[form].mean if tried[form].scores else -math.inf)
        others = tuple(scores for style, scores in tried.items() if style != best)
        return best, writer_of(best), others

    async def _score(self, name: str, rows: Sequence[Row], answers: Sequence[str]) -> Scores:
        """The scores of one kind of answer, of which each row has one."""
        group = Scores(name)
        await asyncio.gather(*(self._one(group, *pair) for pair in zip(rows, answers, strict=True)))
        return group

    async def _one(self, group: Scores, row: Row, text: str) -> None:
        """Add the score to the group, unless the time is over or answers of this kind hang."""
        async with self._slots:
            if self._is_over():
                self._is_complete = False
                return
            if sum(failure.is_timeout for failure in group.failures) >= _MOST_TIMEOUTS:
                return
            record = (await self.scorer.score(row.rollout(text))).record
        if record.reward is not None:
            group.by_row[row.number] = float(record.reward)
        if record.error is not None:
            is_timeout = record.error.kind == "reward_timeout"
            self._timeouts += is_timeout
            self._times += [self._options.limit_s] * is_timeout
            group.failures.append(Failure(row.number, record.error.message, is_timeout))

    def _is_over(self) -> bool:
        is_slow = len(self._times) >= _PACE_CALLS and median(self._times) > self._options.pace_s
        is_late = math.fsum(self._times) > self._options.budget_s * _AT_ONCE
        return is_late or is_slow or self._timeouts >= _ALL_TIMEOUTS


def _spread(rows: Sequence[Row], count: int) -> Sequence[Row]:
    """At most ``count`` of the rows, at equal distances."""
    step = max(1, math.ceil(len(rows) / max(1, count)))
    return rows[::step]
