"""The experiment log: one Markdown entry per experiment, newest last, IDs never reused.

An entry is drafted from the files of a run. Numbers that the files lack are left out.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.base.quantities import (
    format_date,
    format_dollars,
    format_duration,
    format_number,
    format_seconds,
    format_time,
)
from engine.base.text import format_command, format_config_value, sparkline
from engine.config.config_files import packaged_configs
from engine.doctor.health import Health, health_of
from engine.report.groups import seed_of
from engine.report.numbered_log import NumberedLog, one_line, render_entry
from engine.run.checkpoints.find import check_checkpoint
from engine.run.history import metrics
from engine.run.history.train_log import Step, history, read_steps
from engine.run.kinds import find_kind
from engine.run.manifest import FullManifest
from engine.run.notes import read_notes
from engine.run.run import Run
from engine.run.state import RunState, describe, observed_state

WINDOW = 10
"""Steps at each end of a run that a mean is taken over."""
_BLOCKS = 24
"""Blocks of a curve."""
_SHORTEST_CURVE = 8
"""Steps that a curve has at least."""


def draft_entry(run: Run) -> LogEntry:
    """Draft the entry of ``run``. The user adds the question, the decision, and observations that
    are not in the run's notes."""
    return drafted(run, health_of(run))


def drafted(run: Run, health: Health | None) -> LogEntry:
    """The entry of a run whose health is known."""
    manifest = run.read_full_manifest()
    state = observed_state(run)
    start = state.first_start or manifest.created
    notes = read_notes(run)
    tags = f"tags: {', '.join(notes.tags)}" if notes.tags else ""
    project = jsonl.line(manifest.cwd) or str(Path.cwd())
    # A command says nothing of its checkpoints.
    checkpoint = "" if run.is_command else jsonl.line(check_checkpoint(run).message) or ""
    attempts = len(list(run.attempts()))
    return LogEntry(
        title=manifest.description or f"{manifest.config_name or 'run'} ({run.id})",
        run=run.id,
        date=format_date(start) if start else "",
        config=_in_project(_config(manifest), project),
        duration=_duration(state),
        until="" if state.has_ended else f"{describe(state)}, at {format_time(time.time())}",
        result=_listed(
            [
                *_result(state, history(read_steps(run.train_log)), health, manifest.values),
                f"{attempts} attempts: it ended early, and was resumed" if attempts > 1 else "",
                *_evaluations(run.id, Path(project, "evaluations")),
            ]
        ),
        observations="\n".join(filter(None, (notes.text, tags))),
        directory=_in_project(str(run.path), project),
        checkpoint=_in_project(checkpoint, project),
    )


def _evaluations(run_id: str, folder: Path) -> Iterator[str]:
    """A line for every metric of an evaluation that measured a checkpoint of the run."""
    if not folder.is_dir():
        return
    from engine.report.run_report.evaluations import read_evaluations  # Statistics take a second.

    for name, tables in read_evaluations(folder, [run_id]):
        for target, metric, mean, interval, count, *_ in tables[0].rows if tables else ():
            yield f"evaluation {name}: {target} {metric} {mean} ({interval}, n {count})"


def _in_project(text: str, project: str) -> str:
    """Make the paths of a text relative to the project, which other people keep elsewhere."""
    return re.sub(rf"(?<![\w./-]){re.escape(project.rstrip('/'))}/(?=.)", "", text)


def _config(manifest: FullManifest) -> str:
    """The parent of a derived run, the config file, what was set over it, and what else decides the
    result: model, seed and commit."""
    changes = [
        f"{change.key}={format_config_value(change.after)} "
        f"(was {format_config_value(change.before)}, {change.origin})"
        for change in manifest.effective_changes
    ]
    path = Path(jsonl.line(manifest.config_path) or "")
    is_packaged = path.parent == packaged_configs()
    return _listed(
        [
            manifest.parent_phrase,
            f"command: `{format_command(words)}`" if (words := manifest.command) else "",
            f"{path.stem} (packaged)" if is_packaged else str(path) if path.name else "",
            *changes,
            *_origin(manifest),
        ]
    )


