"""``grubrics-tui judge-test``: test the judge of a run or a config."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.base.errors import UsageError
from engine.base.quantities import format_count, format_seconds
from engine.run.run import Run, runs_root
from grubrics_tui.commands.shared import Command, Task, answer, option, options
from grubrics_tui.commands.shared.evaluation_text import (
    FOLDER,
    count_reporter,
    format_estimate,
    wrapped,
)
from grubrics_tui.commands.shared.finding_text import finding_lines
from grubrics_tui.commands.shared.output import judge_log_hidden
from grubrics_tui.commands.shared.trust import trusted_source

if TYPE_CHECKING:
    from engine.base.intervals import Estimate
    from engine.config.load import Config
    from engine.doctor.judge_test import Advice, JudgeTest
    from engine.measure.labels import Agreement
    from engine.reward.judge.settings import JudgeSettings
    from engine.reward.judge.trial import Probe, Trial


_MOST_CALLS = 1000


def judge_test(
    source: options.SourceArgument,
    overrides: options.OverridesArgument = None,
    calls: Annotated[int, option("N", "Calls of the latency test, at the run's concurrency")] = 8,
    question: Annotated[
        str, option("TEXT", "Your question (default: a built-in one on diabetes)")
    ] = "",
    answers: Annotated[
        list[str] | None,
        option("TEXT", "Answer to your question; repeat it from best to worst", "--answer"),
    ] = None,
    rubric: Annotated[
        str,
        option(
            "TEXT",
            "Rubric for your question, one item per line: 'Points: 2, Item: Mentions glucose'",
        ),
    ] = "",
    labels: Annotated[
        Path | None, option("FILE", "Score the labeled answers of a JSONL file: accuracy and kappa")
    ] = None,
    trust: options.TrustOption = False,
    runs: options.RunsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Test the judge: one call, then a latency test.

    Uses the judge settings of the config or run. Exits with 1 if a call fails, or if the scores do
    not separate a right answer from a wrong one. With --labels, compares the judge with labels
    instead, and exits with 1 if no answer gets a score.
    """
    from engine.doctor.judge_test import run_test

    if labels is not None:
        if question or answers or rubric:
            raise UsageError("--labels replaces --question, --answer and --rubric")
        config, _ = trusted_source(source, overrides or [], runs_root(runs), trust)
        raise typer.Exit(_print_agreement(config, labels, as_json))
    if not 0 <= calls <= _MOST_CALLS:
        raise UsageError(f"--calls {calls}: must be 0 to {_MOST_CALLS}")
    probe = _own_probe(question, answers or [], rubric)
    config, run = trusted_source(source, overrides or [], runs_root(runs), trust)
    with judge_log_hidden():
        result = run_test(config, os.environ, calls, probe)
    note = None if run is None else _endpoint_note(run)
    lines = [*_format_test(result, is_builtin=probe is None), *([f"note: {note}"] if note else [])]
    head = {"config": config.name, "run": run.id if run else None, "note": note}
    answer({**head, **result.to_json()}, "\n".join(lines), as_json)
    raise typer.Exit(1 if result.findings else 0)


def _own_probe(question: str, answers: list[str], rubric: str) -> Probe | None:
    """Return the user's own question, None without one. UsageError for half of one."""
    from engine.reward.judge.trial import Probe

    given = {"--question": question, "--answer": answers, "--rubric": rubric}
    missing = [name for name, value in given.items() if not value]
    if len(missing) == len(given):
        return None
    if missing:
        raise UsageError(f"{', '.join(missing)} missing: your own question needs all three")
    return Probe(question, tuple(answers), rubric)


def _endpoint_note(run: Run) -> str | None:
    """Name the variables that set the endpoint and differ from those of the run's launch."""
    from engine.base.judge_providers import address_variables
    from engine.run.host.environment import steering_variables

    recorded, now = run.read_manifest().environment.get("variables"), steering_variables(os.environ)
    at_launch = recorded if isinstance(recorded, dict) else {}
    names = [name for name in address_variables() if at_launch.get(name) != now.get(name)]
    verb = "differs" if len(names) == 1 else "differ"
    return f"{' and '.join(names)} {verb} from the environment of the launch" if names else None


