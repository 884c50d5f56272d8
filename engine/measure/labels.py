"""Validate a judge: answers with labels, and how often the judge decides as the labels do.

A labels file is JSONL. Each line has ``question``, ``answer``, ``rubric`` and ``label``. The rubric
is text with a line ``Points: N, Item: TEXT`` per criterion, or a list of objects with ``points``
and ``criterion``, as HealthBench has them; points may be negative and have any sum. The label says
whether the answer satisfies the rubric: true, false, 1 or 0, or a list of such votes, of which more
than half must be true. Other keys are ignored.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from engine.base import files, jsonl
from engine.base.errors import UsageError, nearest
from engine.base.intervals import Estimate, estimate_kappa, estimate_rate
from engine.base.typed import Integer, Line, Number, read_lines, to_json
from engine.measure.folder import locked
from engine.measure.items import digest
from engine.reward.judge.interface import Judge
from engine.reward.judge.settings import JudgeSettings, make_judge
from engine.reward.judge.wire import SYSTEM
from engine.tasks.rubrics import RubricItem, format_rubric, parse_rubric

PASS = 0.5
"""The lowest score that counts as a pass."""

_KEYS = ("question", "answer", "rubric", "label")
_VERDICTS = "verdicts.jsonl"
_IDENTITY = {"provider", "model", "base_url", "temperature", "max_tokens"}


@dataclass(frozen=True)
class LabeledAnswer:
    """An answer that people have judged. ``sha256`` identifies what the judge is asked."""

    question: str
    answer: str
    rubric: str
    label: bool

    @property
    def sha256(self) -> str:
        return digest([self.question, self.answer, self.rubric])


class Verdict(Struct, frozen=True):
    """What the judge said about an answer: a score from 0 to 1, or why there is none."""

    sha256: Line
    score: Number | None
    error: Line | None
    calls: Integer = 0


@dataclass(frozen=True)
class Agreement:
    """How often the judge decides as the labels do, over the answers with a score.

    ``table`` counts by label and decision. ``calls`` are all that were made for these answers.
    """

    table: Mapping[tuple[bool, bool], int]
    accuracy: Estimate | None
    kappa: Estimate | None
    unscored: int
    why_unscored: str | None
    calls: int


def read_labels(path: Path) -> list[LabeledAnswer]:
    """The answers of a labels file. UsageError names line and key of the first bad row."""
    if not path.is_file():
        raise UsageError(f"--labels {path}: no such file")
    seen: dict[str, int] = {}
    rows = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        row = _parse(f"{path}:{number}", jsonl.parse_line(line))
        if (before := seen.setdefault(row.sha256, number)) != number:
            raise UsageError(
                f"{path}:{number}: repeats question, answer and rubric of line {before}"
            )
        rows.append(row)
    if not rows:
        raise UsageError(f"--labels {path}: has no rows")
    return rows


def labels_folder(root: Path, path: Path, settings: JudgeSettings) -> Path:
    """Where the verdicts of this judge on this file are kept, below ``root``.

    Corrected labels and new rows keep the folder: verdicts belong to what the judge was asked.
    """
    identity = digest([settings.model_dump(include=_IDENTITY), SYSTEM])
    return root / f"judge-{path.stem}-{identity[:8]}"


def judge_labels(
    rows: Sequence[LabeledAnswer],
    folder: Path,
    settings: JudgeSettings,
    env: Mapping[str, str],
    report: Callable[[int], None] = lambda _: None,
) -> Agreement:
    """Ask the judge about every answer without a verdict, one call each; compare with the labels.

    Every verdict is a line of ``folder`` as soon as it is there; a failed call is repeated by the
    next test. ``report`` gets the number of verdicts so far. UsageError without credentials.
    """
    if _missing(rows, folder):  # Nothing is written otherwise.
        judge = make_judge(settings, None, env)
        files.make_folder(folder.parent)
        files.make_folder(folder)
        with locked(folder):
            missing = _missing(rows, folder)
            asyncio.run(_ask(judge, missing, folder, len(rows) - len(missing), report))
    return _agreement(rows, folder)


def _missing(rows: Sequence[LabeledAnswer], folder: Path) -> list[LabeledAnswer]:
    verdicts = _read_verdicts(folder)
    scored = {sha256 for sha256, verdict in verdicts.items() if verdict.score is not None}
    return [row for row in rows if row.sha256 not in scored]


async def _ask(
    judge: Judge,
    rows: Sequence[LabeledAnswer],
    folder: Path,
    done: int,
    report: Callable[[int], None],
) -> None:
    numbers = iter(range(done + 1, done + len(rows) + 1))

    async def ask(row: LabeledAnswer) -> None:
        result = await judge.evaluate_answers_batched(row.question, [row.answer], row.rubric)
        score = None if result.scores is None else result.scores[0]
        error = None if result.error is None else f"{result.error.kind}: {result.error.message}"
        verdict = Verdict(row.sha256, score, error, result.attempts)
        jsonl.append(folder / _VERDICTS, to_json(verdict))
        report(next(numbers))

    try:
        await asyncio.gather(*map(ask, rows))
    finally:
        await judge.aclose()


def _read_verdicts(folder: Path) -> dict[str, Verdict]:
    """The last verdict on each answer, with the calls of all."""
    verdicts: dict[str, Verdict] = {}
    for verdict in read_lines(folder / _VERDICTS, Verdict):
        before = verdicts[verdict.sha256].calls if verdict.sha256 in verdicts else 0
        verdicts[verdict.sha256] = replace(verdict, calls=before + verdict.calls)
    return verdicts


def _agreement(rows: Sequence[LabeledAnswer], folder: Path) -> Agreement:
    verdicts = _read_verdicts(folder)
    asked = [(row.label, verdicts[row.sha256]) for row in rows if row.sha256 in verdicts]
    scored = [
        (label, verdict.score >= PASS) for label, verdict in asked if verdict.score is not None
    ]
    labels, decisions = [label for label, _ in scored], [decision for _, decision in scored]
    agreed = sum(label == decision for label, decision in scored)
    errors = Counter(verdict.error for _, verdict in asked if verdict.score is None)
    return Agreement(
        table=Counter(scored),
        accuracy=estimate_rate(agreed, len(scored)) if scored else None,
        kappa=estimate_kappa(labels, decisions) if scored else None,
        unscored=len(rows) - len(scored),
        why_unscored=next((error for error, _ in errors.most_common()), None),
        calls=sum(verdict.calls for _, verdict in asked),
    )


def _parse(where: str, record: dict[str, Any] | None) -> LabeledAnswer:
    if record is None:
        raise UsageError(f"{where}: not a JSON object")
    for key in _KEYS:
        if key not in record:
            close = nearest(key, [name for name in record if name not in _KEYS])
            hint = f"; rename '{close}' to '{key}'" if close else ""
            raise UsageError(f"{where}: '{key}' is missing{hint}")
    for key in ("question", "answer"):
        if not isinstance(record[key], str) or not record[key].strip():
            raise UsageError(f"{where}: '{key}' is not a text")
    rubric, label = _rubric(where, record["rubric"]), _label(where, record["label"])
    return LabeledAnswer(record["question"], record["answer"], rubric, label)


def _rubric(where: str, value: Any) -> str:
    """The rubric as the judge gets it. One without positive points scores every answer 0."""
    text = value if isinstance(value, str) else format_rubric(_rubric_items(where, value))
    items = parse_rubric(text)
    if not items:
        raise UsageError(f"{where}: 'rubric' has no line 'Points: N, Item: TEXT'")
    if not any(item.points > 0 for item in items):
        raise UsageError(f"{where}: 'rubric' has no positive points, so every answer would score 0")
    return text


def _rubric_items(where: str, value: Any) -> list[RubricItem]:
    problem = f"{where}: 'rubric' is neither text nor a list of objects with points and criterion"
    if not isinstance(value, list):
        raise UsageError(problem)
    items = []
    for entry in value:
        fields = entry if isinstance(entry, dict) else {}
        points, criterion = jsonl.number(fields.get("points")), fields.get("criterion")
        if points is None or not isinstance(criterion, str) or not criterion.strip():
            raise UsageError(problem)
        items.append(RubricItem(points, " ".join(criterion.split())))
    return items


def _label(where: str, value: Any) -> bool:
    votes = value if isinstance(value, list) else [value]
    if not votes or not all(isinstance(vote, int) and vote in (0, 1) for vote in votes):
        raise UsageError(f"{where}: 'label' is neither true, false, 1 or 0 nor a list of these")
    return 2 * sum(votes) > len(votes)