def _origin(manifest: FullManifest) -> Iterator[str]:
    kind, git, seed = find_kind(manifest.kind), manifest.git or {}, seed_of(manifest)
    if kind is not None and (model := jsonl.line(manifest.value(kind.model_key))):
        yield f"model: {model}"
    if seed is not None:
        yield f"seed: {seed}"
    if commit := jsonl.line(git.get("commit")):
        yield f"commit: {commit[:12]}" + (" with uncommitted changes" if git.get("dirty") else "")


def _duration(state: RunState) -> str:
    """The time of all attempts; empty for an active run."""
    took = state.elapsed(time.time()) if state.ended is not None else None
    return "" if took is None else format_duration(took)


def _result(
    state: RunState, steps: Sequence[Step], health: Health | None, config: Mapping[str, object]
) -> list[str]:
    finding = health.finding if health else None
    # verl logs validation before training as step 0, which trained nothing.
    trained = [step for step in steps if step.step > 0]
    return [
        ", ".join(filter(None, (describe(state), jsonl.line(health.phrase) if health else ""))),
        f"doctor: {jsonl.line(finding.title)} [{finding.id}]" if finding else "",
        _progress(state, trained),
        _ends("reward", trained, metrics.REWARD_MEAN),
        _curve("reward", trained, metrics.REWARD_MEAN),
        _ends("loss", trained, metrics.TRAIN_LOSS),
        _curve("loss", trained, metrics.TRAIN_LOSS),
        _before_and_after("validation reward", steps, metrics.VALIDATION_REWARD),
        _before_and_after("validation loss", steps, "val/loss"),
        _recent("in-group reward std (population)", trained, metrics.REWARD_STD),
        _recent("judge latency", trained, metrics.JUDGE_LATENCY, format_seconds),
        _judge(steps, config),
    ]


def _progress(state: RunState, trained: Sequence[Step]) -> str:
    step = trained[-1].step if trained else state.step
    if step is None:
        return ""
    return f"step {step} of {state.total_steps}" if state.total_steps else f"step {step}"


