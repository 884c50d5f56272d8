"""One line per step: verl's metrics joined with what our reward recorded, one history per run."""

from __future__ import annotations

import json
import math
import time
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from statistics import median

import msgspec
from msgspec import Struct

from engine.base import files, jsonl
from engine.base.follow import Tail
from engine.base.holes import lines_backwards
from engine.base.intervals import estimate_clustered_mean, percentile
from engine.base.typed import Integer, Moment, Number, decode_record, read_lines
from engine.run.conversation import OUTCOMES
from engine.run.history import metrics
from engine.run.history.reward_records import ErrorKind, RewardRecord
from engine.run.run import Attempt

Metrics = dict[str, Number | None]

_RECENT = 20
"""Steps that tell how long the next ones will take."""


class StepLine(Struct, frozen=True, gc=False):
    """A line of ``train_log.jsonl`` as it is: ``metrics`` may hold what is no number."""

    step: Integer
    metrics: dict[str, object]
    attempt: Integer = 1
    t: Moment | None = None
    redone: bool = False


@dataclass(frozen=True)
class Step:
    """One line of ``train_log.jsonl``. A metric is None when it was NaN or infinite.

    ``redone`` marks a step that an earlier attempt had logged: the later line counts.
    """

    step: int
    attempt: int
    time: float
    metrics: Mapping[str, float | None]
    redone: bool = False

    def to_json(self) -> dict[str, object]:
        mark = {"redone": True} if self.redone else {}
        return {
            "v": 1,
            "step": self.step,
            "attempt": self.attempt,
            "t": self.time or None,  # 0: not known
            **mark,
            "metrics": dict(self.metrics),
        }

    @staticmethod
    def parse(line: bytes) -> Step | None:
        """The step in a line, or None. Values that are no numbers are left out."""
        parsed = decode_record(line, StepLine)
        return None if parsed is None else _step(parsed)


class RewardJoiner:
    """Joins verl's numbers of a step with those of its rollouts, as ``reward.jsonl`` grows.

    The reward workers append before verl logs the step, so once a step has numbers its rollout
    records are there too. Memory is bounded: records are dropped when their step is joined.
    """

    def __init__(self, reward: Path) -> None:
        self._reward = Tail(reward)
        self.progress = 0
        """Rollouts recorded so far, with a reward or without one."""
        self._train: dict[int | None, list[RewardRecord]] = defaultdict(list)
        self._validation: dict[int | None, list[RewardRecord]] = defaultdict(list)

    def collect(self) -> None:
        """Read what was recorded since the last call. OSError when that is not known."""
        for line in self._reward.lines():
            record = decode_record(line, RewardRecord)
            if record is None:
                continue
            self.progress += 1
            if record.split is not None:
                records = self._validation if record.split == "val" else self._train
                records[record.step].append(record)
        if self._reward.trouble is not None:
            raise self._reward.trouble

    def join(self, step: int, data: Mapping[str, object]) -> Metrics:
        """All metrics of a step, under canonical names. Each step can be joined once."""
        values = verl_metrics(data)
        values.update(reward_metrics(_take(self._train, step)))
        values.update(validation_metrics(_take(self._validation, step)))
        _add_gpu_phase(values)
        return values


class _Logged(Struct, frozen=True, gc=False):
    """A line of verl's ``metrics.jsonl``."""

    step: Integer
    data: dict[str, object]


class StepJoiner:
    """The steps of an attempt, as its ``metrics.jsonl`` and ``reward.jsonl`` grow."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._metrics = Tail(attempt.metrics)
        self._rewards = RewardJoiner(attempt.reward)
        self._unjoined: deque[_Logged] = deque()
        self._last = _Logged(-1, {})
        self.is_behind = False
        self.is_of_attempt = True
        self.total_steps: int | None = None

    def skip_existing(self) -> None:
        """Nothing: no earlier run writes into the files of an attempt."""

    @property
    def progress(self) -> int:
        """Rollouts recorded so far, with a reward or without one."""
        return self._rewards.progress

    def new_steps(self, until: float = math.inf) -> Iterator[Step]:
        """The steps logged since the last call. OSError when a file cannot be read: then no step is
        lost, and none comes without its rewards."""
        # The metrics first: a record that arrives in between then belongs to a later step.
        logged = (decode_record(line, _Logged) for line in self._metrics.lines())
        self._unjoined.extend(line for line in logged if line is not None)
        self._rewards.collect()
        while self._unjoined:
            if (step := self._join(self._unjoined.popleft())) is not None:
                yield step
        if self._metrics.trouble is not None:
            raise self._metrics.trouble

    def _join(self, line: _Logged) -> Step | None:
        if line.step < self._last.step or line == self._last:
            return None  # An earlier line again: the file was rewritten.
        self._last = line
        values = self._rewards.join(line.step, line.data)
        return Step(line.step, self._attempt.number, time.time(), values)


def verl_metrics(data: Mapping[str, object]) -> Metrics:
    """verl's numbers under canonical names; verl writes NaN and infinities as null."""
    return {metrics.canonical(name): value for name, value in numbers(data).items()}


