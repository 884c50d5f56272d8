"""Nothing secret is published: every shape of a secret, wherever a run holds text."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.config.secrets import refuse_secret
from engine.report.run_report.charts import draw_file
from engine.report.run_report.pages import render_html, render_markdown, render_short
from engine.report.run_report.publish import Publisher, published_value
from engine.run.finding import Finding, Severity
from engine.run.manifest import Manifest
from engine.run.run import Run
from engine.run.state import RunState
from tests.engine.base.test_masking import IN_CONTEXT, SHAPES
from tests.engine.report.run_report.reported_runs import (
    START,
    log_steps,
    make_run,
    report_of,
    usual_metrics,
)

CONFIG = {
    "data.api_key": "opaque1",
    "model.access_token": "opaque2",
    "x.signature": "opaque3",
    "x.credential": "opaque4",
    "x.private_key": "opaque5",
    "x.auth": "opaque6",
    "x.HF_TOKEN": "opaque7",
    "judge.base_url": "https://user:opaque8@judge.example/v1",
    "guard.webhook": "https://hooks.example/opaque9",
    "guard.url": "https://h.example/x?code=opaque10",
    "guard.slack": "https://hooks.slack.com/services/opaque11",
    "guard.login": "me:opaque12@db.example",
    "guard.command": ["curl", "--token", "opaque13"],
    "guard.deep": {"nested": {"password": "opaque14"}},
}
"""Config values that are refused, by their keys or their shapes."""
TEXTS = {
    "a login without a scheme": ("cannot reach me:{}@db.example:5432", "hidden21"),
    "a webhook": ("POST https://discord.com/api/webhooks/{} failed", "1/hidden22"),
    "a query": ("GET https://h.example/x?jwt={}", "hidden23"),
    **{name: ("x {} y", shape) for name, shape in SHAPES.items()},
    **IN_CONTEXT,
}


@pytest.mark.parametrize("key", CONFIG)
def test_a_value_that_a_config_may_not_hold_is_masked(key: str) -> None:
    with pytest.raises(UsageError):
        refuse_secret("x", key, CONFIG[key])
    assert "opaque" not in str(published_value(key, CONFIG[key]))


@pytest.mark.parametrize("name", TEXTS)
def test_a_secret_in_a_text_is_masked(name: str) -> None:
    around, secret = TEXTS[name]
    assert secret not in Publisher().text(around.format(secret))


def outputs(run: Run, **choice: Any) -> Iterator[str]:
    """All that a report of a run can be."""
    report = report_of(run, **choice)
    yield html.unescape(render_html(report))
    yield html.unescape(render_markdown(report))
    yield html.unescape(render_short(report))
    yield from (html.unescape(draw_file(chart)) for chart in report.charts)


def planted(tmp_path: Path, text: str) -> Run:
    """A run with a text in its config, command, log, metrics, findings, rollouts and reward."""
    config = {
        key: {"value": value, "origin": "file"}
        for key, value in {**CONFIG, "grubrics.description": text, "grubrics.seed": 1}.items()
    }
    changes = [
        {"key": key, "before": "plain", "after": value, "origin": "cli"}
        for key, value in {**CONFIG, "grubrics.description": text}.items()
    ]
    failed = RunState("failed", started=START, ended=START + 9, step=1, reason=f"died: {text}")
    run = make_run(
        tmp_path,
        "leaky",
        steps=1,
        state=failed,
        config=config,
        changes=changes,
        description=text,
        argv=["python", "train.py", text],
        git={"commit": text},
        environment={"python": text, "packages": {"torch": text}},
        data={"data/train.parquet": {"sha256": text}},
        fingerprint="f" * 64,
    )
    log_steps(run, [{**usual_metrics(1, 1, 1e-6), f"reward/{text}": 1.0}])
    run.attempt(1).console.write_text(f"RuntimeError: {text}\nValueError: {text}\n")
    dump = run.attempt(1).path / "rollouts" / "1.jsonl"
    texts = {"input": text, "output": f"{'long ' * 900}{text}{' text' * 900}{text}", "gts": text}
    row = {"step": 1, "uid": "g_0_0", "score": 1.0, **texts}
    dump.write_text(json.dumps(row) + "\n")
    records = run.attempt(1).path / "reward.jsonl"
    records.unlink()
    record = {"v": 1, "t": 1.0, "split": "train", "step": 1, "group": "g", "rollout": 0}
    jsonl.append(records, {**record, "question_id": text, "reward": 1.0, "error": None})
    return run


def test_no_secret_that_a_run_holds_is_in_any_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_OWN_TOKEN", "opaque-value-of-a-variable-1")
    everything = "\n".join(around.format(secret) for around, secret in TEXTS.values())
    run = planted(tmp_path, f"{everything}\nopaque-value-of-a-variable-1")
    secrets = ["opaque-value-of-a-variable", *(secret for _, secret in TEXTS.values())]
    secrets += [f"opaque{number}" for number in range(1, len(CONFIG) + 1)]
    for text in outputs(run):
        assert [secret for secret in secrets if secret in text] == []


def test_a_secret_at_the_edge_of_an_excerpt_is_masked() -> None:
    secret = SHAPES["openai"]
    for before in range(2_350, 2_410, 7):
        excerpt = Publisher().excerpt(f"{'x ' * (before // 2)}{secret}{' y' * 400_000}")
        assert secret[:12] not in excerpt and len(excerpt) < 4_000


def test_the_end_of_a_long_text_is_shown() -> None:
    excerpt = Publisher().excerpt(f"begin {'x ' * 500_000} the answer is 4")
    assert excerpt.startswith("begin x") and excerpt.endswith("the answer is 4")
    assert "996,422 characters are left out" in excerpt


def test_paths_are_relative_to_the_project(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", config_path=f"{tmp_path}/configs/x.yaml")
    assert not [text for text in outputs(run) if str(tmp_path) in text]


def test_a_home_is_written_as_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    publisher = Publisher.of([Manifest(cwd=f"{tmp_path}/project")])
    assert publisher.text(f"{tmp_path}/project/x and {tmp_path}/y") == "x and ~/y"


def test_texts_are_published_at_any_depth_of_tuples_and_records() -> None:
    words = "see /home/ada/notes"
    publisher = Publisher((), "/home/ada")
    value = (Finding("a", Severity.ERROR, words, ""), RunState("failed", reason=words))
    finding, state = publisher.all(value)
    assert (finding.title, state.reason) == ("see ~/notes", "see ~/notes")
