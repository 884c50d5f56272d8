"""``grubrics-tui diagnose``: print what is wrong with runs and logs, the root cause first."""

from __future__ import annotations

import os
import shlex
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.base import files
from engine.base.errors import UsageError
from engine.base.holes import chunks
from engine.base.quantities import format_count
from engine.run.run import Run, find_run_not_file, runs_root
from grubrics_tui.commands.shared import Command, Task, argument, options, print_json, say
from grubrics_tui.commands.shared.finding_text import finding_lines
from grubrics_tui.commands.shared.output import warn_of_unread_parquet
from grubrics_tui.commands.shared.standard_input import standard_input_read

if TYPE_CHECKING:
    from engine.run.finding import Finding, Fix


_NO_FINDINGS = "No known problems found"


def diagnose(
    source: Annotated[
        list[str],
        argument("RUN|FILE...", "Run IDs, unique prefixes, directories, or log files; - for stdin"),
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
    if any(finding.severity.is_alert for finding, _ in findings):
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
    choices: Sequence[Fix] = ()
    apply: str = ""
    read: str = ""
    unusable: str = ""


def _diagnose(name: str, runs: str | None) -> _Diagnosis:
    from engine.doctor.diagnose import diagnose_file, diagnose_run
    from engine.run.finding import launchable

    run, path = _run(name, runs), Path(name)
    if run is not None:
        findings = diagnose_run(run)
        read = "" if findings else _read_of_run(run)
        folder = run.path.parent
        elsewhere = folder.resolve() != runs_root(None).resolve()
        words = ["grubrics-tui", "fix", run.id, *(("--runs", str(folder)) if elsewhere else ())]
        command = f"{shlex.join(words)} --number N"
        choices = () if run.is_command else launchable(findings)
        return _Diagnosis(name, findings, choices, command, read)
    if findings := diagnose_file(path):
        return _Diagnosis(name, findings)
    if reason := _why_unusable(path):
        return _Diagnosis(name, (), unusable=reason)
    return _Diagnosis(name, (), read=read_of_path(path))


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


def _run(name: str, runs: str | None) -> Run | None:
    """Return the run with this ID or directory; None for any other path that exists."""
    path = Path(name)
    if path.is_dir() and (path / "manifest.json").is_file():
        return Run(path)
    return None if path.exists() else find_run_not_file(runs_root(runs), name)


_END = 64 * 1024
_TEXT_CONTROLS = frozenset(b"\a\b\t\n\v\f\r\x1b")
_MOST_CONTROLS = 0.05
"""Share of control characters in text; every tenth byte of compressed data is one."""


def _why_unusable(path: Path) -> str:
    """Return why a file cannot be diagnosed, or an empty text. Raises OSError."""
    if path.is_dir() or _kind(path):
        return ""
    with files.open_regular(path) as handle:
        size = handle.seek(0, os.SEEK_END)
        handle.seek(0)
        head = handle.read(_END)
        handle.seek(max(0, size - _END))
        ends = head, handle.read(_END)
    if not size:
        return "is empty"
    if not any(end.strip() for end in ends):
        return "contains only white space"
    if all(map(_is_binary, ends)):
        return "contains no readable text: it is binary, compressed or UTF-16"
    return ""


def read_of_path(path: Path) -> str:
    """Return the format of a file and its last step. Raises OSError."""
    from engine.logs.formats.detect import detect
    from engine.logs.formats.external_run import read_steps

    kind = _kind(path)
    if not kind:
        lines = _count_lines(path)
        return f"{format_count(lines, 'line')} of text in no known log format"
    last = detect(path).open().last_step() or next(iter(deque(read_steps(path), maxlen=1)), None)
    return f"{kind}, " + ("no step yet" if last is None else f"up to step {last.step}")


def _read_of_run(run: Run) -> str:
    """Return the state of a run and its last step."""
    from engine.run.state import describe, observed_state

    state = observed_state(run)
    done = "no step yet" if state.step is None else f"up to step {state.step}"
    return f"a run, {describe(state)}, {done}"


def _kind(path: Path) -> str:
    """Return the name of the file's format; empty if it is not known."""
    from engine.logs.formats.external_run import open_external

    try:
        return open_external(path).format.name
    except UsageError:
        return ""


def _is_binary(data: bytes) -> bool:
    controls = sum(byte < 32 and byte not in _TEXT_CONTROLS for byte in data)
    return controls > _MOST_CONTROLS * len(data)


def _count_lines(path: Path) -> int:
    with files.open_regular(path) as handle:
        count, last = 0, b""
        for _, block in chunks(handle.fileno(), 0, 1 << 20):
            count, last = count + block.count(b"\n"), block
        return count + bool(last and not last.endswith(b"\n"))


COMMAND = Command(diagnose, Task.DIAGNOSE)
