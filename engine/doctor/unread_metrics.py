"""Rule for commands whose metrics were named, but never read."""

from __future__ import annotations

import time
from pathlib import Path

from engine.base import jsonl
from engine.findings.finding import Evidence, Finding, Remedy
from engine.findings.symptom import Case, Symptom
from engine.formats.pattern import is_pattern
from engine.runs.kinds import COMMAND
from engine.runs.rundir import RunDir
from engine.runs.state import RunState

_LATE_S = 600.0
"""A program may load a model before it writes its first metrics."""

UNREAD = Symptom(
    id="config_error.metrics_not_read",
    title="No metrics were read: {problem}",
    cause="The run was launched with --metrics {given}, and it has no step. {problem}.",
    shape="a command with `--metrics` that has ended, or has run for ten minutes, without a step",
    remedies=lambda _: (
        Remedy("Launch it with the file or folder that it writes, or a pattern of its lines"),
    ),
    source="the files of the run",
)


def unread_metrics_findings(run: RunDir, state: RunState) -> list[Finding]:
    """Why a command has no steps although its metrics were named; empty if it has some."""
    if state.step is not None or state.started is None or state.state == "queued":
        return []
    if not state.has_ended and time.time() - state.started < _LATE_S:
        return []
    manifest = run.read_manifest("kind", "metrics", "cwd")
    given = jsonl.line(manifest.get("metrics"))
    if manifest.get("kind") != COMMAND or not given or run.train_log.exists():
        return []
    problem = _problem(given, Path(jsonl.line(manifest.get("cwd")) or "."))
    evidence = Evidence(f"--metrics {given}: {problem}", str(run.manifest))
    return [UNREAD.finding(Case(), evidence, given=given, problem=problem)]


def _problem(given: str, cwd: Path) -> str:
    if is_pattern(given):
        return "no line of the console matches the pattern"
    if not (cwd / given).exists():
        return f"{cwd / given} never appeared"
    return f"nothing new of a known format is in {cwd / given}"
