"""Findings about the training data of a run: two preflight checks, run again.

Other checks refuse a launch, or their result may have changed since.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import yaml

from engine.base.errors import UsageError
from engine.base.files import fingerprints
from engine.checks import dataset, holdout
from engine.checks.check import Check, Subject
from engine.config.compose import effective
from engine.config.load import Config, load_config
from engine.doctor.finding_kinds import KINDS
from engine.run.finding import Change, Evidence, Finding, Fix, Severity
from engine.run.finding_kind import Case, FindingKind
from engine.run.run import Run

_CHECKS = (
    (dataset.check, KINDS["data_missing_or_schema.file"]),
    (holdout.check, KINDS["validation_is_training"]),
)
_OVERRIDE = re.compile(r"[a-z_.]+=\S+")


def data_findings(run: Run) -> list[Finding]:
    """Return the problems of a run's training data; none if a file has changed since the launch."""
    if not _is_as_launched(run):
        return []
    try:
        config = load_config(str(run.config_file), env={})
    except (UsageError, OSError):
        return []
    return _config_findings(config, run.path.parent)


def _is_as_launched(run: Run) -> bool:
    recorded = run.read_manifest().data
    now = fingerprints(Path(name) for name in recorded)
    return bool(recorded) and now == {name: facts.digest for name, facts in recorded.items()}


def _config_findings(config: Config, runs: Path) -> list[Finding]:
    try:
        subject = Subject(effective(config, runs / "attempt_1"), {}, runs)
    except Exception:  # A config that cannot be completed was refused at the launch.
        return []
    return [
        finding
        for check, finding_kind in _CHECKS
        for finding in _findings(subject, check, finding_kind)
    ]


def _findings(
    subject: Subject, check: Callable[[Subject], Check], finding_kind: FindingKind
) -> Iterator[Finding]:
    try:
        result = check(subject)
    except Exception:  # A check that cannot run has no result; others may have.
        return
    if result.status in ("warn", "fail"):
        finding = finding_kind.finding(
            Case(),
            Evidence(result.message, str(subject.config.path)),
            severity=None if result.status == "fail" else Severity.INFO,
            fixes=_fixes(subject.config, result.fix),
            message=result.message,
        )
        yield replace(finding, source=f"preflight: {result.id}")


def _fixes(config: Config, fix: str | None) -> Iterator[Fix]:
    """Yield the check's fix, which is one command or overrides of the config."""
    if not fix:
        return
    words = fix.split()
    if not all(_OVERRIDE.fullmatch(word) for word in words):
        yield Fix(fix, (Change("command", "preflight", fix),))
        return
    pairs = [word.split("=", 1) for word in words]
    changes = tuple(
        Change("config", key, yaml.safe_load(after), config.get(key)) for key, after in pairs
    )
    yield Fix(fix, changes)
