"""The files of an evaluation: setup.json, and per target target.json, answers.jsonl, scores.jsonl.

Answers and scores are appended one line at a time and never rewritten. A process that was killed
leaves everything it finished; starting again adds what is missing. The lines also tell what they
took of the judge.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from msgspec import Struct

from engine.base import files, jsonl, locks, typed
from engine.base.errors import UsageError
from engine.base.typed import Integer, Number
from engine.measure.setup import Setup
from engine.measure.targets import Target

LOSS = "loss"

Key = tuple[str, int]
"""The uid of an item and the number of the sample."""


class AnswerRow(Struct, frozen=True):
    """A generated answer, or the reason why there is none."""

    uid: str
    sample: Integer
    item_sha256: str = ""
    prompt_sha256: str = ""
    answer: str | None = None
    tokens: Integer = 0
    stopped: bool = False
    """Whether the model ended the answer itself; False where the token limit did."""
    error: str | None = None
    calls: Integer = 0
    """Calls of an API that were made for it; ``tokens`` and ``prompt_tokens`` are theirs."""
    prompt_tokens: Integer = 0
    loss: Number | None = None
    """Of a conversation that has a loss instead of an answer: the mean over its ``tokens``."""
    backend: str | None = None
    """What generated it; None where no model did."""

    @property
    def key(self) -> Key:
        return self.uid, self.sample


class ScoreRow(Struct, frozen=True):
    """The score of an answer. ``reward`` is None where it could not be scored: ``error`` says why.

    ``parts`` are the numbers beside it, such as the terms of the rubric reward; None for a NaN.
    """

    uid: str
    sample: Integer
    reward: Number | None = None
    parts: Mapping[str, Number | None] = {}
    error: str | None = None
    calls: Integer = 0
    """Calls of the judge that it took; ``prompt_tokens`` and ``tokens`` are theirs."""
    prompt_tokens: Integer = 0
    tokens: Integer = 0

    @property
    def key(self) -> Key:
        return self.uid, self.sample

    @property
    def is_scored(self) -> bool:
        return self.reward is not None or LOSS in self.parts


@dataclass(frozen=True)
class TargetDir:
    """The folder of one target in an evaluation."""

    path: Path

    @property
    def answers(self) -> Path:
        return self.path / "answers.jsonl"

    @property
    def scores(self) -> Path:
        return self.path / "scores.jsonl"

    def read_answers(self) -> dict[Key, AnswerRow]:
        """The answers by item and sample; the last line wins, because failed calls are repeated."""
        return {row.key: row for row in typed.read_lines(self.answers, AnswerRow)}

    def read_scores(self) -> dict[Key, ScoreRow]:
        """The scores by item and sample; the last line wins, because errors are tried again. One
        with neither a score nor an error may be damaged, and replaces none.

        A loss needs no scoring: it is a score as soon as it is an answer.
        """
        scores = dict[Key, ScoreRow]()
        for row in typed.read_lines(self.scores, ScoreRow):
            if row.is_scored or row.error is not None:
                scores[row.key] = row
            else:
                scores.setdefault(row.key, row)
        for key, answer in self.read_answers().items():
            if answer.loss is not None:
                scores[key] = ScoreRow(*key, None, {LOSS: answer.loss})
        return scores


@dataclass(frozen=True)
class EvaluationDir:
    """The folder of an evaluation."""

    path: Path

    def open(self, setup: Setup) -> None:
        """Create the folder. UsageError if it belongs to another setup."""
        known = jsonl.read_json(self.path / "setup.json")
        wanted = jsonl.finite(asdict(setup))
        if known is None:
            files.make_folder(self.path.parent)
            files.make_folder(self.path)
            jsonl.write_json(self.path / "setup.json", wanted)
        elif {**known, "data": setup.data} != wanted:
            raise UsageError(f"{self.path}: holds another evaluation; delete or rename it")

    def add(self, target: Target) -> TargetDir:
        """The folder of a target, created where it is missing or its description is damaged."""
        folder = self.find(target)
        if read_target(folder.path / "target.json") is None:
            files.make_folder(folder.path)
            jsonl.write_json(folder.path / "target.json", typed.to_json(target))
        return folder

    def find(self, target: Target) -> TargetDir:
        """The folder of a target, whether it exists or not. The same weights under another name
        share a folder: they are evaluated once."""
        if target.form == "evaluation":
            return TargetDir(Path(target.source))
        known = sorted(self.path.glob(f"*-{target.sha256[:8]}"))
        return TargetDir(known[0] if known else self.path / target.slug)


def read_target(file: Path) -> Target | None:
    """The target that a ``target.json`` describes; None for a file that does not."""
    return typed.read_record(file, Target)


def evaluations_of(run_id: str, root: Path) -> list[Path]:
    """The evaluations below ``root`` of which a target is the run or a checkpoint of it."""
    targets = ((file.parent.parent, read_target(file)) for file in root.glob("*/*/target.json"))
    return sorted({folder for folder, target in targets if target and target.is_of(run_id)})


@contextmanager
def locked(folder: Path) -> Iterator[int]:
    """One process at a time adds to an evaluation; yields the descriptor that holds the lock."""
    descriptor = files.open_lock(folder / "lock")
    try:
        try:
            locks.take(descriptor, folder / "lock")
        except BlockingIOError as error:
            raise UsageError(f"{folder}: another process is adding to this evaluation") from error
        yield descriptor
    finally:
        os.close(descriptor)


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
    rows = [*typed.read_lines(folder.answers, AnswerRow)]
    return _sum(rows, sum(row.answer is not None for row in rows), prices)


def find_grading(folders: Iterable[TargetDir], prices: Mapping[str, Any]) -> JudgeUse:
    """What the scores of all targets took, with those that were tried again."""
    rows = [row for folder in folders for row in typed.read_lines(folder.scores, ScoreRow)]
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
