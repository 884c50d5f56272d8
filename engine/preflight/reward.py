"""Check the config's own reward function: it is loaded and scores sample rows."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError, nearest
from engine.base.parquet import pa, pq
from engine.own_reward.files import code_files, hidden_libraries
from engine.own_reward.function import KEY, PLUGIN, RewardFunction, missing_reward
from engine.own_reward.loading import Source
from engine.own_reward.processes import RewardProcesses, source_of
from engine.preflight.check import Check, Subject, fail, ok, skip, warn
from engine.recipe.executed import code_objection
from engine.recipe.places import data_files
from engine.recipe.recipe import Recipe
from engine.recipe.scoring import reward_function
from engine.reward.scorer import FunctionScorer, Rollout
from engine.reward.scoring import RolloutScore


@dataclass(frozen=True)
class Sample:
    """An answer to a row of the training file, and the row's number."""

    row: int
    rollout: Rollout


@dataclass(frozen=True)
class Trial:
    """What became of the samples that were tried, in their order. ``seconds`` is for all calls;
    ``files`` of the function's own folder were imported with it."""

    samples: tuple[Sample, ...]
    scores: tuple[RolloutScore, ...]
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
    def is_cut(self) -> bool:
        """Whether a call ran into the limit."""
        return any(score.error and score.error.kind == "reward_timeout" for score in self.scores)


def try_function(
    source: Source,
    samples: Sequence[Sample],
    call_limit_s: float,
    limit_s: float,
    env: Mapping[str, str],
) -> Trial:
    """Load the function and score ``samples``, until ``limit_s`` is over or a call is cut.

    UsageError, in one line with file and line, when it cannot be loaded.
    """
    return asyncio.run(_score_rows(source, samples, call_limit_s, limit_s, env))


async def _score_rows(
    source: Source,
    samples: Sequence[Sample],
    call_limit_s: float,
    limit_s: float,
    env: Mapping[str, str],
) -> Trial:
    deadline = time.monotonic() + limit_s
    processes = RewardProcesses(source, min(call_limit_s, limit_s), limit_s, quiet=True, env=env)
    scorer = FunctionScorer(processes.score, processes.end)
    began = time.monotonic()
    scores: list[RolloutScore] = []
    try:
        for sample in samples:
            score = (await scorer.score(sample.rollout)).score
            scores.append(score)
            cut = score.error is not None and score.error.kind == "reward_timeout"
            if cut or time.monotonic() > deadline:
                break
    finally:
        await scorer.aclose()
    return Trial(tuple(samples), tuple(scores), processes.ready.files, time.monotonic() - began)


ID = "reward"

_ROWS = 4
_LOOKED_AT = 64
_LIMIT = "grubrics.reward_check_s"
_COLUMNS = ("data_source", "reward_model", "extra_info")


def check(subject: Subject) -> Check:
    """One line about the function, which runs in a process of its own and for a limited time."""
    recipe = subject.recipe
    function = reward_function(recipe)
    if not recipe.kind.has_rollouts:
        return skip(ID, f"{recipe.kind.title} has no rewards")
    if function is None:
        return skip(ID, f"{KEY}.path is not set: the config has no reward function of its own")
    limit_s = float(recipe.get(_LIMIT))
    if not limit_s:
        return skip(ID, f"{function.label} was not run: {_LIMIT}=0")
    if function.find_file() is None:
        return fail(ID, f"{recipe.path}: {KEY}.path={function.path} {_lacking(function)}")
    if code_objection(recipe) is not None:
        return skip(ID, f"{function.label} was not run: another user could have written its code")
    answer = _tried(subject, function, limit_s)
    hidden = [path.name for path in hidden_libraries(function)]
    if not hidden:
        return answer
    libraries = "the library of that name" if len(hidden) == 1 else "the libraries of those names"
    fix = "; ".join(filter(None, (answer.fix, f"rename {', '.join(hidden)}")))
    why = f"{', '.join(hidden)} in its folder is imported in place of {libraries}"
    say = fail if answer.status == "fail" else warn
    return say(ID, f"{answer.message}; {why}", fix)


def _tried(subject: Subject, function: RewardFunction, limit_s: float) -> Check:
    recipe = subject.recipe
    call_limit_s = float(recipe.get("grubrics.reward_timeout_s"))
    samples = tuple(_samples(recipe))
    try:
        trial = try_function(source_of(function), samples, call_limit_s, limit_s, subject.env)
    except UsageError as error:
        late = "not imported within" in str(error)
        return fail(ID, str(error), f"{_LIMIT}={3 * limit_s:g}" if late else None)
    return _answer(function, trial, limit_s, call_limit_s)


