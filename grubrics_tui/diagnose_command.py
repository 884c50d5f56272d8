"""``diagnose``: what is wrong with runs and logs, the root cause first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.errors import UsageError
from engine.runs.rundir import RunDir, find_run, runs_root
from grubrics_tui.changes import change_json
from grubrics_tui.options import JsonOption, RunsOption, print_json, say

if TYPE_CHECKING:
    from engine.doctor.finding import Evidence, Finding, Remedy

_MOST_EVIDENCE = 4


def diagnose(
    source: Annotated[list[str], typer.Argument(metavar="RUN|FILE...", help="Runs, or log files")],
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Name what went wrong, why, and what to change. Exit code 1 when there are findings."""
    found = [finding for name in source for finding in _findings(name, runs)]
    if as_json:
        print_json({"findings": [finding_json(finding) for finding in found]})
    else:
        say("\n".join(finding_lines(found)) or "Nothing that the doctor knows is wrong here.")
    raise typer.Exit(int(any(finding.severity.is_alarm for finding in found)))


def _findings(name: str, runs: str | None) -> list[Finding]:
    from engine.doctor.diagnose import diagnose_file, diagnose_run

    run = _run(name, runs)
    if run is not None:
        return diagnose_run(run)
    path = Path(name)
    if path.is_dir():
        raise UsageError(f"{name}: a folder that is no run; name the log file in it")
    return diagnose_file(path)


def _run(name: str, runs: str | None) -> RunDir | None:
    """The run of that id; None for a path that exists and is no run."""
    path = Path(name)
    if path.is_dir() and (path / "manifest.json").is_file():
        return RunDir(path)
    if path.exists():
        return None
    try:
        return find_run(runs_root(runs), name)
    except UsageError as error:
        if path.suffix or "/" in name:
            raise UsageError(f"{name}: no such file") from error
        raise


def finding_json(finding: Finding) -> dict[str, Any]:
    """A finding as programs read it, with all that is folded below it."""
    return {
        "id": finding.id,
        "severity": str(finding.severity),
        "title": finding.title,
        "onset_step": finding.onset_step,
        "cause": finding.cause,
        "evidence": [_evidence_json(one) for one in finding.evidence],
        "remedies": [_remedy_json(one) for one in finding.remedies],
        "confidence": finding.confidence,
        "not_checked": list(finding.not_checked),
        "followed_by": [finding_json(one) for one in finding.followed_by],
        "source": finding.source,
    }


def _evidence_json(evidence: Evidence) -> dict[str, Any]:
    return {
        "text": evidence.text,
        "path": evidence.path,
        "offset": evidence.offset,
        "step": evidence.step,
        "values": dict(evidence.values),
    }


def _remedy_json(remedy: Remedy) -> dict[str, Any]:
    changes = [change_json(one) for one in remedy.changes]
    return {"title": remedy.title, "effect": remedy.effect, "changes": changes}


def finding_lines(findings: Sequence[Finding]) -> Iterator[str]:
    """The findings as a person reads them."""
    for number, finding in enumerate(findings):
        if number:
            yield ""
        since = "" if finding.onset_step is None else f" since step {finding.onset_step}"
        yield f"{str(finding.severity).upper()}{since}: {finding.title}  [{finding.id}]"
        yield f"  {finding.cause}"
        yield from (f"  seen: {_seen(one)}" for one in finding.evidence[:_MOST_EVIDENCE])
        yield from (line for remedy in finding.remedies for line in _remedy(remedy))
        yield from (f"  then: {one.title}  [{one.id}]" for one in finding.followed_by)
        yield from (f"  not checked: {one}" for one in finding.not_checked)


def _seen(evidence: Evidence) -> str:
    line = evidence.values.get("line")
    place = f"{evidence.path}:{line}: " if evidence.path and line is not None else ""
    count = evidence.values.get("seen")
    times = f"  ({count} times)" if count else ""
    return f"{place}{evidence.text}{times}"


def _remedy(remedy: Remedy) -> Iterator[str]:
    effect = f" ({remedy.effect})" if remedy.effect else ""
    yield f"  try: {remedy.title}{effect}"
    for change in remedy.changes:
        yield f"       {change.key}={change.after}"
