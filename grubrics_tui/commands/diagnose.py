"""``grubrics-tui diagnose``: print what is wrong with runs and logs, the root cause first."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.base.errors import UsageError
from engine.runs.rundir import RunDir, find_run_not_file, runs_root
from grubrics_tui.commands.shared import Command, Task, options, print_json, read_report, say
from grubrics_tui.commands.shared.finding_text import finding_lines
from grubrics_tui.commands.shared.output import warn_of_unread_parquet
from grubrics_tui.commands.shared.standard_input import standard_input_read

if TYPE_CHECKING:
    from engine.findings.finding import Finding, Remedy


_NO_FINDINGS = "No known problems found"


def diagnose(
    source: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN|FILE...",
            help="Run IDs, unique prefixes, directories, or log files; - for stdin",
        ),
    ],
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Diagnose runs or log files: root cause, evidence, fixes.

    Exits with 1 if there is a finding above info, with 2 if a file is unreadable.
    """
    with standard_input_read(source) as paths:
        diagnoses = [_diagnose(path, runs) for path in paths]
    if len(source) == 1 and diagnoses[0].unusable:
        raise UsageError(f"{source[0]}: {diagnoses[0].unusable}")
    warn_of_unread_parquet()
    findings = [
        (finding, diagnosis.choices) for diagnosis in diagnoses for finding in diagnosis.findings
    ]
    if as_json:
        print_json({"findings": [finding.to_json(choices) for finding, choices in findings]})
    else:
        lines = [
            line for diagnosis in diagnoses for line in _lines(diagnosis, of_many=len(source) > 1)
        ]
        say("\n".join(lines) or f"{_NO_FINDINGS}.\nread: {diagnoses[0].read}")
    if any(finding.severity.is_alarm for finding, _ in findings):
        raise typer.Exit(1)
    raise typer.Exit(2 if any(diagnosis.unusable for diagnosis in diagnoses) else 0)


@dataclass(frozen=True)
class _Diagnosis:
    """The findings of a run or log file.

    ``choices`` are the fixes that ``fix`` can apply, in the order of their numbers, and ``apply``
    is the command for it; a log has none, because it has no config. Without findings, ``read``
    describes what was read, or ``unusable`` why it cannot be diagnosed.
    """

    name: str
    findings: Sequence[Finding]
    choices: Sequence[Remedy] = ()
    apply: str = ""
    read: str = ""
    unusable: str = ""


def _diagnose(name: str, runs: str | None) -> _Diagnosis:
    from engine.doctor.diagnose import diagnose_file, diagnose_run
    from engine.findings.finding import launchable

    run, path = _run(name, runs), Path(name)
    if run is not None:
        findings = diagnose_run(run)
        read = "" if findings else read_report.of_run(run)
        folder = run.path.parent
        elsewhere = folder.resolve() != runs_root(None).resolve()
        words = ["grubrics-tui", "fix", run.id, *(("--runs", str(folder)) if elsewhere else ())]
        command = f"{shlex.join(words)} --number N"
        choices = () if run.is_command else launchable(findings)
        return _Diagnosis(name, findings, choices, command, read)
    if findings := diagnose_file(path):
        return _Diagnosis(name, findings)
    if reason := read_report.unusable(path):
        return _Diagnosis(name, (), unusable=reason)
    return _Diagnosis(name, (), read=read_report.of_path(path))


def _lines(diagnosis: _Diagnosis, *, of_many: bool) -> Iterator[str]:
    """Yield the lines of a diagnosis; of many, below the name of the source."""
    lines = list(finding_lines(diagnosis.findings, diagnosis.choices))
    if of_many:
        empty_text = diagnosis.unusable or f"{_NO_FINDINGS.lower()} ({diagnosis.read})"
        yield f"== {diagnosis.name}" if lines else f"== {diagnosis.name}: {empty_text}"
    yield from lines
    if diagnosis.choices:
        yield f"\napply a fix: {diagnosis.apply}"
    if of_many:
        yield ""


def _run(name: str, runs: str | None) -> RunDir | None:
    """Return the run with this ID or directory; None for any other path that exists."""
    path = Path(name)
    if path.is_dir() and (path / "manifest.json").is_file():
        return RunDir(path)
    return None if path.exists() else find_run_not_file(runs_root(runs), name)


COMMAND = Command(diagnose, Task.DIAGNOSE)