def numbers(data: Mapping[str, object]) -> Metrics:
    """The numbers and nulls of ``data``; a NaN or infinity is None, any other value is dropped."""
    try:
        values = msgspec.convert(data, Metrics)
    except msgspec.ValidationError:
        values = {
            name: jsonl.number(value)
            for name, value in data.items()
            if value is None or (isinstance(value, int | float) and not isinstance(value, bool))
        }
    if "".join(values).isprintable():  # a line has a hundred names
        return values
    return {jsonl.line(name) or "": value for name, value in values.items()}


def read_steps(train_log: Path) -> Iterator[Step]:
    """The steps of a ``train_log.jsonl``, in the order they were written."""
    return map(_step, read_lines(train_log, StepLine))


def last_validation(train_log: Path) -> float | None:
    """The reward of the newest validation that has one."""
    rewards = (step.metrics.get(metrics.VALIDATION_REWARD) for step in read_steps(train_log))
    return next(reversed([reward for reward in rewards if reward is not None]), None)


def newest_value(train_log: Path, metric: str) -> float | None:
    """The value at the last step that has ``metric``; None for a NaN and where no step has it.

    Reads from the end of the file. Only a log that a resumed run appended to is read completely:
    its last lines need not be the last steps.
    """
    needle, has_step = json.dumps(metric, ensure_ascii=False).encode(), False
    for line in _lines_backwards(train_log):
        if has_step and needle not in line:
            continue
        if (step := Step.parse(line)) is None:
            continue
        if step.attempt > 1:
            steps = reversed(history(read_steps(train_log)))
            return next((step.metrics[metric] for step in steps if metric in step.metrics), None)
        if metric in step.metrics:
            return step.metrics[metric]
        has_step = True
    return None


def newest_names(train_log: Path) -> tuple[str, ...]:
    """The metrics of the last line that is a step."""
    last = newest_step(train_log)
    return () if last is None else tuple(last.metrics)


def newest_step(train_log: Path) -> Step | None:
    """The last line that is a step, read from the end of the file."""
    steps = (step for line in _lines_backwards(train_log) if (step := Step.parse(line)) is not None)
    return next(steps, None)


def recent_step_time(train_log: Path) -> float | None:
    """The seconds of one of the last steps: their median as measured, else the average between
    their lines. None for a log of a single step without a time.

    Reads only the last lines, so it is cheap for a log of any length.
    """
    found = map(Step.parse, islice(_lines_backwards(train_log), _RECENT))
    steps = [step for step in found if step is not None]
    measured = [step.metrics.get(metrics.STEP_TIME) for step in steps]
    if known := [value for value in measured if value is not None]:
        return median(known)
    of_attempt = [step for step in steps if step.attempt == steps[0].attempt]
    # Steps that were read at once have one time, that of the last of them.
    first = next((step for step in of_attempt if step.time == of_attempt[-1].time), None)
    count = of_attempt[0].step - first.step if first else 0
    took = of_attempt[0].time - first.time if first else 0.0
    return took / count if count > 0 and took > 0 else None


def _step(line: StepLine) -> Step:
    return Step(line.step, line.attempt, line.t or 0.0, numbers(line.metrics), line.redone)


def _lines_backwards(path: Path) -> Iterator[bytes]:
    """The lines of a file, last one first; none of a file that cannot be read."""
    try:
        handle = files.open_regular(path)
    except OSError:
        return
    with handle:
        yield from lines_backwards(handle.fileno())


