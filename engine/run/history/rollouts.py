"""Rollouts of a run: verl's dump of each step joined with our reward records.

A row of the dump and a record belong together when group and rollout are the same: the group is
the sample's part of the dump's ``uid``, so joins never cross groups. A step holds numbers, the
records, and the lines of the dump; texts that the dump has stay in the file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from msgspec import structs

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.base.follow import Cancelled
from engine.base.typed import to_json
from engine.run.conversation import FIELD, Conversation
from engine.run.history.group_scores import Estimator, is_flat, sample_std
from engine.run.history.reward_records import (
    Key,
    RewardRecord,
    RewardRecords,
    ScoringError,
    Split,
)
from engine.run.history.rollout_dump import (
    DumpRow,
    Dumps,
    LineRange,
    output_of,
    read_outputs,
    read_rows,
    read_rows_of,
)
from engine.run.kinds import find_kind
from engine.run.manifest import values_of
from engine.run.run import Run

STEPS_BACK = 4
"""Asynchronous training uses rollouts that were recorded up to this many steps before."""
_NO_RECORD = RewardRecord()


@dataclass(frozen=True)
class Rollout:
    """One sampled response. ``score`` is the one verl trained on, or else the recorded one.

    ``score`` is None for a failed rollout. ``advantage`` is None where verl computes none:
    the rollout failed, was left out of the step (``trained`` is False), or the estimator is not
    GRPO.
    """

    number: int
    score: float | None
    length: int
    trained: bool
    advantage: float | None = None
    parts: Mapping[str, float] | None = None
    lines: tuple[LineRange, ...] = ()
    """Those of its outputs in the dump."""
    record: RewardRecord = _NO_RECORD

    @property
    def failed(self) -> bool:
        return self.score is None

    @property
    def judge(self) -> tuple[float | None, ...]:
        return self.record.judge_scores or ()

    @property
    def gold(self) -> tuple[float | None, ...]:
        return self.record.gold_scores

    @property
    def error(self) -> ScoringError | None:
        return self.record.error

    @property
    def conversation(self) -> Conversation | None:
        """Turns and calls; None without tools."""
        return self.record.conversation

    def text(self) -> str:
        """Read the response from the dump; the outputs of several turns follow each other."""
        if not self.lines:
            return self.record.text
        return "\n\n".join(output_of(line.read()) for line in self.lines)

    def ground_truth(self) -> str:
        """Read the reference answer of the row from the dump; empty where there is none."""
        row = self.lines[-1].read() if self.lines else {"gts": self.record.ground_truth}
        truth = row.get("gts", row.get("ground_truth"))
        return "" if truth is None else str(truth)

    def to_json(self, *, best: bool) -> dict[str, object]:
        """Return all values with the texts; ``best``: whether it wins its group."""
        return {
            "rollout": self.number, "score": self.score, "advantage": self.advantage,
            "best": best, "length": self.length, "trained": self.trained,
            "parts": dict(self.parts) if self.parts else None,
            "judge_scores": list(self.judge), "gold_scores": list(self.gold),
            "error": structs.asdict(self.error) if self.error else None, "text": self.text(),
            "ground_truth": self.ground_truth() or None, 
            **({FIELD: to_json(turns)} if (turns := self.conversation) is not None else {}),
        }  # fmt: skip


@dataclass(frozen=True)
class Group:
    """The rollouts of one prompt in one step. ``line`` is None while no dump has the prompt."""

    id: str
    rollouts: tuple[Rollout, ...]
    question_id: str = ""
    digest: str = ""
    line: LineRange | None = None

    def prompt(self) -> str:
        """Read the prompt from the files; empty where they do not have it."""
        prompt = self.line.read().get("input") if self.line else None
        return prompt if isinstance(prompt, str) else ""

    @cached_property
    def compared(self) -> tuple[Rollout, ...]:
        """The rollouts whose scores make the group's mean: those of the step, if it has any."""
        scored = [rollout for rollout in self.rollouts if rollout.score is not None]
        return tuple([rollout for rollout in scored if rollout.trained] or scored)

    @cached_property
    def scores(self) -> tuple[float, ...]:
        return tuple(rollout.score for rollout in self.compared if rollout.score is not None)

    @property
    def mean(self) -> float | None:
        return sum(self.scores) / len(self.scores) if self.scores else None

    @property
    def std(self) -> float | None:
        """The sample deviation that the advantage divides by."""
        return sample_std(self.scores) if self.scores else None

    @property
    def is_flat(self) -> bool:
        """Whether all rollouts have the same score: no advantage, no learning signal."""
        return is_flat(self.scores)

    @cached_property
    def best(self) -> Rollout | None:
        """The first with the highest score."""
        return max(self.compared, key=lambda rollout: rollout.score or 0.0, default=None)

    def wins(self, rollout: Rollout) -> bool:
        """Whether no rollout of the group scored higher, and some scored less."""
        best = self.best
        if best is None or best.score is None or rollout.score is None or self.is_flat:
            return False
        return len(self.scores) > 1 and rollout.score >= best.score

    def to_json(self, number: int, rollouts: Sequence[Rollout]) -> dict[str, object]:
        """Return the group, which is the ``number``-th of its step, with some of its rollouts."""
        return {
            "number": number, "id": self.id, "question_id": self.question_id,
            "mean": self.mean, "sample_std": self.std, "flat": self.is_flat,
            "prompt": self.prompt(),
            "answers": [rollout.to_json(best=self.wins(rollout)) for rollout in rollouts],
        }  # fmt: skip


