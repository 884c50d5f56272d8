"""Load the config's own reward function and let it score sample rows."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError, nearest
from engine.base.parquet import pa, pq
from engine.checks.check import Check, Subject, fail, ok, skip, warn
from engine.config.load import Config
from engine.config.places import data_files
from engine.config.scoring import reward_function
from engine.reward.own.files import code_files, hidden_libraries
from engine.reward.own.function import KEY, RewardFunction, is_by_name, missing_reward
from engine.reward.own.loading import Source
from engine.reward.own.processes import RewardProcesses, source_of
from engine.reward.scorer import FunctionScorer, Rollout
from engine.run.history.reward_records import RewardRecord
from engine.tasks.registry import tasks

ID = "reward"
_MAX_ROWS = 4
_READ_ROWS = 64
_LIMIT = "grubrics.reward_check_s"
_COLUMNS = ("data_source", "reward_model", "extra_info")


@dataclass(frozen=True)
class Sample:
    """An answer to a row of the training file, and the number of the row."""

    row: int
    rollout: Rollout


@dataclass(frozen=True)
class Trial:
    """The scores of the samples that were tried, in their order.

    ``files`` of the function's own folder were imported with it. ``seconds`` is for all calls.
    """

    samples: tuple[Sample, ...]
    scores: tuple[RewardRecord, ...]
    files: tuple[str, ...]
    seconds: float

    @property
    def rewards(self) -> list[float]:
        return [score.reward for score in self.scores if score.reward is not None]

    @property
    def failures(self) -> list[tuple[Sample, str]]:
        """The samples without a score, and why."""
        pairs = zip(self.samples, self.scores, strict=False)
        return [(sample, score.error.message) for sample, score in pairs if score.error]

    @property
    def is_timed_out(self) -> bool:
        return any(score.error and score.error.kind == "reward_timeout" for score in self.scores)


async def _score_samples(
    source: Source,
    samples: Sequence[Sample],
    call_limit_s: float,
    limit_s: float,
    env: Mapping[str, str],
) -> Trial:
    """Load the function and score ``samples``, until ``limit_s`` is over or a call times out.

    Raises UsageError, in one line with file and line, if the function cannot be loaded.
    """
    processes = RewardProcesses(source, min(call_limit_s, limit_s), limit_s, quiet=True, env=env)
    scorer = FunctionScorer(processes.score, processes.end)
    start = time.monotonic()
    scores: list[RewardRecord] = []
    try:
        for sample in samples:
            score = (await scorer.score(sample.rollout)).record
            scores.append(score)
            is_timed_out = score.error is not None and score.error.kind == "reward_timeout"
            if is_timed_out or time.monotonic() > start + limit_s:
                break
    finally:
        await scorer.aclose()
    return Trial(tuple(samples), tuple(scores), processes.ready.files, time.monotonic() - start)


def check(subject: Subject) -> Check:
    """Check the function, which runs in a process of its own and for a limited time."""
    config = subject.config
    function = reward_function(config)
    if not config.kind.has_rollouts:
        return skip(ID, f"{config.kind.title} has no rewards")
    if function is None:
        return skip(ID, f"{KEY}.path is not set: the config has no reward function of its own")
    limit_s = float(config.get(_LIMIT))
    if not limit_s:
        return skip(ID, f"{function.label} was not run: {_LIMIT}=0")
    if function.find_file() is None:
        return fail(ID, f"{config.path}: {KEY}.path={function.path} {_missing_file(function)}")
    if subject.objection is not None:
        return skip(ID, f"{function.label} was not run: another user could have written its code")
    check = _try_function(subject, function, limit_s)
    hidden = [path.name for path in hidden_libraries(function)]
    if not hidden:
        return check
    libraries = "the library of that name" if len(hidden) == 1 else "the libraries of those names"
    fix = "; ".join(filter(None, (check.fix, f"rename {', '.join(hidden)}")))
    problem = f"{', '.join(hidden)} in its folder is imported in place of {libraries}"
    status = fail if check.status == "fail" else warn
    return status(ID, f"{check.message}; {problem}", fix)


def _try_function(subject: Subject, function: RewardFunction, limit_s: float) -> Check:
    config = subject.config
    call_limit_s = float(config.get("grubrics.reward_timeout_s"))
    # A row's ground truth is its answer; the first row also gets an empty answer.
    samples = []
    for number, row in _read_rows(config):
        truth = str((row.get("reward_model") or {}).get("ground_truth"))
        for answer in dict.fromkeys([truth] if number else [truth, ""]):
            samples.append(Sample(number, Rollout.of_row(answer, row)))
    longer = f"{_LIMIT}={3 * limit_s:g}"
    try:
        trial = asyncio.run(
            _score_samples(source_of(function), samples, call_limit_s, limit_s, subject.env)
        )
    except UsageError as error:
        return fail(ID, str(error), longer if "not imported within" in str(error) else None)
    if not samples:
        return ok(ID, f"{function.label} loads; the training file has no row to try it on")
    if trial.is_timed_out:
        return fail(ID, trial.failures[-1][1], longer if limit_s < call_limit_s else None)
    message = _format_trial(function, trial)
    task = None if function.task is None else tasks()[function.task]
    if task is not None and (where := task.format_machine()):
        message = f"{message}; {where}"
    if not trial.failures:
        # What the scorer of a task cannot do here for the samples.
        extras = [sample.rollout.extra_info for sample in samples]
        limits = [] if task is None else [task.find_limit(extra) for extra in extras]
        limit = next(filter(None, limits), None)
        return warn(ID, f"{message}; {limit}") if limit else _check_copies(function, trial, message)
    sample, error_message = trial.failures[0]
    example = f"row {sample.row}, answer {sample.rollout.text[:20]!r}: {error_message}"
    if not trial.rewards:
        scored = f"{function.label} scored none of {len(trial.scores)} sample answers"
        return fail(ID, f"{scored}; {example}")
    count = f"{len(trial.failures)} of {len(trial.scores)}"
    return warn(ID, f"{message}; {count} sample answers got no reward: {example}")


def _check_copies(function: RewardFunction, trial: Trial, message: str) -> Check:
    """Check that the run copies every imported file: the files that import statements name."""
    files = code_files(function)
    folder = files[0].parent
    copied = {str(path.relative_to(folder)) for path in files}
    missing = [name for name in trial.files if name not in copied]
    if not missing:
        return ok(ID, message)
    names = ", ".join(missing[:4])
    reason, fix = "imported by a computed name", "import it with an import statement"
    if outside := [name for name in missing if Path(name).is_absolute()]:
        names = ", ".join(os.path.relpath(name) for name in outside[:4])
        reason = "imported from outside the function's folder"
        fix = f"move it below {folder}/"
    effect = "the run keeps no copy of it and detects no edits"
    return warn(ID, f"{message}; {names} {reason}: {effect}", fix)


def _format_trial(function: RewardFunction, trial: Trial) -> str:
    """``gsm8k.py:compute_score scored 4 of 4 sample rows, 0.0 to 1.0, 2 ms each``."""
    failed = {sample.row for sample, _ in trial.failures}
    tried = {sample.row for sample in trial.samples[: len(trial.scores)]}
    rows = len({sample.row for sample in trial.samples})
    text = f"{function.label} scored {len(tried - failed)} of {rows} sample rows"
    if not trial.rewards:
        return text
    each_s = trial.seconds / len(trial.scores)
    pace = f"{each_s * 1000:.0f} ms" if each_s < 1 else f"{each_s:.1f} s"
    return f"{text}, {min(trial.rewards):.3g} to {max(trial.rewards):.3g}, {pace} each"


def _read_rows(config: Config) -> list[tuple[int, dict[str, Any]]]:
    """Read a few rows, of different sources if there are several.

    None are read from a file that cannot be: the check ``parquet`` reports it.
    """
    try:
        path = data_files(config)[0]
        columns = [name for name in _COLUMNS if name in pq.read_schema(path).names]
        batches = pq.ParquetFile(path).iter_batches(_READ_ROWS, columns=columns)
        rows = [*enumerate(row for batch in islice(batches, 1) for row in batch.to_pylist())]
    except (OSError, IndexError, pa.ArrowException):
        return []
    by_source = {str(row.get("data_source")): (number, row) for number, row in reversed(rows)}
    chosen = dict([*by_source.values(), *rows])
    return sorted(list(chosen.items())[:_MAX_ROWS])


def _missing_file(function: RewardFunction) -> str:
    if is_by_name(function.path):
        return missing_reward(function.path)
    path = Path(function.path)
    if path.is_dir():
        return "is a folder, not a file"
    if path.is_symlink() or path.exists():
        return "is a broken link or not a regular file"
    close = nearest(path.name, [other.name for other in path.parent.glob("*.py")])
    return "does not exist" + (f"; did you mean {path.parent / close}?" if close else "")