def _ends(label: str, steps: Sequence[Step], name: str) -> str:
    """Means over the first and the last steps, without overlap."""
    values = [value for _, value in _points(steps, name)]
    if len(values) < 2:
        return f"{label}: {format_number(values[0])} (one step)" if values else ""
    width = min(WINDOW, len(values) // 2)
    steps_text = "step" if width == 1 else f"{width} steps"
    first, last = format_number(_mean(values[:width])), format_number(_mean(values[-width:]))
    return f"{label}: {first} (first {steps_text}), {last} (last {steps_text})"


def _curve(label: str, steps: Sequence[Step], name: str) -> str:
    """The curve as blocks, each the mean of as many steps; empty for a short run."""
    points = _points(steps, name)
    if len(points) < _SHORTEST_CURVE:
        return ""
    edges = [len(points) * n // _BLOCKS for n in range(_BLOCKS + 1)]
    parts = [points[start:end] for start, end in pairwise(edges) if end > start]
    means = [_mean([value for _, value in part]) for part in parts]
    low, high = format_number(min(means)), format_number(max(means))
    span = f"steps {points[0][0]} to {points[-1][0]}, {low} to {high}"
    return f"{label} curve: {sparkline(means)} ({span})"


def _judge(steps: Sequence[Step], config: Mapping[str, object]) -> str:
    """Calls and tokens of all logged steps, and their cost where the config has prices."""
    calls = _total(steps, metrics.JUDGE_CALLS)
    if not calls:
        return ""
    ways = ("in", "out")
    tokens = [_total(steps, name) for name in (metrics.JUDGE_TOKENS_IN, metrics.JUDGE_TOKENS_OUT)]
    text = f"judge: {calls:,.0f} calls"
    if any(tokens):
        text += "".join(
            f", {count:,.0f} tokens {way}" for count, way in zip(tokens, ways, strict=True)
        )
    prices = [jsonl.number(config.get(f"judge.usd_per_million_{way}")) for way in ways]
    known = [price for price in prices if price is not None]
    if any(tokens) and len(known) == 2:
        cost = sum(price * count for price, count in zip(known, tokens, strict=True)) / 1e6
        text += f", {format_dollars(cost)}"
    return text


def _total(steps: Sequence[Step], name: str) -> float:
    return math.fsum(value for _, value in _points(steps, name))


def _before_and_after(label: str, steps: Sequence[Step], name: str) -> str:
    points = _points(steps, name)
    ends = points if len(points) < 2 else [points[0], points[-1]]
    shown = ", ".join(f"{format_number(value)} (step {step})" for step, value in ends)
    return f"{label}: {shown}" if shown else ""


def _recent(
    label: str,
    steps: Sequence[Step],
    name: str,
    format_value: Callable[[float], str] = format_number,
) -> str:
    values = [value for _, value in _points(steps, name)][-WINDOW:]
    steps_text = "step" if len(values) == 1 else f"{len(values)} steps"
    return f"{label}: {format_value(_mean(values))} (last {steps_text})" if values else ""


def _points(steps: Sequence[Step], name: str) -> list[tuple[int, float]]:
    """``(step, value)`` where the metric has a value."""
    values = ((step.step, step.metrics.get(name)) for step in steps)
    return [
        (step, float(value))
        for step, value in values
        if isinstance(value, int | float) and math.isfinite(value)
    ]


def _listed(lines: Sequence[str]) -> str:
    """Format one line unchanged, and several as a Markdown list."""
    present = [line for line in lines if line]
    return present[0] if len(present) == 1 else "\n".join(f"- {line}" for line in present)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


UNTIL = "Until"
"""The label of an entry of an active run: the one of its end is still to come."""
NO_ID = "EXP-?"
"""The ID of an entry that is not in the log yet."""


@dataclass(frozen=True)
class LogEntry:
    """An entry in editable form: text fields, lines separated by newlines.

    An empty ``id`` is given when the entry is appended; empty fields are left out.
    """

    title: str
    run: str
    date: str
    id: str = ""
    question: str = ""
    config: str = ""
    duration: str = ""
    until: str = ""
    result: str = ""
    observations: str = ""
    decision: str = ""
    directory: str = ""
    checkpoint: str = ""


def render(entry: LogEntry) -> str:
    """The entry as Markdown: ``### [EXP-007] title``, then one bold label per field."""
    run = one_line(entry.run)
    fields = (
        ("Date", entry.date),
        ("Run", f"`{run}` ({one_line(entry.directory)})" if run else ""),
        ("Research question", entry.question),
        ("Config", entry.config),
        ("Duration", entry.duration),
        (UNTIL, entry.until),
        ("Result", entry.result),
        ("Checkpoint", entry.checkpoint),
        ("Observations", entry.observations),
        ("Decision", entry.decision),
    )
    return render_entry(f"[{one_line(entry.id) or NO_ID}] {one_line(entry.title) or run}", fields)


def experiment_log(path: Path) -> NumberedLog:
    return NumberedLog(path, "EXP", "# Experiment log\n")


def next_id(text: str) -> str:
    """The ID after the highest one used in a log."""
    return experiment_log(Path()).next_id(text)


def append_entry(path: Path, entry: LogEntry) -> str:
    """Append ``entry`` to the log and return its ID, creating the file if it is missing.

    An ID that is empty or taken by now is replaced with the next free one. Raises UsageError if
    the run already has an entry from after its end, or the file cannot be read
    or written.
    """
    log = experiment_log(path)

    def check(text: str) -> None:
        line = f"- **Run:** `{entry.run}`"
        earlier = log.find(text, line, unless=f"- **{UNTIL}:**") if entry.run else None
        if earlier is not None:
            raise UsageError(f"{path}: run '{entry.run}' already has an entry, {earlier}")

    return log.append(
        lambda number: render(replace(entry, id=number)), wanted=entry.id, check=check
    )
