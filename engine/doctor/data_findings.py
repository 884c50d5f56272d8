"""The checklist's answers about the data that a run was trained on, as findings.

Nothing is checked here that ``engine.preflight`` does not check: this names the class that an
answer belongs to. What a launch refuses is left out, and what depends on the moment: it may have
been otherwise when the run began.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

from engine.base.errors import UsageError
from engine.base.files import fingerprints
from engine.findings.finding import Change, Evidence, Finding, Remedy, Severity
from engine.preflight import dataset, holdout
from engine.preflight.check import Check, Subject
from engine.recipe.compose import effective
from engine.recipe.recipe import Recipe, load_recipe
from engine.runs.rundir import RunDir

Question = tuple[Callable[[Subject], Check], str, str]

QUESTIONS: tuple[Question, ...] = (
    (dataset.check, "data_missing_or_schema.file", "A data file is missing or unusable"),
    (holdout.check, "validation_is_training", "Validation questions are trained on"),
)
_OVERRIDE = re.compile(r"[a-z_.]+=\S+")


def data_findings(run: RunDir) -> list[Finding]:
    """What is wrong with the very data a run was trained on.

    Empty when a file is gone or is not what it was at the launch: nothing can be said then.
    """
    if not _is_as_launched(run):
        return []
    try:
        recipe = load_recipe(str(run.recipe), env={})
    except (UsageError, OSError):
        return []
    return _answers(recipe, run.path.parent)


def _is_as_launched(run: RunDir) -> bool:
    recorded = run.read_manifest("data").get("data") or {}
    now = fingerprints(Path(name) for name in recorded)
    return bool(recorded) and now == {name: facts["sha256"] for name, facts in recorded.items()}


def _answers(recipe: Recipe, runs: Path) -> list[Finding]:
    try:
        subject = Subject(effective(recipe, runs / "attempt_1"), {}, runs)
    except Exception:  # A recipe that cannot be completed has been refused with its reason.
        return []
    return [found for ask, id, title in QUESTIONS for found in _asked(subject, ask, id, title)]


def _asked(
    subject: Subject, ask: Callable[[Subject], Check], id: str, title: str
) -> Iterator[Finding]:
    try:
        answer = ask(subject)
    except Exception:  # A question that cannot be asked has no answer; others may have.
        return
    if answer.status not in ("warn", "fail"):
        return
    failed = answer.status == "fail"
    yield Finding(
        id,
        Severity.ERROR if failed else Severity.INFO,
        title,
        f"{answer.message}.",
        (Evidence(answer.message, str(subject.recipe.path)),),
        tuple(_remedies(subject.recipe, answer.fix)),
        confidence=0.8,
        source=f"checklist: {answer.id}",
    )


def _remedies(recipe: Recipe, fix: str | None) -> Iterator[Remedy]:
    """A fix is one command, or overrides of the recipe."""
    if not fix:
        return
    words = fix.split()
    if not all(_OVERRIDE.fullmatch(word) for word in words):
        yield Remedy(fix, (Change("command", "checklist", fix),))
        return
    pairs = [word.split("=", 1) for word in words]
    changes = tuple(
        Change("config", key, yaml.safe_load(after), recipe.get(key)) for key, after in pairs
    )
    yield Remedy(fix, changes)
