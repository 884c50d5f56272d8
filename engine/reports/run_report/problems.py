"""The findings of the doctor about the runs of a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.base.text import format_config_value
from engine.doctor.diagnose import diagnose_file, diagnose_run
from engine.findings.finding import Finding, Remedy, format_evidence
from engine.formats.external_run import ExternalRun
from engine.reports.run_report.publish import published_value
from engine.reports.run_report.report import Problem
from engine.runs.rundir import RunDir

_MOST_EVIDENCE = 4


def find_findings(run: RunDir | ExternalRun) -> list[Finding]:
    return diagnose_run(run) if isinstance(run, RunDir) else diagnose_file(run.path)


def make_problem(run: str, finding: Finding) -> Problem:
    return Problem(
        run,
        str(finding.severity),
        finding.id,
        finding.title,
        finding.onset,
        finding.cause,
        tuple(format_evidence(evidence) for evidence in finding.evidence[:_MOST_EVIDENCE]),
        tuple(line for remedy in finding.remedies for line in _remedy_lines(remedy)),
        tuple(f"{later.title} [{later.id}]" for later in finding.followed_by),
    )


def merge_problems(problems: Sequence[Problem]) -> Iterator[Problem]:
    """Problems in the order of their severity, those of one run as the doctor sorted them."""
    order = ("critical", "error", "warning", "info")
    yield from sorted(problems, key=lambda problem: order.index(problem.severity))


def _remedy_lines(remedy: Remedy) -> Iterator[str]:
    """The remedy, and what to type for it."""
    effect = f" ({remedy.effect})" if remedy.effect else ""
    changes = [
        f"$ {change.after}"
        if change.kind == "command"
        else f"{change.key}={format_config_value(published_value(change.key, change.after))}"
        for change in remedy.changes
    ]
    yield f"{remedy.title}{effect}" + (f": {', '.join(changes)}" if changes else "")
