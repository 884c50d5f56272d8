"""The evaluations of a project that measured checkpoints of the runs of a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from engine.base.errors import UsageError
from engine.base.intervals import Estimate
from engine.base.quantities import format_count
from engine.base.typed import Integer, read_record
from engine.measure.folder import TargetDir, read_target
from engine.measure.items import digest, read_conversation_items, read_items
from engine.measure.measures import Metric
from engine.measure.summary import (
    Result,
    TargetComparison,
    TargetRows,
    compare_targets,
    measure_targets,
)
from engine.measure.targets import BASELINES, Target
from engine.measure.trained_rows import trained_rows
from engine.report.run_report.report import Table

_HEAD = ("target", "metric", "mean", "95% interval", "n", "unscored", "weights")
_COMPARED = ("target", "against", "metric", "difference", "95% interval", "pairs", "verdict")


class _Sampling(Struct, frozen=True):
    samples: Integer = 1


class _Setup(Struct, frozen=True):
    """What tables say of an evaluation's setup. ``sampling`` is None where a loss is measured."""

    data: str
    items: Integer
    items_sha256: str
    scoring: dict[str, object]
    sampling: _Sampling | None = None


def read_evaluations(folder: Path, runs: Sequence[str]) -> Iterator[tuple[str, tuple[Table, ...]]]:
    """The ID of each evaluation with a checkpoint of the ``runs``, and its tables.

    Targets are these checkpoints and the named baselines. An evaluation that cannot be read has no
    tables.
    """
    for setup in sorted(folder.glob("*/setup.json")):
        targets = _targets(setup.parent, runs)
        if not any(is_checkpoint_of(target.name, runs) for target, _ in targets):
            continue
        try:
            known = read_record(setup, _Setup)
            yield setup.parent.name, tuple(_tables(known, targets, runs)) if known else ()
        except (LookupError, TypeError, ValueError, AttributeError, UsageError):
            yield setup.parent.name, ()  # Another version wrote it, or it is damaged.


def is_checkpoint_of(target: str, runs: Sequence[str]) -> bool:
    """Whether a target is ``RUN`` or ``RUN:STEP``."""
    return target.partition(":")[0] in runs


def _targets(folder: Path, runs: Sequence[str]) -> list[tuple[Target, TargetDir]]:
    """The baselines, then the checkpoints by run and step."""
    files = sorted(folder.glob("*/target.json"))
    known = [(target, TargetDir(f.parent)) for f in files if (target := read_target(f)) is not None]
    named = [one for one in known if one[0].name in BASELINES]
    own = [one for one in known if is_checkpoint_of(one[0].name, runs)]
    return [*named, *sorted(own, key=lambda one: _place(one[0].name, runs))]


def _place(target: str, runs: Sequence[str]) -> tuple[int, float]:
    run, _, step = target.partition(":")
    return runs.index(run), float(step) if step.isdecimal() else float("inf")


def _tables(
    setup: _Setup, targets: Sequence[tuple[Target, TargetDir]], runs: Sequence[str]
) -> Iterator[Table]:
    samples = setup.sampling.samples if setup.sampling else 1
    rows, metrics, results = measure_targets(targets, setup.scoring, samples)
    weights = {target.name: target.sha256[:12] for target, _ in targets}
    drawn = f"{format_count(samples, 'answer')} each" if setup.sampling else "loss"
    notes = [f"{format_count(setup.items, 'item')} of {setup.data}, {drawn}"]
    yield Table(
        _HEAD,
        tuple((*_result_row(result), weights[result.target]) for result in results),
        note="; ".join([*notes, *_not_held_out(setup, targets)]),
    )
    if pairs := list(_compare(rows, metrics, runs)):
        yield Table(_COMPARED, tuple(map(_pair_row, pairs)), note="paired by item")


def _not_held_out(setup: _Setup, targets: Sequence[tuple[Target, TargetDir]]) -> Iterator[str]:
    """The targets that were trained on items, as far as the files that show it are still there."""
    read = read_items if setup.sampling else read_conversation_items
    try:
        items = read(Path(setup.data), setup.items)
    except (OSError, UsageError):
        return
    if digest([item.sha256 for item in items]) != setup.items_sha256:
        return
    for target, _ in targets:
        for run, count in trained_rows(target, items).items():
            yield f"not held out for {target.name}: run '{run}' was trained on {count}"


def _compare(
    rows: Sequence[TargetRows], metrics: Sequence[Metric], runs: Sequence[str]
) -> Iterator[TargetComparison]:
    """Every checkpoint against every baseline; without one, against the first checkpoint."""
    own = [target for target in rows if is_checkpoint_of(target.name, runs)]
    named = [target for target in rows if target not in own]
    yield from compare_targets(named or own[:1], own, metrics)


def _result_row(result: Result) -> tuple[str, ...]:
    estimate = result.estimate
    return (
        result.target,
        result.metric,
        f"{estimate.mean:.3f}" if estimate else "no scores",
        format_interval(estimate),
        str(estimate.n if estimate else 0),
        str(result.unscored),
    )


def _pair_row(pair: TargetComparison) -> tuple[str, ...]:
    estimate = pair.comparison.difference
    needed = pair.comparison.needed
    return (
        pair.b,
        pair.a,
        pair.metric,
        f"{estimate.mean:+.3f}",
        format_interval(estimate, "+"),
        str(estimate.n),
        pair.comparison.verdict + (f"; about {needed:,} items would show it" if needed else ""),
    )


def format_interval(estimate: Estimate | None, sign: str = "") -> str:
    if estimate is None or estimate.low is None or estimate.high is None:
        return "–"
    if estimate.is_constant:
        return "all equal"
    return f"{estimate.low:{sign}.3f} to {estimate.high:{sign}.3f}"
