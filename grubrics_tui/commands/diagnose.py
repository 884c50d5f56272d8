"""``grubrics-tui diagnose``: print what is wrong with runs and logs, the root cause first."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.base.errors import UsageError
from engine.runs.rundir import RunDir, find_run, runs_root
from grubrics_tui.commands.shared import read_report
from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.finding_text import finding_json, finding_lines
from grubrics_tui.commands.shared.options import JsonOption, RunsOption
from grubrics_tui.commands.shared.output import print_json, say

if TYPE_CHECKING:
    from engine.findings.finding import Finding, Remedy


_NOTHING = "Nothing that the doctor knows is wrong"


def diagnose(
    source: Annotated[list[str], typer.Argument(metavar="RUN|FILE...", help="Runs, or log files")],
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Name what went wrong, why, and what to change. Exit code 1 when there are findings."""
    diagnoses = [_diagnosis(name, runs) for name in source]
    if len(source) == 1 and diagnoses[0].unusable:
        raise UsageError(f"{source[0]}: {diagnoses[0].unusable}")
    if as_json:
        found = [finding_json(one, each.choices) for each in diagnoses for one in each.findings]
        print_json({"findings": found})
    else:
        told = [line for each in diagnoses for line in _told(each, of_many=len(source) > 1)]
        say("\n".join(told) or f"{_NOTHING} here.\nread: {diagnoses[0].read}")
    if any(one.severity.is_alarm for each in diagnoses for one in each.findings):
        raise typer.Exit(1)
    raise typer.Exit(2 if any(one.unusable for one in diagnoses) else 0)


@dataclass(frozen=True)
class _Diagnosis:
    """``choices`` are the remedies that ``remedy`` takes, in the order of their numbers; none of a
    log, which has no recipe. Where nothing was found, ``read`` is what was looked at, or
    ``unusable`` why that says nothing."""

    name: str
    findings: Sequence[Finding]
    choices: Sequence[Remedy] = ()
    apply: str = ""
    read: str = ""
    unusable: str = ""


def _diagnosis(name: str, runs: str | None) -> _Diagnosis:
    from engine.doctor.diagnose import diagnose_file, diagnose_run
    from engine.findings.finding import launchable

    run, path = _run(name, runs), Path(name)
    if run is not None:
        found = diagnose_run(run)
        read = "" if found else read_report.of_run(run)
        return _Diagnosis(name, found, launchable(found), _applying(run), read)
    if found := diagnose_file(path):
        return _Diagnosis(name, found)
    if reason := read_report.unusable(path):
        return _Diagnosis(name, (), unusable=reason)
    return _Diagnosis(name, (), read=read_report.of_path(path))


def _applying(run: RunDir) -> str:
    """The command that launches the run again with a remedy, as typed here."""
    folder = run.path.parent
    elsewhere = folder.resolve() != runs_root(None).resolve()
    words = ["grubrics-tui", "remedy", run.id, *(("--runs", str(folder)) if elsewhere else ())]
    return f"{shlex.join(words)} --number N"


def _told(one: _Diagnosis, *, of_many: bool) -> Iterator[str]:
    """The diagnosis as a person reads it; of many, each below its name."""
    lines = list(finding_lines(one.findings, one.choices))
    if of_many:
        nothing = one.unusable or f"{_NOTHING[0].lower()}{_NOTHING[1:]} ({one.read})"
        yield f"== {one.name}" if lines else f"== {one.name}: {nothing}"
    yield from lines
    if one.choices:
        yield f"\napply: {one.apply}   (N: the number after try)"
    if of_many:
        yield ""


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


COMMAND = Command(diagnose, Task.DIAGNOSE)
