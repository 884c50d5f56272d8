"""``grubrics-tui report``: the files that it writes, and what it refuses before it writes any."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from grubrics_tui.cli import main
from tests.engine.report.run_report.reported_runs import make_run


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two runs."""
    monkeypatch.chdir(tmp_path)
    for name, lr in (("base", 1e-6), ("hot", 3e-6)):
        make_run(tmp_path, name, lr=lr)
    return tmp_path


def report(*words: str, patch: pytest.MonkeyPatch) -> int:
    patch.setattr("sys.argv", ["grubrics-tui", "report", *words])
    with pytest.raises(SystemExit) as exited:
        main()
    return int(str(exited.value.code or 0))


def test_one_html_file_is_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {*Path().rglob("*")}
    assert report("base", "hot", "-o", "out.html", patch=monkeypatch) == 0
    assert {*Path().rglob("*")} - before == {Path("out.html")}
    assert Path("out.html").read_text().startswith("<!doctype html>")
    assert capsys.readouterr().out.startswith("wrote out.html\n")


def test_a_file_that_is_replaced_is_called_that(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("out.html").write_text("old")
    words = ["-o", "out.html", "--markdown", "out.md", "--svg", "charts"]
    report("base", *words, patch=monkeypatch)
    first = capsys.readouterr().out.splitlines()
    assert first[:3] == ["replaced out.html", "wrote out.md", "wrote charts/reward-mean.svg"]
    report("base", *words, "--json", patch=monkeypatch)
    answer = json.loads(capsys.readouterr().out)
    assert answer["replaced"] == answer["written"]


def test_all_forms_at_once_as_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["-o", "out.html", "--markdown", "out.md", "--svg", "charts", "--json"]
    assert report("base", "hot", *words, patch=monkeypatch) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["written"][:3] == ["out.html", "out.md", "charts/reward-mean.svg"]
    assert answer["missing"] and answer["markdown"] is None
    assert all(Path(path).is_file() for path in answer["written"])


def test_markdown_is_printed_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report("base", "--markdown", "-", "--pr", patch=monkeypatch) == 0
    assert capsys.readouterr().out.startswith("## base\n")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["base"], "name what to write"),
        (["base", "-o", "x.html", "--pr"], "--pr shortens the Markdown"),
        (["base", "-o", "x.html", "--date", "31.1.2026"], "--date 31.1.2026: expected YYYY-MM-DD"),
        (["base", "-o", "x.html", "--samples", "-1"], "--samples -1 must be at least 0"),
        (["base", "base", "-o", "x.html"], "run 'base' is named twice"),
        (["bose", "-o", "x.html"], "base"),
        (["base", "-o", "no/x.html"], "there is no folder no"),
        (["base", "-o", "runs"], "is a folder"),
        (["base", "-o", "x.html", "--svg", "runs/base/manifest.json"], "is a file"),
        (["base", "-o", "x.html", "--metric", "reward/meen"], "reward/mean"),
        (["base", "-o", "x.html", "--log", "reward/meen"], "reward/mean"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is(
    words: Sequence[str],
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert report(*words, patch=monkeypatch) == 2
    assert problem in capsys.readouterr().err
    assert not Path("x.html").exists()


def test_more_groups_than_colors_are_refused(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [make_run(project, f"run-{n}", lr=n * 1e-5).id for n in range(1, 10)]
    assert report(*names, "-o", "x.html", patch=monkeypatch) == 2
    assert "at most 8" in capsys.readouterr().err


@pytest.mark.waits
def test_another_process_writes_the_same_bytes() -> None:
    for seed in ("1", "2"):
        words = ["report", "base", "hot", "-o", f"{seed}.html", "--markdown", f"{seed}.md"]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-m", "grubrics_tui", *words]
        subprocess.run(command, check=True, env=environment, capture_output=True)
    assert Path("1.html").read_bytes() == Path("2.html").read_bytes()
    assert Path("1.md").read_bytes() == Path("2.md").read_bytes()
