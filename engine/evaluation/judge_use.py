"""What an evaluation's answers took of the judge: calls, tokens and money."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.base import jsonl
from engine.evaluation.folder import AnswerRow, ScoreRow, TargetDir


@dataclass(frozen=True)
class JudgeUse:
    """Calls for ``answers`` answers, failed calls included. ``tokens_*``: None where the server
    does not report them; ``usd``: None where it is not known."""

    answers: int
    calls: int
    tokens_in: int | None
    tokens_out: int | None
    usd: float | None
    without_call: int = 0
    """Answers with a score that took no call: an empty rubric is not sent to the judge."""


def find_writing(folder: TargetDir, prices: Mapping[str, Any]) -> JudgeUse:
    """What the answers of the baseline ``judge`` took, with those that were asked for again.

    ``prices``: the ``judge`` section of the config.
    """
    rows = [row for line in jsonl.read(folder.answers) if (row := AnswerRow.from_json(line))]
    return _sum(rows, sum(row.answer is not None for row in rows), prices)


def find_grading(folders: Iterable[TargetDir], prices: Mapping[str, Any]) -> JudgeUse:
    """What the scores of all targets took, with those that were tried again."""
    lines = (line for folder in folders for line in jsonl.read(folder.scores))
    rows = [row for line in lines if (row := ScoreRow.from_json(line))]
    scored = [row for row in rows if row.is_scored]
    use = _sum(rows, len(scored), prices)
    return replace(use, without_call=sum(not row.calls for row in scored) if use.calls else 0)


def _sum(
    rows: Sequence[AnswerRow] | Sequence[ScoreRow], answers: int, prices: Mapping[str, Any]
) -> JudgeUse:
    calls = sum(row.calls for row in rows)
    sent, received = sum(row.prompt_tokens for row in rows), sum(row.tokens for row in rows)
    if not sent:
        return JudgeUse(answers, calls, None, None, None)
    price_in, price_out = (prices.get(f"usd_per_million_{way}") for way in ("in", "out"))
    if price_in is None or price_out is None:
        return JudgeUse(answers, calls, sent, received, None)
    usd = (sent * float(price_in) + received * float(price_out)) / 1e6
    return JudgeUse(answers, calls, sent, received, usd)
