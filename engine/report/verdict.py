"""The entry of an ablation in the experiment log: what was tried, and what the table says."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.base.quantities import format_count, format_date, format_duration, format_number
from engine.base.tables import markdown_table
from engine.measure.ablations.plan import BASE, AblationPlan, Arm, find_kept
from engine.measure.ablations.report import AblationReport
from engine.measure.ablations.table import ArmRow
from engine.report.entry import experiment_log
from engine.report.numbered_log import format_field, one_line, render_entry
from engine.run.history import metrics
from engine.run.history.train_log import read_steps
from engine.run.manifest import Manifest
from engine.run.run import Run
from engine.run.state import observed_state


def append_verdict(path: Path, report: AblationReport, root: Path) -> str:
    """Append the entry of an ablation and return its ID. ``root``: the folder of its runs.

    UsageError if the ablation has an entry already, and if its table is not complete yet.
    """
    require_ended(report)
    log, plan_id = experiment_log(path), report.plan.id

    def check(text: str) -> None:
        earlier = log.find(text, f"- **Ablation:** `{plan_id}`")
        if earlier is not None:
            raise UsageError(f"{path}: ablation '{plan_id}' already has an entry, {earlier}")

    return log.append(lambda number: render_verdict(report, root, number), check=check)


def require_ended(report: AblationReport) -> None:
    """An ablation gets one entry, so a table without results would keep the real one out."""
    if report.ended == 0 or (report.is_running and report.pending):
        raise UsageError(
            f"ablation '{report.plan.id}': {report.ended} of {report.total} runs have ended; "
            "append the table when all have (--wait waits for them)"
        )


def render_verdict(report: AblationReport, root: Path, number: str) -> str:
    """The entry as Markdown, 15 lines for four arms."""
    plan = report.plan
    today = format_date()
    seeds = ", ".join(map(str, plan.seeds))
    arms, count = format_count(len(plan.arms), "arm"), format_count(len(plan.seeds), "seed")
    size = f"{arms} x {count} ({seeds}) x {format_count(plan.steps, 'step')}"
    fields = (
        ("Ablation", f"`{plan.id}` ({plan.folder}), {today}"),
        ("Base", _base(report, root)),
        ("Runs", ", ".join([size, *_cost(report, root)])),
        ("Measure", f"{report.measure}, paired by seed at equal steps"),
    )
    not_tested = format_field("Not tested", f"{', '.join(_not_tested(plan))}.{_resolution(report)}")
    heading = f"[{number}] Ablation of {one_line(plan.name)}: {_summary(report.rows)}"
    return render_entry(heading, fields, "", _table(plan.arms, report.rows), "", not_tested)


def _summary(rows: Sequence[ArmRow]) -> str:
    """Arms by verdict: ``A1 worse; A2, A3 undecided``."""
    verdicts: dict[str, list[str]] = {}
    for row in rows:
        if row.name != BASE:
            verdicts.setdefault(row.verdict or "no verdict", []).append(row.name)
    return "; ".join(f"{', '.join(names)} {verdict}" for verdict, names in verdicts.items())


def _base(report: AblationReport, root: Path) -> str:
    """The config, the commit and the fingerprint of the base, as its first run recorded them."""
    runs = (run for row in report.rows[:1] for run in _kept(row, root))
    manifest = next((run.read_manifest() for run in runs), Manifest())
    git = manifest.git or {}
    commit = str(git.get("commit") or "")[:12]
    state = ", with uncommitted changes" if git.get("dirty") else ""
    parts = [
        report.plan.name,
        f"commit {commit}{state}" if commit else "",
        f"configuration {manifest.fingerprint[:12]}" if manifest.fingerprint else "",
    ]
    return ", ".join(part for part in parts if part)


def _cost(report: AblationReport, root: Path) -> Iterator[str]:
    """Time of all runs, and the calls of the judge; those of validations are not logged."""
    runs = [run for row in report.rows for run in _kept(row, root)]
    elapsed = [observed_state(run).elapsed(time.time()) or 0.0 for run in runs]
    if elapsed:
        yield f"{format_duration(sum(elapsed))} of training"
    calls = sum(
        step.metrics.get(metrics.JUDGE_CALLS) or 0.0
        for run in runs
        for step in read_steps(run.train_log)
    )
    if calls:
        yield f"{calls:,.0f} judge calls of training steps"


def _kept(row: ArmRow, root: Path) -> Iterator[Run]:
    """The runs of an arm that were launched."""
    for run in row.runs:
        if run.state is not None and (kept := find_kept(run.run, root)) is not None:
            yield kept


def _table(arms: Sequence[Arm], rows: Sequence[ArmRow]) -> str:
    table = []
    for arm, row in zip(arms, rows, strict=True):
        estimate = row.comparison.difference if row.comparison else None
        cells = [
            arm.name,
            ", ".join(arm.wanted),
            format_number(row.mean.mean) if row.mean else "",
            f"{estimate.mean:+.4g}" if estimate else "",
            f"{estimate.low:+.4g} to {estimate.high:+.4g}"
            if estimate and estimate.low is not None and estimate.high is not None
            else "",
            str(sum(bool(run.values) for run in row.runs)),
            row.verdict or row.stopped or row.incomparable or "",
        ]
        table.append([jsonl.line(cell) or "" for cell in cells])
    heads = ("arm", "change", "mean", "difference", "95% interval", "seeds", "verdict")
    return markdown_table(heads, table)


def _not_tested(plan: AblationPlan) -> Iterator[str]:
    """What the table leaves open."""
    yield f"more than {plan.steps} steps"
    yield f"seeds other than {', '.join(map(str, plan.seeds))}"
    yield "combinations and values other than these"


def _resolution(report: AblationReport) -> str:
    """A sentence on how small a difference the undecided arms could have shown; else empty."""
    halves = [
        (row.comparison.difference.high - row.comparison.difference.low) / 2
        for row in report.rows
        if row.comparison is not None
        and row.comparison.difference.high is not None
        and row.comparison.difference.low is not None
        and row.verdict == "undecided"
    ]
    if not halves:
        return ""
    return (
        f" The smallest difference that the undecided arms could have shown is about "
        f"{max(halves):.2g}: half the width of the widest interval."
    )
