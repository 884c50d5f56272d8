"""``judge-test --labels``: validate a judge against labels, as text and JSON."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.base.errors import UsageError
from engine.base.text import count_of
from grubrics_tui.commands.shared.evaluation_text import (
    FOLDER,
    count_reporter,
    format_estimate,
    wrapped,
)
from grubrics_tui.commands.shared.output import answer, judge_log_hidden

if TYPE_CHECKING:
    from engine.evaluation.labels import Agreement
    from engine.judge.settings import JudgeSettings
    from engine.recipe.recipe import Recipe
    from engine.statistics.intervals import Estimate

_LABELS = {True: "pass", False: "fail"}


def print_agreement(recipe: Recipe, labels: Path, as_json: bool) -> int:
    """Score the labeled answers, print how often the judge agrees, and return the exit code.

    UsageError for a bad file, without credentials, and for a config without a judge.
    """
    from engine.evaluation.labels import judge_labels, labels_folder, read_labels
    from engine.judge.settings import JudgeSettings
    from engine.recipe.scoring import asks_judge

    if not asks_judge(recipe):
        raise UsageError(f"{recipe.path}: does not use a judge")
    rows, settings = read_labels(labels), JudgeSettings(**recipe.section("judge"))
    folder, report = labels_folder(FOLDER, labels, settings), count_reporter(as_json)
    with judge_log_hidden():
        agreement = judge_labels(
            rows, folder, settings, os.environ, lambda done: report(done, len(rows))
        )
    value = {"recipe": recipe.name, "labels": str(labels), "n": len(rows), "dir": str(folder)}
    lines = _lines(agreement, settings, f"{labels}: {count_of(len(rows), 'answer')}", folder)
    answer({**value, **_json(agreement)}, "\n".join(lines), as_json)
    return 0 if agreement.accuracy is not None else 1


def _lines(agreement: Agreement, settings: JudgeSettings, head: str, folder: Path) -> Iterator[str]:
    from engine.evaluation.labels import PASS
    from engine.judge.providers import asks_server

    model = f" {settings.model}" if asks_server(settings.provider) else ""
    yield from wrapped(f"{head}, judged by {settings.provider}{model}")
    yield ""
    for name, estimate in (("accuracy", agreement.accuracy), ("kappa", agreement.kappa)):
        yield f"{name:8}  {_format(estimate)}"
    if agreement.table:
        yield ""
        yield "              judge: pass  judge: fail"
        for label, name in _LABELS.items():
            passed, failed = (agreement.table.get((label, decision), 0) for decision in _LABELS)
            yield f"label: {name}  {passed:11,}  {failed:11,}"
    yield ""
    if agreement.unscored:
        why = f": {agreement.why_unscored}" if agreement.why_unscored else ""
        yield from wrapped(f"unscored, left out: {agreement.unscored}{why}")
    yield from wrapped(
        f"pass: a score of at least {PASS:g}; 95% intervals; "
        f"{count_of(agreement.calls, 'call')} of the judge; scores: {folder}"
    )


def _format(estimate: Estimate | None) -> str:
    return "-" if estimate is None else format_estimate(estimate)


def _json(agreement: Agreement) -> dict[str, Any]:
    return {
        "accuracy": _estimate_json(agreement.accuracy),
        "kappa": _estimate_json(agreement.kappa),
        "table": [
            {"label": label, "judge": decision, "count": agreement.table.get((label, decision), 0)}
            for label in _LABELS
            for decision in _LABELS
        ],
        "unscored": agreement.unscored,
        "why_unscored": agreement.why_unscored,
        "calls": agreement.calls,
    }


def _estimate_json(estimate: Estimate | None) -> dict[str, Any] | None:
    if estimate is None:
        return None
    interval = None if estimate.low is None else [estimate.low, estimate.high]
    return {"value": estimate.mean, "ci": interval, "n": estimate.n}