@dataclass(frozen=True)
class StepRollouts:
    """A step's groups in the order of the dump; not ``dumped`` while verl has not written it."""

    split: Split
    step: int
    attempt: int
    dumped: bool
    groups: tuple[Group, ...]
    formula: str = ""
    """What the advantages are."""


@dataclass(frozen=True)
class Visit:
    """One step in which a prompt was trained: its group and its scores."""

    step: int
    group: str
    scores: tuple[float, ...]

    @property
    def mean(self) -> float | None:
        return sum(self.scores) / len(self.scores) if self.scores else None

    @property
    def best(self) -> float | None:
        return max(self.scores, default=None)

    def to_json(self) -> dict[str, object]:
        return {**vars(self), "mean": self.mean, "best": self.best}


@dataclass(frozen=True)
class _Source:
    """The files of one attempt."""

    attempt: int
    dumps: Mapping[Split, Dumps]
    records: RewardRecords


class RolloutStore:
    """The rollouts of a run directory, or of a folder that verl or TRL wrote them to.

    Of a step that several attempts made, the latest dump counts. May be used from any thread.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        config = values_of(Run(path).read_config())
        self.estimator = Estimator.of(config)
        self.weights = _weights(config)
        self._sources: tuple[_Source, ...] = ()
        self._lock = threading.Lock()

    def steps(self, split: Split, cancelled: Cancelled = bool) -> tuple[int, ...]:
        """Return the steps that have rollouts so far, ascending."""
        with self._lock:
            self._poll(cancelled)
            steps: set[int] = set()
            for source in self._sources:
                steps |= source.dumps[split].steps() | source.records.steps(split)
            return tuple(sorted(steps))

    def load(self, split: Split, step: int, cancelled: Cancelled = bool) -> StepRollouts:
        """Return a step's rollouts without their texts; no groups for an unknown step."""
        with self._lock:
            self._poll(cancelled)
            source, dump = self._source_of(split, step)
            if source is None:
                return StepRollouts(split, step, 0, False, ())
            rows = list(read_rows(dump, cancelled)) if dump else []
            records = _records_of(source.records, split, step, rows)
        groups, formula = _groups(rows, records), self.estimator.formula
        if any(row.advantage is not None for row in rows):
            formula = "as the trainer logged it"
        elif split == "train" and dump is not None:
            groups = [_with_advantages(group, self.estimator) for group in groups]
        return StepRollouts(split, step, source.attempt, dump is not None, tuple(groups), formula)

    def texts(self, split: Split, step: int, cancelled: Cancelled = bool) -> Iterator[str]:
        """Yield the texts of a step of every attempt as of the last ``steps``, dumped or recorded.

        Fifteen times as fast as loading the step and its texts.
        """
        for source in self._sources:
            if (dump := source.dumps[split].at(step)) is not None:
                yield from read_outputs(dump, cancelled)
            with self._lock:
                recorded = [*source.records.texts(split, step)]
            yield from recorded

    def visits(
        self, prompt: str, split: Split, cancelled: Cancelled = bool
    ) -> Iterator[tuple[int, list[Visit]]]:
        """Yield each step with the visits of this prompt in it, which may be none."""
        for step in self.steps(split):
            if cancelled():
                return
            with self._lock:
                _, dump = self._source_of(split, step)
            rows = read_rows_of(dump, prompt, cancelled) if dump else ()
            scores: dict[str, dict[int, float | None]] = {}
            for row in rows:
                scores.setdefault(row.group, {})[row.rollout] = row.score
            yield (
                step,
                [
                    Visit(step, group, tuple(s for s in by_number.values() if s is not None))
                    for group, by_number in scores.items()
                ],
            )

    def _poll(self, cancelled: Cancelled) -> None:
        before = {source.records.path: source for source in self._sources}
        self._sources = tuple(
            before.get(source.records.path, source) for source in _sources(self.path)
        )
        for source in self._sources:
            source.records.poll(cancelled)

    def _source_of(self, split: Split, step: int) -> tuple[_Source | None, Path | None]:
        """Return the attempt that a step is taken from, and its dump."""
        for source in reversed(self._sources):
            if (dump := source.dumps[split].at(step)) is not None:
                return source, dump
        for source in reversed(self._sources):
            if step in source.records.steps(split):
                return source, None
        return None, None