def _format_test(test: JudgeTest, *, is_builtin: bool) -> Iterator[str]:
    from engine.base.judge_providers import asks_server

    settings = test.settings
    model = f" {settings.model}" if asks_server(settings.provider) else ""
    yield f"judge: {settings.provider}{model}{f' at {test.endpoint}' if test.endpoint else ''}"
    yield (
        f"limits: concurrency {settings.max_concurrent}, {settings.timeout_s:g} s per call, "
        f"{settings.max_tokens} tokens"
    )
    if test.trial is not None:
        yield from _format_trial(test.trial, is_builtin)
    if test.advice is not None:
        yield _format_advice(test.advice)
    if test.findings:
        yield ""
        yield from finding_lines(test.findings)


def _format_trial(trial: Trial, is_builtin: bool) -> Iterator[str]:
    first = trial.first
    if first.scores is None or first.latency_s is None:
        yield "one call: no scores"
        return
    scores = " and ".join(f"{score:.2f}" for score in first.scores)
    label = "right and wrong answer score" if is_builtin else "scores"
    yield f"one call: {format_seconds(first.latency_s)}; {label} {scores}"
    if not trial.more:
        return
    calls = format_count(len(trial.more), "call")
    line = f"{calls} at concurrency {trial.at_once}: {format_seconds(trial.seconds)}"
    if trial.p50 is None or trial.p95 is None:
        line += "; no replies"
    else:
        line += f"; latency p50 {format_seconds(trial.p50)}, p95 {format_seconds(trial.p95)}"
    if trial.kinds:
        counts = ", ".join(f"{count} {kind}" for kind, count in trial.kinds.most_common())
        line += f"; failed: {counts}"
    yield line


def _format_advice(advice: Advice) -> str:
    step = (
        f"a step makes {advice.calls} calls of {format_seconds(advice.latency)}: at concurrency "
        f"{advice.recommended}, at least {format_seconds(advice.seconds)}"
    )
    override = f"judge.max_concurrent={advice.recommended}"
    if advice.allowed is not None:
        return f"{step}; set {override}: the server accepts {advice.allowed} concurrent calls"
    if advice.recommended == advice.limit:
        return f"{step}; {override} is sufficient"
    return f"{step}; raise {override} (now {advice.limit}) if the server allows it (try --calls)"


_LABELS = {True: "pass", False: "fail"}


def _print_agreement(config: Config, labels: Path, as_json: bool) -> int:
    """Score the labeled answers, print how often the judge agrees, and return the exit code.

    UsageError for a bad file, without credentials, and for a config without a judge.
    """
    from engine.config.scoring import asks_judge
    from engine.measure.labels import judge_labels, labels_folder, read_labels
    from engine.reward.judge.settings import JudgeSettings

    if not asks_judge(config):
        raise UsageError(f"{config.path}: does not use a judge")
    rows, settings = read_labels(labels), JudgeSettings(**config.section("judge"))
    folder, report = labels_folder(FOLDER, labels, settings), count_reporter(as_json)
    with judge_log_hidden():
        agreement = judge_labels(
            rows, folder, settings, os.environ, lambda done: report(done, len(rows))
        )
    value = {"config": config.name, "labels": str(labels), "n": len(rows), "dir": str(folder)}
    lines = _agreement_lines(
        agreement, settings, f"{labels}: {format_count(len(rows), 'answer')}", folder
    )
    answer({**value, **_agreement_json(agreement)}, "\n".join(lines), as_json)
    return 0 if agreement.accuracy is not None else 1


def _agreement_lines(
    agreement: Agreement, settings: JudgeSettings, head: str, folder: Path
) -> Iterator[str]:
    from engine.base.judge_providers import asks_server
    from engine.measure.labels import PASS

    model = f" {settings.model}" if asks_server(settings.provider) else ""
    yield from wrapped(f"{head}, judged by {settings.provider}{model}")
    yield ""
    for name, estimate in (("accuracy", agreement.accuracy), ("kappa", agreement.kappa)):
        yield f"{name:8}  {'-' if estimate is None else format_estimate(estimate)}"
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
        f"{format_count(agreement.calls, 'call')} of the judge; scores: {folder}"
    )


def _agreement_json(agreement: Agreement) -> dict[str, Any]:
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
    return {"value": estimate.mean, "ci": estimate.interval, "n": estimate.n}


COMMAND = Command(judge_test, Task.PREPARE)
