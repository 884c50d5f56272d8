"""``grubrics-tui judge-test``: test the judge of a run or a config."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.base.errors import UsageError
from engine.base.times import seconds
from engine.runs.rundir import RunDir, runs_root
from grubrics_tui.commands.shared.command import Command, Task
from grubrics_tui.commands.shared.config_source import recipe_of_source
from grubrics_tui.commands.shared.finding_text import finding_lines
from grubrics_tui.commands.shared.options import (
    JsonOption,
    OverridesArgument,
    RunsOption,
    SourceArgument,
    TrustOption,
)
from grubrics_tui.commands.shared.output import answer, judge_log_hidden
from grubrics_tui.commands.shared.trust import (
    require_code_trust,
    require_config_trust,
    require_trust,
)

if TYPE_CHECKING:
    from engine.doctor.judge_test import Advice, JudgeTest
    from engine.judge.trial import Probe, Trial


_MOST_CALLS = 1000


def judge_test(
    source: SourceArgument,
    overrides: OverridesArgument = None,
    calls: Annotated[
        int, typer.Option(metavar="N", help="Calls of the latency test, at the run's concurrency")
    ] = 8,
    question: Annotated[
        str,
        typer.Option(metavar="TEXT", help="Your question (default: a built-in one on diabetes)"),
    ] = "",
    answers: Annotated[
        list[str] | None,
        typer.Option(
            "--answer", metavar="TEXT", help="Answer to your question; repeat it from best to worst"
        ),
    ] = None,
    rubric: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="Rubric for your question, one item per line: 'Points: 2, Item: Mentions glucose'",
        ),
    ] = "",
    trust: TrustOption = False,
    runs: RunsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Test the judge: one call, then a latency test.

    Uses the judge settings of the run or config. Exits with 1 if a call fails, or if the scores do
    not tell a right answer from a wrong one.
    """
    from engine.doctor.judge_test import run_test

    if not 0 <= calls <= _MOST_CALLS:
        raise UsageError(f"--calls {calls}: must be 0 to {_MOST_CALLS}")
    own = _own_probe(question, answers or [], rubric)
    recipe, run = recipe_of_source(source, overrides or [], runs_root(runs))
    if run is not None:
        require_trust(run, trust, executes=True)
    else:
        require_config_trust(source, trust)
        require_code_trust(recipe, trust)
    with judge_log_hidden():
        result = run_test(recipe, os.environ, calls, own)
    note = _moved(run) if run is not None else None
    head = {"recipe": recipe.name, "run": run.id if run else None, "note": note}
    text = "\n".join([*_lines(result, own), *([f"note: {note}"] if note else [])])
    answer({**head, **_json(result, own)}, text, as_json)
    raise typer.Exit(1 if result.findings else 0)


def _own_probe(question: str, answers: list[str], rubric: str) -> Probe | None:
    from engine.judge.trial import Probe

    given = {"--question": question, "--answer": answers, "--rubric": rubric}
    missing = [name for name, value in given.items() if not value]
    if len(missing) == len(given):
        return None
    if missing:
        raise UsageError(f"{', '.join(missing)} missing: your own question needs all three")
    return Probe(question, tuple(answers), rubric)


def _moved(run: RunDir) -> str | None:
    """Return a remark if variables that set the endpoint differ from those of the run's launch."""
    from engine.host.environment import environment_snapshot
    from engine.judge.providers import address_variables

    recorded = (run.read_manifest().get("environment") or {}).get("variables") or {}
    here = environment_snapshot()["variables"]
    moved = [name for name in address_variables() if recorded.get(name) != here.get(name)]
    verb = "differs" if len(moved) == 1 else "differ"
    return f"{' and '.join(moved)} {verb} from the environment of the launch" if moved else None


def _lines(found: JudgeTest, own: Probe | None) -> Iterator[str]:
    from engine.judge.providers import asks_server

    settings = found.settings
    where = f" at {found.endpoint}" if found.endpoint else ""
    model = f" {settings.model}" if asks_server(settings.provider) else ""
    yield f"judge: {settings.provider}{model}{where}"
    yield (
        f"limits: concurrency {settings.max_concurrent}, {settings.timeout_s:g} s per call, "
        f"{settings.max_tokens} tokens"
    )
    if found.trial is not None:
        yield from _measured(found.trial, own)
    if found.advice is not None:
        yield _advice(found.advice)
    if found.findings:
        yield ""
        yield from finding_lines(found.findings)


def _measured(trial: Trial, own: Probe | None) -> Iterator[str]:
    first = trial.first
    if first.scores is None or first.latency_s is None:
        yield "one call: no scores"
        return
    scores = " and ".join(f"{score:.2f}" for score in first.scores)
    scored = f"right and wrong answer score {scores}" if own is None else f"scores {scores}"
    yield f"one call: {seconds(first.latency_s)}; {scored}"
    if trial.more:
        made = f"{len(trial.more)} calls at concurrency {trial.at_once}: {seconds(trial.seconds)}"
        kinds = [f"{count} {kind}" for kind, count in trial.kinds.most_common()]
        failed = f"; failed: {', '.join(kinds)}" if kinds else ""
        yield f"{made}{_latency(trial)}{failed}"


def _latency(trial: Trial) -> str:
    if trial.p50 is None or trial.p95 is None:
        return "; no replies"
    return f"; latency p50 {seconds(trial.p50)}, p95 {seconds(trial.p95)}"


def _advice(advice: Advice) -> str:
    step = (
        f"a step makes {advice.calls} calls of {seconds(advice.latency)}: at concurrency "
        f"{advice.recommended}, at least {seconds(advice.seconds)}"
    )
    change = f"judge.max_concurrent={advice.recommended}"
    if advice.allowed is not None:
        return f"{step}; set {change}: the server accepts {advice.allowed} concurrent calls"
    if advice.recommended == advice.limit:
        return f"{step}; {change} is sufficient"
    return f"{step}; raise {change} (now {advice.limit}) if the server allows it (try --calls)"


def _json(found: JudgeTest, own: Probe | None) -> dict[str, Any]:
    settings = found.settings
    return {
        "ok": not found.findings,
        "provider": settings.provider,
        "model": settings.model,
        "endpoint": found.endpoint,
        "limits": {
            name: getattr(settings, name)
            for name in ("max_concurrent", "timeout_s", "max_tokens", "temperature")
        },
        "trial": None if found.trial is None else _trial_json(found.trial, own),
        "advice": None if found.advice is None else asdict(found.advice),
        "findings": [finding.to_json() for finding in found.findings],
    }


def _trial_json(trial: Trial, own: Probe | None) -> dict[str, Any]:
    from engine.judge.trial import LONG_RIGHT

    first = own or LONG_RIGHT
    scores = trial.first.scores
    return {
        "question": first.question,
        "answers": list(first.answers),
        "rubric": first.rubric,
        "scores": None if scores is None else list(scores),
        "latency_s": trial.first.latency_s,
        "calls": len(trial.more),
        "at_once": trial.at_once,
        "seconds": trial.seconds,
        "p50_s": trial.p50,
        "p95_s": trial.p95,
        "failed": dict(trial.kinds),
    }


COMMAND = Command(judge_test, Task.PREPARE)