def _sources(path: Path) -> list[_Source]:
    run = Run(path)
    if attempts := run.attempts():
        outside = _outside(run)
        return [
            _Source(
                attempt.number,
                {"train": outside or Dumps(attempt.rollouts), "val": Dumps(attempt.validation)},
                RewardRecords(attempt.reward),
            )
            for attempt in attempts
        ]
    inside = (path / name for name in ("rollouts", "completions"))
    folder = next((folder for folder in inside if folder.is_dir()), path)
    dumps: dict[Split, Dumps] = {"train": Dumps(folder), "val": Dumps(path / "validation")}
    return [_Source(1, dumps, RewardRecords(path / "reward.jsonl"))]


def _outside(run: Run) -> Dumps | None:
    """Where TRL writes the rollouts of a command: beside its metrics, or in its output folder."""
    if not run.is_command:
        return None
    manifest = run.read_manifest()
    argv = [word for each in manifest.argv for word in each.split("=", 1)]
    named = [after for word, after in pairwise(argv) if word in ("--output_dir", "--output-dir")]
    cwd, metrics = manifest.working_folder, manifest.metrics
    outputs = [cwd / name for name in named]
    if metrics:
        outputs += [cwd / metrics, *(cwd / metrics).parents[:2]]
    since = 0.0 if manifest.adopted is not None else manifest.created or 0.0
    folders = (folder / "completions" for folder in outputs)
    return next((Dumps(folder, since) for folder in folders if folder.is_dir()), None)


def _records_of(
    index: RewardRecords, split: Split, step: int, rows: list[DumpRow]
) -> dict[Key, RewardRecord]:
    """Return the records of a step, with those of rows generated a few steps earlier."""
    records = index.at(split, step)
    dumped = {row.group for row in rows}
    if rows:
        # Groups that the dump does not have belong to another step, or lost all their rollouts.
        lost = {key[0] for key, record in records.items() if record.reward is None}
        records = {key: record for key, record in records.items() if key[0] in dumped | lost}
    for earlier in range(step - 1, max(-1, step - 1 - STEPS_BACK), -1):
        missing = dumped - {group for group, _ in records}
        if not missing:
            break
        before = index.at(split, earlier)
        records |= {key: record for key, record in before.items() if key[0] in missing}
    return records


def _groups(rows: list[DumpRow], records: Mapping[Key, RewardRecord]) -> list[Group]:
    dumped_rows: dict[str, dict[int, list[DumpRow]]] = {}
    for row in rows:
        dumped_rows.setdefault(row.group, {}).setdefault(row.rollout, []).append(row)
    recorded: dict[str, list[RewardRecord]] = {}
    for record in records.values():
        recorded.setdefault(record.key[0], []).append(record)
    return [
        _group(name, dumped_rows.get(name, {}), recorded.get(name, []))
        for name in dict.fromkeys([*dumped_rows, *recorded])
    ]


def _group(name: str, rows: Mapping[int, list[DumpRow]], records: list[RewardRecord]) -> Group:
    by_number = {record.key[1]: record for record in records}
    rollouts = [_dumped(outputs, by_number.pop(number, None)) for number, outputs in rows.items()]
    rollouts += [_not_dumped(record, index) for index, record in enumerate(by_number.values())]
    first = next((outputs[0] for outputs in rows.values()), None)
    questions = (jsonl.line(record.question_id) for record in records)
    return Group(
        name,
        tuple(sorted(rollouts, key=lambda rollout: rollout.number)),
        next(filter(None, questions), ""),
        first.prompt if first else "",
        first.line if first else None,
    )