def history(steps: Iterable[Step]) -> list[Step]:
    """One entry per step, in order: of a repeated step, the latest. An attempt that begins from the
    first step replaces all before it.

    Lines of one attempt about the same step are one entry: verl's SFT trainer logs the validation
    of a step on a separate line. A NaN of one does not replace the number of another.
    """
    latest: dict[int, Step] = {}
    attempt = 0
    for step in steps:
        if step.attempt > attempt and latest and step.step <= max(1, min(latest)):
            latest.clear()
        attempt = max(attempt, step.attempt)
        before = latest.get(step.step)
        if before is not None and before.attempt == step.attempt:
            added = {
                name: value
                for name, value in step.metrics.items()
                if value is not None or name not in before.metrics
            }
            step = replace(step, metrics={**before.metrics, **added})
        latest[step.step] = step
    return [latest[number] for number in sorted(latest)]


def _take(records: dict[int | None, list[RewardRecord]], step: int) -> list[RewardRecord]:
    """The records of a step, and those that name no step; records of older steps are dropped."""
    for old in [key for key in records if key is not None and key < step]:
        del records[old]
    return records.pop(step, []) + records.pop(None, [])


def _add_gpu_phase(values: Metrics) -> None:
    """Seconds of the step that neither waited for rewards nor saved: generation, training, sync.

    Rewards that are computed while other rollouts are generated keep nothing waiting.
    """
    step, reward = values.get(metrics.STEP_TIME), values.get(metrics.REWARD_WAIT)
    if step is None or reward is None:
        return
    save = values.get("timing_s/save_checkpoint") or 0.0
    values[metrics.GPU_PHASE] = max(0.0, step - reward - save)


_ZERO_STD = 1e-9
_AT_ONCE_S = 0.01
"""A reward that starts so soon after the end of another one waited for it."""


def reward_metrics(records: Sequence[RewardRecord]) -> dict[str, float | None]:
    """Canonical reward and judge metrics of one step's rollouts (``reward.jsonl`` records).

    ``reward/std`` is the population std inside a group, averaged over groups: the spread that
    becomes the GRPO advantage. Failed samples (reward null) count only in ``reward/failed_share``.
    """
    if not records:
        return {}
    rewards = _known(record.reward for record in records)
    stds = [_std(group) for group in _groups(records) if len(group) > 1]
    return {
        **_own_metrics(records),
        metrics.REWARD_MEAN: _mean(rewards),
        metrics.REWARD_STD: _mean(stds),
        metrics.REWARD_MIN: min(rewards, default=None),
        metrics.REWARD_MAX: max(rewards, default=None),
        metrics.ZERO_STD_SHARE: _mean([float(std < _ZERO_STD) for std in stds]),
        metrics.FAILED_SHARE: 1 - len(rewards) / len(records),
        metrics.REWARD_DURATION: _wall(records),
        metrics.REWARD_WAIT: _wait(records),
        **_judge_metrics([record for record in records if not record.is_own]),
        **_blocked_share(records),
        **_tool_metrics(records),
    }


def _blocked_share(records: Sequence[RewardRecord]) -> dict[str, float | None]:
    """Empty if the run has no blocklist."""
    found = [float(bool(record.blocked)) for record in records if record.blocked is not None]
    return {metrics.BLOCKED_SHARE: _mean(found)} if found else {}


def _tool_metrics(records: Sequence[RewardRecord]) -> dict[str, float | None]:
    """Means over the rollouts of their turns and calls; of the calls, the share of each outcome.

    Empty if the run has no tools.
    """
    numbers = [record.conversation.numbers() for record in records if record.conversation]
    if not numbers:
        return {}
    calls = math.fsum(counts["calls"] for counts in numbers)
    shares = {
        f"tools/{name}": math.fsum(counts[f"calls_{name}"] for counts in numbers) / calls
        for name in OUTCOMES
        if calls
    }
    means = {f"tools/{name}": _mean([n[name] for n in numbers]) for name in ("turns", "calls")}
    return {**means, **shares}


def _own_metrics(records: Sequence[RewardRecord]) -> dict[str, float | None]:
    """Metrics of an own reward function: its failures, and the means of the numbers that it returns
    beside the score, as ``reward/<name>``."""
    own_records = [record for record in records if record.is_own]
    if not own_records:
        return {}
    numbers: dict[str, list[float]] = defaultdict(list)
    for record in own_records:
        for name, value in record.numbers.items():
            numbers[f"reward/{name}"].append(value)
    return {
        **{name: _mean(values) for name, values in numbers.items()},
        metrics.REWARD_ERRORS: float(sum(record.error is not None for record in own_records)),
        metrics.REWARD_TIMEOUTS: float(_failures(own_records, "reward_timeout")),
    }


