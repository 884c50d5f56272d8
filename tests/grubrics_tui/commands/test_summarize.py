"""``summarize`` prints a row for each source, as text, CSV and Markdown."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from grubrics_tui.cli import app
from tests.grubrics_tui.sample_run import SampleRun


def run_command(*words: str) -> Result:
    return CliRunner().invoke(app, ["summarize", *words])


@pytest.fixture(autouse=True)
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"reward": reward, "latency_ms": 5.0} for reward in (0.0, 1.0, 1.0, 1.0)]
    Path("a.jsonl").write_text("\n".join(map(json.dumps, rows)))


@pytest.mark.row("H28")
def test_csv_and_markdown_have_the_same_cells() -> None:
    head, row = csv.reader(run_command("a.jsonl", "--csv").stdout.splitlines())
    assert dict(zip(head, row, strict=True))["reward_mean"] == "0.75"
    lines = run_command("a.jsonl", "--markdown").stdout.splitlines()
    assert [cell.strip() for cell in lines[2].split("|")[1:-1]] == row


def test_text_has_a_row_for_each_source() -> None:
    lines = run_command("a.jsonl", "a.jsonl").stdout.splitlines()
    assert len(lines) == 3 and lines[1].split()[:4] == ["a.jsonl", "4", "0", "0.75"]


def test_a_run_without_rollouts_is_refused() -> None:
    SampleRun.create(Path("runs"), "night")
    assert "has recorded no training rollouts" in str(run_command("night").exception)


@pytest.mark.parametrize(
    "words", [("--seed", "-1"), ("--resamples", "3"), ("--csv", "--markdown")], ids=" ".join
)
def test_unusable_options_are_named(words: tuple[str, ...]) -> None:
    assert words[0] in str(run_command("a.jsonl", *words).exception)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nope.jsonl",), "nope.jsonl: no such file"),
        (("a.jsonl", "second", "third"), "run 'second' does not exist; known: night; run 'third'"),
    ],
)
def test_what_does_not_exist_is_named(words: tuple[str, ...], says: str) -> None:
    SampleRun.create(Path("runs"), "night")
    assert says in str(run_command(*words).exception)