def _dumped(rows: list[DumpRow], record: RewardRecord | None) -> Rollout:
    """Return a dumped rollout. verl scores, and takes the advantage of, its last output."""
    outputs = sorted(rows, key=lambda row: row.output)
    last = outputs[-1]
    rollout = Rollout(
        last.rollout,
        last.score,
        sum(row.length for row in outputs),
        trained=True,
        advantage=last.advantage,
        parts=last.parts,
        lines=tuple(row.line for row in outputs),
    )
    if record is None:
        return rollout
    # The dump has the texts: thousands of rollouts would hold them twice.
    scores = structs.replace(record, rubric=None, answer=None, ground_truth=None)
    return replace(rollout, parts=_parts(record) or rollout.parts, record=scores)


def _not_dumped(record: RewardRecord, index: int) -> Rollout:
    """Return a rollout that only our record has.

    It has no reward, is the only one of its group, or its step is not complete.
    """
    number = record.key[1]
    return Rollout(
        index if number is None else number,
        record.reward,
        record.length,
        trained=False,
        parts=_parts(record) or None,
        record=record,
    )


def _parts(record: RewardRecord) -> dict[str, float]:
    """The reward components, and the numbers of turns and calls that are not 0."""
    turns = record.conversation
    counts = {} if turns is None else turns.numbers()
    return {**record.numbers, **{name: value for name, value in counts.items() if value}}


def _with_advantages(group: Group, estimator: Estimator) -> Group:
    scores = {
        rollout.number: rollout.score
        for rollout in group.rollouts
        if rollout.trained and rollout.score is not None
    }
    advantages = estimator.advantages(list(scores.values()))
    if advantages is None:
        return group
    by_number = dict(zip(scores, advantages, strict=True))
    rollouts = (
        replace(rollout, advantage=by_number.get(rollout.number)) if rollout.trained else rollout
        for rollout in group.rollouts
    )
    return replace(group, rollouts=tuple(rollouts))


def _weights(config: Mapping[str, object]) -> dict[str, float] | None:
    """What each term counts in the reward; None where the run does not say it."""
    named = {
        "length_penalty": config.get("reward_config.lambda_len"),
        "info_value": config.get("reward_config.lambda_info"),
        "defense_penalty": config.get("reward_config.lambda_defense"),
    }
    values = {key: float(value) for key, value in named.items() if isinstance(value, int | float)}
    if len(values) < len(named):
        return None
    signs = {"length_penalty": -1.0, "info_value": 1.0, "defense_penalty": -1.0}
    return {"alignment": 1.0, **{key: signs[key] * value for key, value in values.items()}}


def require_step(steps: tuple[int, ...], step: int | None, path: Path) -> int:
    """``step`` when it has rollouts, the newest one for None; UsageError otherwise."""
    kind = None if steps else find_kind(Run(path).read_manifest().kind)
    if kind is not None and not kind.has_rollouts:
        raise UsageError(f"{path}: no rollouts: {kind.title} generates none")
    if not steps:
        raise UsageError(
            f"{path}: no rollouts (no rollouts/<step>.jsonl, reward.jsonl or completions/*.parquet)"
        )
    if step is None:
        return steps[-1]
    if step not in steps:
        nearest = min(steps, key=lambda other: abs(other - step))
        raise UsageError(f"{path}: step {step} has no rollouts; the nearest is {nearest}")
    return step


class StepSearch:
    """Tests the texts of steps; each step is read once."""

    def __init__(self, store: RolloutStore, split: Split, test: Callable[[str], bool]) -> None:
        """``test`` returns whether a response, as it is in the files, may be a hit."""
        self._store, self._split, self._test = store, split, test
        self._passed: dict[int, bool] = {}

    def may_match(self, step: int, cancelled: Cancelled = bool) -> bool:
        """Whether a rollout of the step may be a hit: it may have been recorded some steps
        before."""
        earlier = range(step - STEPS_BACK, step + 1)
        for each in earlier:
            if each not in self._passed:
                texts = self._store.texts(self._split, each, cancelled)
                self._passed[each] = any(map(self._test, texts))
            if self._passed[each]:
                return True
        return False