def _judge_metrics(records: Sequence[RewardRecord]) -> dict[str, float | None]:
    if not records:
        return {}
    latencies = sorted(_known(record.judge_latency_s for record in records))
    return {
        metrics.JUDGE_LATENCY: _mean(latencies),
        metrics.JUDGE_LATENCY_P50: percentile(latencies, 0.5),
        metrics.JUDGE_LATENCY_P95: percentile(latencies, 0.95),
        metrics.SEMAPHORE_WAIT: _mean(_known(record.semaphore_wait_s for record in records)),
        metrics.JUDGE_CALLS: float(sum(record.attempts for record in records)),
        metrics.JUDGE_ERRORS: float(sum(record.error is not None for record in records)),
        metrics.JUDGE_TIMEOUTS: float(_failures(records, "timeout")),
        metrics.JUDGE_RATE_LIMITS: float(_failures(records, "rate_limit")),
        metrics.JUDGE_PARSE_FAILURES: float(_failures(records, "parse")),
        **_tokens(records),
    }


def validation_metrics(records: Sequence[RewardRecord]) -> dict[str, float | None]:
    """Mean validation reward over the rollouts that could be judged, with its interval over the
    prompts, and the mean of the best rollout of each prompt if all have several."""
    groups = _groups(records)
    if not groups:
        return {metrics.VALIDATION_REWARD: None} if records else {}
    prompts = [index for index, group in enumerate(groups) for _ in group]
    mean = estimate_clustered_mean([reward for group in groups for reward in group], prompts)
    values: dict[str, float | None] = {metrics.VALIDATION_REWARD: mean.mean}
    if mean.low is not None and mean.high is not None:
        values |= {metrics.VALIDATION_LOW: mean.low, metrics.VALIDATION_HIGH: mean.high}
    if all(len(group) > 1 for group in groups):
        values[metrics.VALIDATION_BEST] = _mean([max(group) for group in groups])
    return values


def _failures(records: Iterable[RewardRecord], kind: ErrorKind) -> int:
    """Calls that failed in this way, including those whose retry succeeded."""
    count = 0
    for record in records:
        if record.failed_attempts is not None:
            count += record.failed_attempts.count(kind)
        elif record.error is not None:  # a record from before attempts were recorded
            count += record.error.kind == kind
    return count


def _tokens(records: Iterable[RewardRecord]) -> dict[str, float | None]:
    """Tokens sent to and received from the judge; empty when no reply reported them."""
    usages = [record.tokens for record in records if record.tokens is not None]
    if not usages:
        return {}
    return {
        metrics.JUDGE_TOKENS_IN: float(sum(tokens.input for tokens in usages)),
        metrics.JUDGE_TOKENS_OUT: float(sum(tokens.output for tokens in usages)),
    }


def _groups(records: Iterable[RewardRecord]) -> list[list[float]]:
    groups: dict[str, list[float]] = defaultdict(list)
    for record in records:
        if record.reward is not None:
            groups[record.group].append(record.reward)
    return list(groups.values())


def _wall(records: Sequence[RewardRecord]) -> float | None:
    """Seconds from the start of the first reward to the end of the last one."""
    spans = _spans(records)
    if not spans:
        return None
    return max(end for _, end, _ in spans) - min(start for start, _, _ in spans)


def _wait(records: Sequence[RewardRecord]) -> float | None:
    """Seconds from the last rollout that was generated to the last reward.

    A rollout's reward starts when the rollout is generated: until the last one starts, rewards run
    beside generation and nothing waits for them. A reward that starts where another of its process
    ends waited in line, so its start does not tell when its rollout was generated.
    """
    spans = sorted(_spans(records))
    if not spans:
        return None
    ends: dict[int | None, list[float]] = defaultdict(list)
    for _, end, worker in spans:
        ends[worker].append(end)
    for times in ends.values():
        times.sort()
    last_start = spans[0][0]
    for start, _, worker in spans:
        before = bisect_right(ends[worker], start)
        has_waited = before > 0 and start - ends[worker][before - 1] < _AT_ONCE_S
        if not has_waited:
            last_start = start
    return max(end for _, end, _ in spans) - last_start


def _spans(records: Iterable[RewardRecord]) -> list[tuple[float, float, int | None]]:
    """Start and end of each reward, and the process that computed it."""
    return [
        (record.t - record.duration_s, record.t, record.pid)
        for record in records
        if record.t is not None and record.duration_s is not None
    ]


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _std(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
