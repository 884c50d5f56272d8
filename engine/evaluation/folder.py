"""The files of an evaluation: setup.json, and per target target.json, answers.jsonl, scores.jsonl.

Answers and scores are appended one line at a time and never rewritten. A process that was killed
leaves everything it finished; starting again adds what is missing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.base import files, jsonl, locks
from engine.base.errors import UsageError
from engine.evaluation.setup import Setup
from engine.evaluation.targets import FORMS, Target

LOSS = "loss"

Key = tuple[str, int]
"""The uid of an item and the number of the sample."""


@dataclass(frozen=True)
class AnswerRow:
    """A generated answer, or the reason why there is none."""

    uid: str
    sample: int
    item_sha256: str
    prompt_sha256: str
    answer: str | None
    tokens: int
    stopped: bool
    """Whether the model ended the answer itself; False where the token limit did."""
    error: str | None = None
    calls: int = 0
    """Calls of an API that were made for it; ``tokens`` and ``prompt_tokens`` are theirs."""
    prompt_tokens: int = 0
    loss: float | None = None
    """Of a conversation that has a loss instead of an answer: the mean over its ``tokens``."""
    backend: str | None = None
    """What generated it; None where no model did."""

    @classmethod
    def from_json(cls, line: dict[str, Any]) -> AnswerRow | None:
        """The row of a line; None for a line that is none."""
        uid, sample = jsonl.line(line.get("uid")), jsonl.integer(line.get("sample"))
        answer = line.get("answer")
        if uid is None or sample is None or not isinstance(answer, str | None):
            return None
        digests = str(line.get("item_sha256") or ""), str(line.get("prompt_sha256") or "")
        calls, prompt_tokens, tokens = _counts(line)
        stopped, error = line.get("stopped") is True, _text(line.get("error"))
        loss = jsonl.number(line.get("loss"))
        counts, backend = (calls, prompt_tokens), jsonl.line(line.get("backend"))
        return cls(uid, sample, *digests, answer, tokens, stopped, error, *counts, loss, backend)

    @property
    def key(self) -> Key:
        return self.uid, self.sample


@dataclass(frozen=True)
class ScoreRow:
    """The score of an answer. ``reward`` is None where it could not be scored: ``error`` says why.

    ``parts`` are the numbers beside it, such as the terms of the rubric reward.
    """

    uid: str
    sample: int
    reward: float | None
    parts: dict[str, float]
    error: str | None = None
    calls: int = 0
    """Calls of the judge that it took; ``prompt_tokens`` and ``tokens`` are theirs."""
    prompt_tokens: int = 0
    tokens: int = 0

    @classmethod
    def from_json(cls, line: dict[str, Any]) -> ScoreRow | None:
        """The row of a line; None for a line that is none."""
        uid, sample = jsonl.line(line.get("uid")), jsonl.integer(line.get("sample"))
        if uid is None or sample is None:
            return None
        parts = line.get("parts") if isinstance(line.get("parts"), dict) else {}
        numbers = {str(name): jsonl.number(value) for name, value in (parts or {}).items()}
        known = {name: value for name, value in numbers.items() if value is not None}
        reward, error = jsonl.number(line.get("reward")), _text(line.get("error"))
        return cls(uid, sample, reward, known, error, *_counts(line))

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
        return {
            row.key: row for line in jsonl.read(self.answers) if (row := AnswerRow.from_json(line))
        }

    def read_scores(self) -> dict[Key, ScoreRow]:
        """The scores by item and sample; the last line wins, because errors are tried again.

        A loss needs no scoring: it is a score as soon as it is an answer.
        """
        scores = {
            row.key: row for line in jsonl.read(self.scores) if (row := ScoreRow.from_json(line))
        }
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
            jsonl.write_json(folder.path / "target.json", asdict(target))
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
    raw = jsonl.read_json(file) or {}
    fields = [jsonl.line(raw.get(name)) for name in ("name", "form", "source", "sha256")]
    name, form, source, sha256 = fields
    if name is None or form not in FORMS or source is None or sha256 is None:
        return None
    return Target(name, form, source, sha256)


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


def _counts(line: dict[str, Any]) -> tuple[int, int, int]:
    """Calls of an API, their input tokens and their output tokens."""
    calls, prompt_tokens, tokens = (
        jsonl.integer(line.get(name)) or 0 for name in ("calls", "prompt_tokens", "tokens")
    )
    return calls, prompt_tokens, tokens


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