def _answer(function: RewardFunction, trial: Trial, limit_s: float, call_limit_s: float) -> Check:
    if not trial.samples:
        return ok(ID, f"{function.label} loads; the training file has no rows to score")
    if trial.is_cut:
        message = trial.failures[-1][1]
        longer = f"{_LIMIT}={3 * limit_s:g}" if limit_s < call_limit_s else None
        return fail(ID, message, longer)
    message = _scored(function, trial)
    if not trial.failures and (unseen := _unseen(function, trial)):
        names = ", ".join(unseen[:4])
        why, fix = "imported by a computed name", "import it with an import statement"
        if outside := [name for name in unseen if Path(name).is_absolute()]:
            names = ", ".join(os.path.relpath(name) for name in outside[:4])
            folder = code_files(function)[0].parent
            why, fix = "imported from outside the function's folder", f"move it below {folder}/"
        kept = "the run keeps no copy of it and detects no edits"
        return warn(ID, f"{message}; {names} {why}: {kept}", fix)
    if not trial.failures:
        return ok(ID, message)
    sample, why = trial.failures[0]
    place = f"row {sample.row}, answer {sample.rollout.text[:20]!r}: {why}"
    if not trial.rewards:
        return fail(
            ID, f"{function.label} scored none of {len(trial.scores)} sample answers; {place}"
        )
    count = f"{len(trial.failures)} of {len(trial.scores)}"
    return warn(ID, f"{message}; {count} sample answers got no reward: {place}")


def _unseen(function: RewardFunction, trial: Trial) -> list[str]:
    """Files that were imported, but that no import statement names."""
    found = code_files(function)
    known = {str(path.relative_to(found[0].parent)) for path in found}
    return [name for name in trial.files if name not in known]


def _scored(function: RewardFunction, trial: Trial) -> str:
    """``gsm8k.py:compute_score scored 4 of 4 sample rows, 0.0 to 1.0, 2 ms each``."""
    failed = {sample.row for sample, _ in trial.failures}
    tried = {sample.row for sample in trial.samples[: len(trial.scores)]}
    rows = len({sample.row for sample in trial.samples})
    text = f"{function.label} scored {len(tried - failed)} of {rows} sample rows"
    if not trial.rewards:
        return text
    each = trial.seconds / len(trial.scores)
    pace = f"{each * 1000:.0f} ms" if each < 1 else f"{each:.1f} s"
    return f"{text}, {min(trial.rewards):.3g} to {max(trial.rewards):.3g}, {pace} each"


def _samples(recipe: Recipe) -> Iterator[Sample]:
    """A few rows, of different sources where there are; each with its ground truth for an answer,
    the first also with an empty one."""
    for number, row in _rows(recipe):
        truth = (row.get("reward_model") or {}).get("ground_truth")
        for answer in dict.fromkeys([str(truth), *([] if number else [""])]):
            yield Sample(number, Rollout.of_row(answer, row))


def _rows(recipe: Recipe) -> list[tuple[int, dict[str, Any]]]:
    """None while the file cannot be read: another question of the checklist says so."""
    try:
        path = data_files(recipe)[0].expanduser()
        known = [name for name in _COLUMNS if name in pq.read_schema(path).names]
        batches = pq.ParquetFile(path).iter_batches(_LOOKED_AT, columns=known)
        rows = list(enumerate(chain.from_iterable(each.to_pylist() for each in islice(batches, 1))))
    except (OSError, IndexError, pa.ArrowException):
        return []
    sources = {str(row.get("data_source")): (number, row) for number, row in reversed(rows)}
    chosen = dict([*sources.values(), *rows])
    return sorted(list(chosen.items())[:_ROWS])


def _lacking(function: RewardFunction) -> str:
    if function.path.startswith(PLUGIN):
        return missing_reward(function.path)
    path = Path(function.path)
    if path.is_dir():
        return "is a folder, not a file"
    if path.is_symlink() or path.exists():
        return "is a broken link or not a regular file"
    close = nearest(path.name, [other.name for other in path.parent.glob("*.py")])
    return "does not exist" + (f"; did you mean {path.parent / close}?" if close else "")
